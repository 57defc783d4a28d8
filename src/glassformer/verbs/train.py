"""The verb `train`: one function for all tasks, whose settings are in `tasks/settings.py`."""

import os
import shlex
import time
from typing import TYPE_CHECKING

from rich.console import Console

from glassformer.data.known import check_brought
from glassformer.tasks.settings import TaskSettings
from glassformer.terminal import make_console

if TYPE_CHECKING:
    from glassformer.training.task import Scores


def main(settings: TaskSettings) -> None:
    began = time.perf_counter()  # a person waits for the imports, too
    from glassformer.tasks.registry import make_task
    from glassformer.training.run import REPORT, check_free, run

    console = make_console()
    check_free(settings)
    check_brought([file for files in settings.files.values() for file in files])
    task, scores = run(make_task, settings, console, verb=f"train {settings.task}", began=began)
    if os.environ.get("RANK", "0") != "0":  # of several processes, the first speaks
        return
    show_scores(scores, console)
    console.print(f"\nthe run is in {settings.out}, and what became of it in {settings.out / REPORT}; try")
    for words in task.try_next(settings.out):
        console.print(f"  {shlex.join(words)}")


def show_scores(scores: "Scores", console: Console) -> None:
    """The scores, and what simple methods reach beside them."""
    from glassformer.training.report import as_number

    console.print(f"\nscored on {scores.scored_on}")
    rows = {"this model": scores.metrics, **scores.baselines}
    width = max(map(len, rows)) + 2
    for name, metrics in rows.items():
        said = "  ".join(f"{metric} {as_number(metric, value)}" for metric, value in metrics.items())
        console.print(f"  {name:{width}}{said}", style="bold" if name == "this model" else None)
    for note in scores.notes:
        console.print(f"  {note}")
