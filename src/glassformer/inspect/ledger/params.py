"""Where a model's parameters are: by part, by kind, by layer.

A table that is shared counts once, as a part of its own. Every way of adding up gives all of them, and the percentages
that are printed add up to 100.0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from torch import nn

from glassformer.core.model import Transformer
from glassformer.watch.names import StepName

KINDS = {"attn": "self-attention", "cross": "cross-attention", "ffn": "feed-forward"}
SHARED = "shared embedding"


@dataclass(frozen=True)
class Share:
    """One part of a model, how many parameters it has, and which part of all that is."""

    part: str
    parameters: int
    share: float


def shares(model: nn.Module) -> list[Share]:
    """The parameters by stack and kind, in the order of the model."""
    return added_up(model, part_of)


def shares_by_kind(model: nn.Module) -> list[Share]:
    """The parameters by kind, both stacks together, in the order of the model."""
    return added_up(model, kind_of)


def shares_by_layer(model: nn.Module) -> list[Share]:
    """The parameters by stored block, with what stands before and behind the blocks."""
    return added_up(model, layer_of)


def added_up(model: nn.Module, group_of: Callable[[str], str]) -> list[Share]:
    """The parameters of each group, by their names. One that has several names is of none of their groups."""
    counts: dict[str, int] = {}
    for names, number in named_once(model):
        group = group_of(names[0]) if len(names) == 1 else SHARED
        counts[group] = counts.get(group, 0) + number
    total = sum(counts.values())
    return [Share(group, number, number / total) for group, number in counts.items()]


def named_once(model: nn.Module) -> Iterator[tuple[list[str], int]]:
    """Every parameter once: all of its names, and how many numbers it holds."""
    sites: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        sites.setdefault(parameter, []).append(name)
    for parameter, names in sites.items():
        yield names, parameter.numel()


def kind_of(name: str) -> str:
    """encoder.blocks.3.attn.q.weight -> self-attention"""
    parsed = StepName.parse(name)
    words = parsed.words
    if parsed.site == "head":
        return "head"
    if any(word.endswith("norm") for word in words):
        return "norms"
    if "positions" in words or "position_bias" in words:
        return "positions"
    return "embedding" if parsed.layer is None else KINDS[parsed.site]


def part_of(name: str) -> str:
    """encoder.blocks.3.attn.q.weight -> encoder self-attention"""
    stack, _, step = StepName.parse(name)
    kind = kind_of(name)
    if kind == "head":
        return kind
    return f"{stack} final norm" if step.startswith("norm.") else f"{stack} {kind}"


def layer_of(name: str) -> str:
    """encoder.blocks.3.attn.q.weight -> encoder block 3"""
    stack, layer, _ = StepName.parse(name)
    return part_of(name) if layer is None else f"{stack} block {layer}"


def tenths(numbers: Sequence[int]) -> list[str]:
    """Percentages with one decimal that add up to 100.0: what rounding down leaves goes to the largest remainders."""
    total = sum(numbers)
    if total == 0:
        return ["0.0%"] * len(numbers)
    rounded = [1000 * number // total for number in numbers]
    by_remainder = sorted(range(len(numbers)), key=lambda i: (-(1000 * numbers[i] % total), i))
    for i in by_remainder[: 1000 - sum(rounded)]:
        rounded[i] += 1
    return [f"{value // 10}.{value % 10}%" for value in rounded]


def parameter_tables(model: Transformer) -> list[Table]:
    """By kind, inside a block of each stack, and by layer: as the terminal shows it."""
    tables = [as_table("kind", shares_by_kind(model))]
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        if stack is not None:
            stored = "" if len(stack.blocks) == 1 else f"the {len(stack.blocks)} "
            inside = inside_blocks(stack.blocks)
            tables.append(as_table(f"{stored}{name} block{'s' if stored else ''}", inside))
    return [*tables, as_table("layer", shares_by_layer(model))]


def inside_blocks(blocks: nn.ModuleList) -> list[Share]:
    """What the blocks of a stack are made of: the feed-forward is two thirds, or half where there is cross-attention.

    These are the paper's proportions: of d_ff = 4 d_model and heads that share d_model among them.
    """
    return added_up(blocks, lambda name: kind_of(f"stack.blocks.{name}"))


def as_table(title: str, found: Sequence[Share]) -> Table:
    table = Table(title, "parameters", "share", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for share, percentage in zip(found, tenths([share.parameters for share in found]), strict=True):
        table.add_row(share.part, f"{share.parameters:,}", percentage)
    table.add_row("all", f"{sum(share.parameters for share in found):,}", "100.0%", style="bold")
    return table
