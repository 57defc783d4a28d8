"""Counts a model's parameters by part, by kind and by layer.

A shared table counts once, as a separate part. Every grouping adds up to all parameters, and the printed percentages
add up to 100.0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from torch import nn

from glassformer.core.model import Transformer
from glassformer.watch.names import StepName

SUBLAYERS = {"attn": "self-attention", "cross": "cross-attention", "ffn": "feed-forward"}
SHARED = "shared embedding"


@dataclass(frozen=True)
class Share:
    """A part of a model, its number of parameters, and their fraction of all parameters."""

    part: str
    parameters: int
    share: float


def shares(model: nn.Module) -> list[Share]:
    """Parameters by stack and kind, in the order of the model."""
    return count_by(model, parameter_part)


def shares_by_kind(model: nn.Module) -> list[Share]:
    """Parameters by kind over both stacks, in the order of the model."""
    return count_by(model, sublayer_of)


def shares_by_layer(model: nn.Module) -> list[Share]:
    """Parameters by stored block; those outside the blocks by part."""
    return count_by(model, parameter_layer)


def count_by(model: nn.Module, group_of: Callable[[str], str]) -> list[Share]:
    """Parameters by the group of their names. A parameter with several names counts as shared."""
    counts: dict[str, int] = {}
    for names, number in unique_parameters(model):
        group = group_of(names[0]) if len(names) == 1 else SHARED
        counts[group] = counts.get(group, 0) + number
    total = sum(counts.values())
    return [Share(group, number, number / total) for group, number in counts.items()]


def unique_parameters(model: nn.Module) -> Iterator[tuple[list[str], int]]:
    """Yields every parameter once: all of its names, and its number of elements."""
    sites: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        sites.setdefault(parameter, []).append(name)
    for parameter, names in sites.items():
        yield names, parameter.numel()


def sublayer_of(name: str) -> str:
    """encoder.blocks.3.attn.q.weight -> self-attention"""
    parsed = StepName.parse(name)
    words = parsed.words
    if parsed.site == "head":
        return "head"
    if any(word.endswith("norm") for word in words):
        return "norms"
    if "positions" in words or "position_bias" in words:
        return "positions"
    return "embedding" if parsed.layer is None else SUBLAYERS[parsed.site]


def parameter_part(name: str) -> str:
    """encoder.blocks.3.attn.q.weight -> encoder self-attention"""
    stack, _, step = StepName.parse(name)
    kind = sublayer_of(name)
    if kind == "head":
        return kind
    return f"{stack} final norm" if step.startswith("norm.") else f"{stack} {kind}"


def parameter_layer(name: str) -> str:
    """encoder.blocks.3.attn.q.weight -> encoder block 3"""
    stack, layer, _ = StepName.parse(name)
    return parameter_part(name) if layer is None else f"{stack} block {layer}"


def percentages(numbers: Sequence[int]) -> list[str]:
    """Percentages with one decimal that add up to 100.0, by the largest remainder method."""
    total = sum(numbers)
    if total == 0:
        return ["0.0%"] * len(numbers)
    rounded = [1000 * number // total for number in numbers]
    by_remainder = sorted(range(len(numbers)), key=lambda i: (-(1000 * numbers[i] % total), i))
    for i in by_remainder[: 1000 - sum(rounded)]:
        rounded[i] += 1
    return [f"{value // 10}.{value % 10}%" for value in rounded]


def parameter_tables(model: Transformer) -> list[Table]:
    """Tables for the terminal: by kind, inside the blocks of each stack, and by layer."""
    tables = [as_table("kind", shares_by_kind(model))]
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        if stack is not None:
            stored = "" if len(stack.blocks) == 1 else f"the {len(stack.blocks)} "
            inside = inside_blocks(stack.blocks)
            tables.append(as_table(f"{stored}{name} block{'s' if stored else ''}", inside))
    return [*tables, as_table("layer", shares_by_layer(model))]


def inside_blocks(blocks: nn.ModuleList) -> list[Share]:
    """Parameters inside the blocks of a stack, by kind.

    With the paper's proportions, d_ff = 4 d_model and H K = d_model, the feed-forward layer has two thirds of them, or
    half with cross-attention.
    """
    return count_by(blocks, lambda name: sublayer_of(f"stack.blocks.{name}"))


def as_table(title: str, found: Sequence[Share]) -> Table:
    table = Table(title, "parameters", "share", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for share, percentage in zip(found, percentages([share.parameters for share in found]), strict=True):
        table.add_row(share.part, f"{share.parameters:,}", percentage)
    table.add_row("all", f"{sum(share.parameters for share in found):,}", "100.0%", style="bold")
    return table
