"""The verb `train`: one function for all tasks."""

import os
import shlex
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from glassformer.data.known import check_brought
from glassformer.tasks import settings as tasks
from glassformer.tasks.settings import TaskSettings
from glassformer.terminal import make_console
from glassformer.train.report import as_number
from glassformer.train.run import REPORT, check_free, run
from glassformer.train.settings import TrainSettings
from glassformer.train.task import Scores, Task

TASKS = {
    "translate": "glassformer.tasks.translate:Translate",
    "classify": "glassformer.tasks.classify:Classify",
    "lm": "glassformer.tasks.lm:LanguageModel",
    "mlm": "glassformer.tasks.mlm:MaskedLanguageModel",
    "images": "glassformer.tasks.images:ImageClasses",
    "forecast": "glassformer.tasks.forecast:Forecast",
}

SETTINGS: tuple[type[TaskSettings], ...] = (
    tasks.TranslateSettings,
    tasks.ClassifySettings,
    tasks.LmSettings,
    tasks.MlmSettings,
    tasks.ImagesSettings,
    tasks.ForecastSettings,
)


def make_task(settings: TrainSettings, files: Sequence[Path] = ()) -> Task:
    """The task of these settings, with its data and its model; with `files`, to score what is in them."""
    module, name = TASKS[settings.task].split(":")
    task: Task = getattr(import_module(module), name)(settings, files)
    return task


def settings_to_judge(task: str, values: Mapping[str, Any], model: str) -> TaskSettings:
    """The settings of a training as they are for its finished model: loaded, so of no other size than its own."""
    kinds = {kind.task: kind for kind in SETTINGS}
    loaded = {"init": model, "out": model, "head": None, "resume": False, "overwrite": False}
    of_the_model = kinds[task].of_the_model()
    return kinds[task].from_dict({**{k: v for k, v in values.items() if k not in of_the_model}, **loaded})


def train(settings: TaskSettings) -> None:
    console = make_console()
    check_free(settings)
    check_brought(own_files(settings))
    task, scores = run(make_task, settings, console, verb=f"train {settings.task}")
    if os.environ.get("RANK", "0") != "0":  # of several processes, the first speaks
        return
    show_scores(scores, console)
    console.print(f"\nthe run is in {settings.out}, and what became of it in {settings.out / REPORT}; try")
    for words in task.try_next(settings.out):
        console.print(f"  {shlex.join(words)}")


def own_files(settings: TaskSettings) -> list[Path]:
    """The files that a training is given: to train on, to validate and to test."""
    given = [getattr(settings, name, None) or () for name in ("data", "valid", "test")]
    return [path for paths in given for path in ([paths] if isinstance(paths, Path) else paths)]


def show_scores(scores: Scores, console: Console) -> None:
    """The scores, and what simple methods reach beside them."""
    console.print(f"\nscored on {scores.count:,} {scores.unit}")
    rows = {"this model": scores.metrics, **scores.baselines}
    width = max(map(len, rows)) + 2
    for name, metrics in rows.items():
        said = "  ".join(f"{metric} {as_number(metric, value)}" for metric, value in metrics.items())
        console.print(f"  {name:{width}}{said}", style="bold" if name == "this model" else None)
    for note in scores.notes:
        console.print(f"  {note}")
