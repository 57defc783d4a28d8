"""The verb `eval`: scores of a run, as text or JSON."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from glassformer.data.formats.delimiter import Delimiter
from glassformer.settings import Settings
from glassformer.tasks.registry import TaskName
from glassformer.terminal import make_console


@dataclass(frozen=True, kw_only=True)
class EvalSettings(Settings):
    """Score a run on its held-out data or on your files, beside simple baselines.

    To score a model that Glassformer did not train, give --task and --data.
    """

    run: Positional[Path]
    """The run folder; with --task, any model folder or a hub id owner/name."""
    data: tuple[Path, ...] = ()
    """Files to score, in the same format as the training data (default: the run's held-out data)."""
    split: Literal["valid", "test"] | None = None
    """Which held-out data to score (default: the test set if the run has one, otherwise the validation set)."""
    task: TaskName | None = None
    """Task of the model, if its folder does not say."""
    json: bool = False
    """Print the scores as one JSON object."""
    device: str | None = None
    """Device to run on, such as cpu or cuda (default: cpu)."""
    engine: Literal["auto", "on", "off"] = "auto"
    """Whether to compile the model for speed. auto: only if that saves time overall."""

    num_beams: int | None = None
    """Number of beams (default: the model's own setting)."""
    source_column: str | None = None
    """Column of the source text (default: as in training)."""
    target_column: str | None = None
    """Column of the target text (default: as in training)."""
    text_columns: tuple[str, ...] = ()
    """Column of the text, or the two columns of a text pair (default: as in training)."""
    text_column: str | None = None
    """Column of the text, for a language model (default: as in training)."""
    label_column: str | None = None
    """Column of the label (default: as in training)."""
    image_column: str | None = None
    """Column of the image path (default: as in training)."""
    caption_column: str | None = None
    """Column of the caption (default: as in training)."""
    question_column: str | None = None
    """Column of the question about an image (default: as in training)."""
    answer_column: str | None = None
    """Column of the answer (default: as in training)."""
    max_len: int | None = None
    """Maximum length of a text in tokens (default: as in training)."""
    context: int | None = None
    """Context length of a language model in tokens (default: as in training)."""
    truncate: bool = False
    """Truncate longer texts; without this flag they are an error."""
    fill: Literal["previous", "interpolate"] | None = None
    """How to fill missing values or dates of a series (default: as in training)."""
    date_format: str | None = None
    """Date format of a series, such as %d/%m/%Y (default: as in training)."""
    decimal: Literal["point", "comma"] | None = None
    """Whether the numbers of a series are written 1,234.5 or 1.234,5 (default: as in training)."""
    skip_empty: bool = False
    """Skip examples with an empty text, and say how many."""
    skip_corrupt: bool = False
    """Skip files that cannot be read as images, and list them."""
    header: bool | None = None
    """Whether the first row of a table holds the column names (default: as in training, otherwise detected)."""
    delimiter: Delimiter | None = None
    """Delimiter between the cells of a table (default: detected)."""
    quotes: bool | None = None
    """Whether quotes enclose cells or are part of the text (default: as in training, otherwise detected)."""
    encoding: str | None = None
    """Encoding of text files, such as cp949 (default: detected)."""
    sheet: str | None = None
    """Sheet of an .xlsx file (default: the first)."""
    max_line_mb: int | None = None
    """Maximum size of a line or cell in megabytes; a longer one is an error (default: 16)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_beams", "max_len", "context"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")

    @property
    def changes(self) -> dict[str, Any]:
        """The given flags that override the training settings, by field name."""
        about_the_call = ("run", "data", "split", "task", "json", "device", "engine", "num_beams")
        given = {name: value for name, value in self.to_dict().items() if name not in about_the_call}
        return {
            name: value for name, value in given.items() if value or (name in ("header", "quotes") and value is False)
        }


def main(settings: EvalSettings) -> None:
    from glassformer.tasks.evaluate import evaluate
    from glassformer.training.waiting import ProgressBars
    from glassformer.verbs.train import show_scores

    with ProgressBars(make_console(stderr=True)) as bars:
        scores = evaluate(
            str(settings.run),
            settings.data,
            split=settings.split,
            task=settings.task,
            device=settings.device,
            num_beams=settings.num_beams,
            engine=settings.engine,
            follow=bars,
            **settings.changes,
        )
    if not settings.json:
        if scores.engine:
            print(f"engine: {scores.engine}", file=sys.stderr)
        show_scores(scores, make_console())
        return
    said = {
        "run": str(settings.run),
        "data": [str(file) for file in settings.data] or settings.split or "held out",
        "count": scores.count,
        "unit": scores.unit,
        "metrics": scores.metrics,
        "baselines": scores.baselines,
        "notes": scores.notes,
        "engine": scores.engine,
    }
    print(json.dumps(said, ensure_ascii=False))
