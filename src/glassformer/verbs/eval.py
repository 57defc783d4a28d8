"""The verb `eval`: the scores of a run, in words or as JSON."""

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
    """Score a run again, on what it held out or on files of yours, beside what simple methods reach on its own data.

    A model that was not trained here is scored, too, if its task is named and files are given.
    """

    run: Positional[Path]
    """The run folder; with --task, any model folder or a hub id owner/name."""
    data: tuple[Path, ...] = ()
    """Files to score, in the format that the run was trained on; if not given, what the run held out."""
    split: Literal["valid", "test"] | None = None
    """Which of the run's own examples; the test set if it has one, and else the validation set, if not given."""
    task: TaskName | None = None
    """What the model is for, if its folder does not say."""
    json: bool = False
    """Print the scores as one JSON object."""
    device: str | None = None
    """Where to run, such as cpu or cuda; the cpu if not given."""
    engine: Literal["auto", "on", "off"] = "auto"
    """Whether to compile the model for speed; auto does if that saves time overall."""

    num_beams: int | None = None
    """Search with as many beams; as the model says, if not given."""
    source_column: str | None = None
    """The column of the source; as in training, if not given (so for all that follow)."""
    target_column: str | None = None
    """The column of the target."""
    text_columns: tuple[str, ...] = ()
    """The column of the text, or the two of a pair."""
    text_column: str | None = None
    """The column of the text, of a language model."""
    label_column: str | None = None
    """The column of the label."""
    image_column: str | None = None
    """The column of the image's path."""
    caption_column: str | None = None
    """The column of the caption."""
    question_column: str | None = None
    """The column of the question about an image."""
    answer_column: str | None = None
    """The column of its answer."""
    max_len: int | None = None
    """The longest text, in tokens."""
    context: int | None = None
    """Tokens that a language model sees at a time."""
    truncate: bool = False
    """Cut longer texts; without it, they are an error."""
    fill: Literal["previous", "interpolate"] | None = None
    """What to put where values or dates of a series are missing."""
    date_format: str | None = None
    """How the dates of a series are written, such as %d/%m/%Y."""
    decimal: Literal["point", "comma"] | None = None
    """Whether the numbers of a series are written 1,234.5 or 1.234,5."""
    skip_empty: bool = False
    """Leave out examples with an empty text, and say how many."""
    skip_corrupt: bool = False
    """Leave out files that cannot be read as images, and say which."""
    header: bool | None = None
    """--header: the first row of a table names its columns; --no-header: it is an example."""
    delimiter: Delimiter | None = None
    """What stands between the cells of the files in --data; found if not given."""
    quotes: bool | None = None
    """--quotes: quotes stand around cells; --no-quotes: they are part of the text. As in training, or found."""
    encoding: str | None = None
    """Encoding of the files in --data, such as cp949; found if not given."""
    sheet: str | None = None
    """Which sheet of an .xlsx file in --data; the first if not given."""
    max_line_mb: int | None = None
    """Longest line or cell of a file, in megabytes; 16 if not given. A longer one is an error."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_beams", "max_len", "context"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")

    @property
    def changes(self) -> dict[str, Any]:
        """What is to be otherwise than in the training: the flags that were given, by the names of its settings."""
        about_the_call = ("run", "data", "split", "task", "json", "device", "engine", "num_beams")
        given = {name: value for name, value in self.to_dict().items() if name not in about_the_call}
        return {
            name: value for name, value in given.items() if value or (name in ("header", "quotes") and value is False)
        }


def main(settings: EvalSettings) -> None:
    from glassformer.tasks.evaluate import evaluate
    from glassformer.training.waiting import Bars
    from glassformer.verbs.train import show_scores

    with Bars(make_console(stderr=True)) as bars:
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
