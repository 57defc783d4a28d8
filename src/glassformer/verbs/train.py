"""The verb `train` and `gf.train`, for all tasks; their settings are in `tasks/settings.py`."""

import json
import os
import shlex
import time
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from glassformer.checkpoints.run import read_record
from glassformer.data.known import check_downloaded
from glassformer.errors import InputError, did_you_mean
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import TaskSettings
from glassformer.terminal import make_console

if TYPE_CHECKING:
    from glassformer.core.model import Transformer
    from glassformer.text import Tokenizer
    from glassformer.training.task import Scores, Task


def train(task: str, **settings: Any) -> "TrainedRun":
    """Trains as `glassformer train TASK` does: `gf.train("classify", data="reviews.csv", minutes=5)`.

    Settings are the flags of the command with underscores and have the same defaults; `config` names a TOML file. Bad
    input raises `gf.InputError`, and nothing is written.
    """
    began = time.perf_counter()  # includes the imports, because the user waits for them, too
    from glassformer.verbs.elsewhere import verb_elsewhere
    from glassformer.verbs.flags import settings_in_python

    if task not in TASKS:
        said = verb_elsewhere(str(task), what="task") or f"unknown task {task!r}{did_you_mean(str(task), TASKS)}"
        raise InputError(f"gf.train: {said}")
    told = settings_in_python(TASKS[task].settings, settings)
    written = ", ".join([repr(task), *(f"{name}={as_code(value)}" for name, value in settings.items())])
    console = make_console(enduring=True)
    _, scores = trained(told, console, began, f"gf.train({written})")
    if is_first():
        show_scores(scores, console)
        console.print(f"\nSaved to {told.out}")
    return TrainedRun(task=task, folder=told.out, scores=scores)


def as_code(value: Any) -> str:
    return repr(fspath(value)) if isinstance(value, PathLike) else repr(value)


class Curve(NamedTuple):
    """A value over the training steps: `steps, losses = run.curves["loss"]`."""

    steps: list[int]
    values: list[float]


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A finished training run. It can be passed wherever a folder is expected: `gf.pipeline(run)`."""

    task: str
    folder: Path
    scores: "Scores"

    def __fspath__(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        from glassformer.training.report import readable_metric

        said = ", ".join(f"{name} {readable_metric(name, value)}" for name, value in self.metrics.items())
        return f"TrainedRun({self.task} in {self.folder}: {said} on {self.scores.count:,} {self.scores.unit})"

    @property
    def metrics(self) -> dict[str, float]:
        """The final scores by name."""
        return self.scores.metrics

    @property
    def baselines(self) -> dict[str, dict[str, float]]:
        """Scores of simple baselines on the same examples."""
        return self.scores.baselines

    @property
    def results(self) -> dict[str, Any]:
        """The results in `run.json`: metrics, number of scored examples, and training time in seconds."""
        results: dict[str, Any] = read_record(self.folder)["results"]
        return results

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """Training curves by name: `loss`, `rate`, `valid_loss` and others."""
        from glassformer.training.folder import METRICS

        found: dict[str, Curve] = {}
        for line in (self.folder / METRICS).read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            for name, value in entry.items():
                if name != "step":
                    curve = found.setdefault(name, Curve([], []))
                    curve.steps.append(entry["step"])
                    curve.values.append(value)
        return found

    @cached_property
    def model(self) -> "Transformer":
        """The model with its best weights, loaded from the folder."""
        from glassformer.checkpoints.load import load

        return load(self.folder)

    @cached_property
    def tokenizer(self) -> "Tokenizer | None":
        """The run's tokenizer; None for a model that does not read text."""
        from glassformer.text import load_tokenizer

        return load_tokenizer(self.folder) if self.model.config.reads_tokens else None


def main(settings: TaskSettings) -> None:
    began = time.perf_counter()  # includes the imports, because the user waits for them, too
    from glassformer.training.folder import REPORT

    console = make_console(enduring=True)
    task, scores = trained(settings, console, began)
    if not is_first():
        return
    show_scores(scores, console)
    console.print(f"\nSaved to {settings.out}. Report: {settings.out / REPORT}. Next:")
    for words in task.try_next(settings.out):
        console.print(f"  {shlex.join(words)}")


def trained(
    settings: TaskSettings, console: Console, began: float, command: str | None = None
) -> "tuple[Task, Scores]":
    """Trains, after checking that the output folder is free and the files exist."""
    from glassformer.tasks.registry import make_task
    from glassformer.training.folder import check_free
    from glassformer.training.run import run

    check_free(settings)
    check_downloaded([file for files in settings.files.values() for file in files])
    return run(make_task, settings, console, verb=f"train {settings.task}", began=began, command=command)


def is_first() -> bool:
    """Whether this is the first of several processes: only the first prints."""
    return os.environ.get("RANK", "0") == "0"


def show_scores(scores: "Scores", console: Console) -> None:
    """Prints the scores beside those of simple baselines."""
    from glassformer.training.report import readable_metric

    console.print(f"\nscored on {scores.scored_on}")
    rows = {"this model": scores.metrics, **scores.baselines}
    width = max(map(len, rows)) + 2
    for name, metrics in rows.items():
        said = "  ".join(f"{metric} {readable_metric(metric, value)}" for metric, value in metrics.items())
        console.print(f"  {name:{width}}{said}", style="bold" if name == "this model" else None)
    for note in scores.notes:
        console.print(f"  {note}")
