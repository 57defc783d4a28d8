"""Folds identical layers into one set of lines, so that a ledger of eighty layers stays readable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from glassformer.config import LayerKind
from glassformer.watch.names import StepName, join_name

if TYPE_CHECKING:
    from glassformer.inspect.ledger.ledger import LedgerLine

LayerLines = tuple[tuple[str, int] | None, list["LedgerLine"]]  # stack and number, or None for lines outside the layers


def fold_layers(lines: Sequence["LedgerLine"], kinds: Mapping[str, Sequence[LayerKind]]) -> Iterator["LedgerLine"]:
    """Merges identical neighbouring layers, and repeating patterns of layers such as local, local, global.

    Identical layers have the same steps, numbers and kind. The kind matters because a window does not show in a shape.
    """
    layers: list[LayerLines] = [(place, list(found)) for place, found in groupby(lines, line_layer)]
    marks = [layer_key(layer, kinds) for layer in layers]
    i = 0
    while i < len(layers):
        period, times = repetition(marks, i)
        for j in range(i, i + period):
            yield from folded([layers[j + n * period] for n in range(times)])
        i += period * times


def line_layer(line: "LedgerLine") -> tuple[str, int] | None:
    name = StepName.parse(line.name)
    return None if name.layer is None else (name.stack, name.layer)


def layer_key(layer: LayerLines, kinds: Mapping[str, Sequence[LayerKind]]) -> object:
    """A value that is equal for identical layers only."""
    place, lines = layer
    if place is None:
        return lines[0].name
    stack, number = place
    pattern = kinds[stack]
    return (
        stack,
        pattern[number % len(pattern)],
        tuple(replace(line, name=StepName.parse(line.name).step) for line in lines),
    )


def repetition(marks: Sequence[object], start: int) -> tuple[int, int]:
    """Length and count of the repeating pattern that covers the most layers from `start`; ties go to the shortest."""
    best = (1, 1)
    for period in range(1, (len(marks) - start) // 2 + 1):
        pattern, times = marks[start : start + period], 1
        while marks[start + times * period : start + (times + 1) * period] == pattern:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best


def folded(alike: Sequence[LayerLines]) -> Iterator["LedgerLine"]:
    """One set of lines for several layers, such as decoder.blocks.0-11.attn.q with `times` 12."""
    numbers = [place[1] for place, _ in alike if place is not None]
    for line in alike[0][1]:
        if len(numbers) < 2:
            yield line
        else:
            stack, _, step = StepName.parse(line.name)
            yield replace(line, name=join_name(stack, layer_range(numbers), step), times=len(numbers))


def layer_range(numbers: Sequence[int]) -> str:
    """0-11; with gaps between the numbers, 0,6 or 0,6-18."""
    step = numbers[1] - numbers[0]
    if step == 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return f"{numbers[0]},{numbers[1]}" + (f"-{numbers[-1]}" if len(numbers) > 2 else "")
