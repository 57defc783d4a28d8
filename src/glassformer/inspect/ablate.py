"""Heads left out: what a model says without them, and how much worse it does (Michel et al., 2019).

    with ablate(model, ["decoder.blocks.0.cross.3"]):
        model(...)

A head is named by the path of its attention and its number; `*` stands for anything. Paths count layers, so that one
layer can lose a head also where several layers share a block. What a head writes to the stream is then 0: its part of
what the output matrix reads. The bias of that matrix stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

from glassformer.core.attention import Attention
from glassformer.errors import InputError, nearest
from glassformer.inspect.activations import attention_names, stacks_of
from glassformer.inspect.drawings import draw_importance
from glassformer.inspect.names import StepName, split_name
from glassformer.train.report import as_number
from glassformer.train.task import Scores, Task

EXAMPLES = 200  # that each head is judged by, where nobody says


@dataclass(frozen=True)
class Site:
    """The attention of one layer: layers that share a block share the module."""

    attention: Attention
    layer: int


@dataclass(frozen=True)
class Importance:
    """The metrics without one head, and how much worse that is: below 0 where the model does better without it."""

    head: str
    metrics: dict[str, float]
    worse: dict[str, float]


@dataclass(frozen=True)
class Importances:
    """The metrics of the whole model, and each head's importance, the most important first."""

    whole: Scores
    heads: list[Importance]
    together: Importance | None  # without all of these heads at once; None if it is only one


@contextmanager
def ablate(model: nn.Module, heads: Sequence[str]) -> Iterator[list[str]]:
    """Leaves these heads out inside the `with`, in every thread; gives their names, patterns spelled out."""
    sites, chosen = attention_sites(model), choose_heads(model, heads)
    by_module: dict[Attention, dict[int, list[int]]] = {}
    for name in chosen:
        path, _, head = name.rpartition(".")
        site = sites[path]
        by_module.setdefault(site.attention, {}).setdefault(site.layer, []).append(int(head))
    with ExitStack() as hooks:
        for attention, lost in by_module.items():
            hooks.enter_context(_without(attention, lost))
        yield chosen


