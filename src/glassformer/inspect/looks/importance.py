"""Head importance: how much worse a run's metrics are without each head (Michel et al., 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from glassformer.errors import InputError
from glassformer.figures.drawings import draw_importance
from glassformer.tasks.evaluate import task_to_score
from glassformer.training.report import readable_metric
from glassformer.training.task import Scores, Task
from glassformer.watch.ablate import ablate, choose_heads
from glassformer.watch.names import StepName

EXAMPLES = 200  # default number of examples to score each head on


@dataclass(frozen=True)
class Importance:
    """The metrics without a head, and how much worse they are: negative where the model does better without it."""

    head: str
    metrics: dict[str, float]
    worse: dict[str, float]


@dataclass(frozen=True)
class Importances:
    """The metrics of the whole model, and the importance of each head, most important first."""

    whole: Scores
    heads: list[Importance]
    together: Importance | None  # without all of these heads at once; None if there is only one


def head_importance(
    run: str | Path,
    heads: Sequence[str] = ("*",),
    *,
    data: Sequence[str | Path] = (),
    examples: int = EXAMPLES,
    console: Console | None = None,
    **options: Any,
) -> Importances:
    """Scores a run without each of these heads in turn; `options` are those of `gf.evaluate`."""
    return task_importance(task_to_score(run, data, **options), heads, examples=examples, console=console)


def task_importance(
    task: Task, heads: Sequence[str] = ("*",), *, examples: int = EXAMPLES, console: Console | None = None
) -> Importances:
    """`head_importance` for a loaded task. On a terminal, the console shows a progress bar."""
    if examples < 1:
        raise InputError(f"examples is {examples}: expected at least 1")
    chosen = choose_heads(task.model, heads)
    whole = task.score_some(examples)

    def without(names: Sequence[str], said: str) -> Importance:
        with ablate(task.model, names):
            metrics = task.score_some(examples).metrics
        change = {name: metrics[name] - value for name, value in whole.metrics.items()}
        worse = {name: value if name in task.falling else 0.0 - value for name, value in change.items()}
        return Importance(said, metrics, worse)

    console = console or Console(quiet=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        rows = [without([name], name) for name in bar.track(chosen, description="heads left out, one at a time")]
        together = without(chosen, f"all {len(chosen)} at once") if len(chosen) > 1 else None
    return Importances(whole, sorted(rows, key=lambda row: tuple(row.worse.values()), reverse=True), together)


def show_importance(found: Importances, console: Console) -> None:
    """Prints one line per head: the metrics without it, and how much worse the first of them is."""
    first, names = next(iter(found.whole.metrics)), list(found.whole.metrics)
    table = Table("without", *names, f"{first}, worse by", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("nothing", *(readable_metric(name, found.whole.metrics[name]) for name in names), "", style="bold")
    for row in (*found.heads, *([found.together] if found.together else [])):
        table.add_row(
            row.head, *(readable_metric(name, row.metrics[name]) for name in names), signed(row.worse[first], first)
        )
    console.print(f"scored on {found.whole.count:,} {found.whole.unit}\n")
    console.print(table)


def signed(value: float, metric: str) -> str:
    said = readable_metric(metric, abs(value))
    return said if not value else f"{'+' if value > 0 else '-'}{said}"


def picture_importance(found: Importances, path: Path) -> None:
    """Draws layers by heads for each kind of attention: brown where the model is worse without a head, teal better."""
    metric = next(iter(found.whole.metrics))
    places: dict[str, dict[tuple[int, int], float]] = {}
    for row in found.heads:
        head = StepName.parse(row.head)
        assert head.layer is not None
        name = f"{head.stack} {'cross-attention' if head.site == 'cross' else 'self-attention'}".strip()
        places.setdefault(name, {})[head.layer, int(head.part)] = row.worse[metric]
    maps = {}
    for name in sorted(places, key=lambda name: (name.startswith("decoder"), "cross" in name)):
        values = places[name]
        layers, heads = (max(place[axis] for place in values) + 1 for axis in (0, 1))
        maps[name] = np.full((layers, heads), np.nan)
        for place, value in values.items():
            maps[name][place] = value
    said = f"{metric} without one head, on {found.whole.count:,} {found.whole.unit}"
    draw_importance(maps, f"worse by ({metric})", said, path)