@contextmanager
def _without(attention: Attention, lost: Mapping[int, Sequence[int]]) -> Iterator[None]:
    """Silences heads of one module, by layer: the module is told the layer, and its output matrix is not."""
    current, width = local(), attention.head_dim

    def remember(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        current.layer = named["layer"] if "layer" in named else inputs[2]

    def silence(_: nn.Module, inputs: tuple[Tensor]) -> Tensor | None:
        heads = lost.get(current.layer)
        if heads is None:
            return None
        mixed = inputs[0].unflatten(-1, (-1, width)).clone()  # (B, T, H, K)
        mixed[..., heads, :] = 0.0
        return mixed.flatten(-2)  # (B, T, H*K)

    handles = (
        attention.register_forward_pre_hook(remember, with_kwargs=True),
        attention.out.register_forward_pre_hook(silence),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def attention_sites(model: nn.Module) -> dict[str, Site]:
    """Every attention by its path: `decoder.blocks.0.cross`."""
    sites = {}
    for prefix, stack in stacks_of(model):
        for path in attention_names(stack):
            _, layer, part = StepName.parse(path)
            assert layer is not None
            sites[prefix + path] = Site(getattr(stack.block_of(layer), part), layer)
    if not sites:
        raise InputError(f"a {type(model).__name__} has no Stack inside: give a Transformer or a Stack")
    return sites


def choose_heads(model: nn.Module, heads: Sequence[str]) -> list[str]:
    """The heads that these names and patterns mean, each once, in the order of the model."""
    if isinstance(heads, str):
        raise InputError(f"heads is {heads!r}: expected a list of names, such as [{heads!r}]")
    if not heads:
        raise InputError("no head was named: give some, such as decoder.blocks.0.attn.2, or * for all")
    sites = attention_sites(model)
    known = [f"{path}.{head}" for path, site in sites.items() for head in range(site.attention.num_heads)]
    chosen = set()
    for wanted in heads:
        found = [name for name in known if fnmatchcase(name, wanted)]
        if not found:
            raise _no_such_head(wanted, sites)
        chosen.update(found)
    return [name for name in known if name in chosen]


def _no_such_head(wanted: str, sites: Mapping[str, Site]) -> InputError:
    path, _, head = wanted.rpartition(".")
    matched = [name for name in sites if fnmatchcase(name, path)]
    if matched:
        number = sites[matched[0]].attention.num_heads
        return InputError(f"there is no head {head!r} in {path}: it has {number}, counted from 0 to {number - 1}")
    if wanted in sites:
        return InputError(f"{wanted} names no head: give its number behind, as in {wanted}.0, or {wanted}.* for all")
    stack, layer, _ = split_name(wanted)
    layers = sorted({site.layer for name, site in sites.items() if name.startswith(f"{stack}.")})
    if layers and layer.isdigit() and int(layer) not in layers:
        count = len(layers)
        return InputError(f"{wanted}: the {stack} has {count} layers, counted from 0 to {count - 1}")
    return InputError(
        f"{wanted} names no head{nearest(path, sites)}. A head is a path and a number: {next(iter(sites))}.0"
    )


def head_importance(
    run: str | Path,
    heads: Sequence[str] = ("*",),
    *,
    data: Sequence[str | Path] = (),
    examples: int = EXAMPLES,
    console: Console | None = None,
    **options: Any,
) -> Importances:
    """What a run's own metrics are without each of these heads; `options` are those of `gf.evaluate`."""
    from glassformer.tasks.evaluate import task_to_score

    return task_importance(task_to_score(run, data, **options), heads, examples=examples, console=console)


def task_importance(
    task: Task, heads: Sequence[str] = ("*",), *, examples: int = EXAMPLES, console: Console | None = None
) -> Importances:
    """`head_importance` of a task that is at hand. On a terminal, the console shows how far it is."""
    if examples < 1:
        raise InputError(f"examples is {examples}: expected at least 1 to judge each head by")
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
    """One line for each head: the metrics without it, and how much worse the first of them is."""
    first, names = next(iter(found.whole.metrics)), list(found.whole.metrics)
    table = Table("without", *names, f"{first}, worse by", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("nothing", *(as_number(name, found.whole.metrics[name]) for name in names), "", style="bold")
    for row in (*found.heads, *([found.together] if found.together else [])):
        table.add_row(
            row.head, *(as_number(name, row.metrics[name]) for name in names), signed(row.worse[first], first)
        )
    console.print(f"scored on {found.whole.count:,} {found.whole.unit}\n")
    console.print(table)


def signed(value: float, metric: str) -> str:
    said = as_number(metric, abs(value))
    return said if not value else f"{'+' if value > 0 else '-'}{said}"


def picture_importance(found: Importances, path: Path) -> None:
    """Layers by heads, for each kind of attention: blue where the model does better without the head, red worse."""
    metric = next(iter(found.whole.metrics))
    places: dict[str, dict[tuple[int, int], float]] = {}
    for row in found.heads:
        stack, layer, step = StepName.parse(row.head)
        assert layer is not None
        part, head = step.split(".")
        name = f"{stack} {'cross-attention' if part == 'cross' else 'self-attention'}".strip()
        places.setdefault(name, {})[layer, int(head)] = row.worse[metric]
    maps = {}
    for name in sorted(places, key=lambda name: (name.startswith("decoder"), "cross" in name)):
        values = places[name]
        layers, heads = (max(place[axis] for place in values) + 1 for axis in (0, 1))
        maps[name] = np.full((layers, heads), np.nan)
        for place, value in values.items():
            maps[name][place] = value
    said = f"{metric} without one head, on {found.whole.count:,} {found.whole.unit}"
    draw_importance(maps, f"worse by ({metric})", said, path)
