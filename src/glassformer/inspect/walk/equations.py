"""The equations of a walkthrough with their numbers, as text for a terminal and as JSON.

A row of an equation shows some numbers of a vector, or a worked formula. A formula shows its first terms and, after the
dots, the sum of the rest, so that a reader can check it by hand.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text
from torch import Tensor

from glassformer.inspect.steps.step import SourceLine

SHOWN_TERMS = 4  # number of dimensions shown of a vector, and of terms of a sum


@dataclass(frozen=True)
class Numbers:
    """The first numbers of a vector, or chosen numbers, whose names are in `of`."""

    name: str
    values: list[float]
    size: int
    of: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.of:
            shown = "   ".join(f"{name} {with_digits(value)}" for name, value in zip(self.of, self.values, strict=True))
            return f"{self.name}:  {shown}" + (f"   ... {self.size} in total" if self.size > len(self.values) else "")
        if self.size == 1:
            return f"{self.name} = {with_digits(self.values[0])}"
        more = f", ... {self.size} in total" if self.size > len(self.values) else ""
        return f"{self.name} = [{', '.join(map(with_digits, self.values))}{more}]"


@dataclass(frozen=True)
class Worked:
    """A formula with its numbers: the values fill the {} of the template."""

    name: str
    template: str
    values: list[float]
    result: float

    def __str__(self) -> str:
        formula = self.template.format(*map(with_digits, self.values)).replace(" + -", " - ").replace(" - -", " + ")
        return f"{self.name} = {formula} = {with_digits(self.result)}"


@dataclass(frozen=True)
class Equation:
    """One step: its name in `gf.record`, its equation and description, the line of code, and the rows of numbers."""

    step: str
    title: str
    equation: str
    english: str
    korean: str
    place: SourceLine
    rows: list[Numbers | Worked]


@dataclass(frozen=True)
class Walk:
    """A forward pass of one head, for one token."""

    tokens: list[str]
    token: int
    attention: str  # path of the shown attention
    head: int
    equations: list[Equation]

    def to_dict(self) -> dict[str, Any]:
        """The walk in a form that JSON can hold. Masked scores are None, because JSON has no infinity."""
        found = asdict(self)
        for equation in found["equations"]:
            for row in equation["rows"]:
                row["values"] = [None if value == float("-inf") else value for value in row["values"]]
        return found


def with_digits(value: float) -> str:
    return f"{value:.6g}"


def numbers(name: str, vector: Tensor | float, places: Mapping[int, str] | None = None) -> Numbers:
    """A row with the first numbers of a vector, or with those at the named places. A float gives a row of one."""
    values = [vector] if isinstance(vector, float) else vector.flatten().tolist()
    if places is not None:
        return Numbers(name, [values[i] for i in places], len(values), list(places.values()))
    return Numbers(name, values[:SHOWN_TERMS], len(values))


def products(
    name: str,
    left: Tensor,
    right: Tensor,
    result: float,
    *,
    times: float | None = None,
    added: Sequence[float] = (),
    first: Sequence[int] | None = None,
) -> Worked:
    """times (left . right) + added, with the first terms spelled out, or the terms in `first`."""
    terms = left.double() * right.double()
    chosen = list(range(min(SHOWN_TERMS, len(terms)))) if first is None else list(first)
    template = " + ".join(["{} * {}"] * len(chosen))
    values = [float(factor) for i in chosen for factor in (left[i], right[i])]
    if len(terms) > len(chosen):
        template += " + ...({})"
        values.append(float(terms.sum() - terms[chosen].sum()))
    if times is not None:
        template, values = f"({template}) * {{}}", [*values, times]
    for number in added:
        template, values = f"{template} + {{}}", [*values, number]
    return Worked(name, template, values, result)


def show_walk(walk: Walk, console: Console) -> None:
    """Prints the walk, equation by equation."""
    for text in equation_lines(walk):
        console.print(text)


def equation_lines(walk: Walk) -> Iterator[Text]:
    token = walk.tokens[walk.token]
    yield Text(f"{' '.join(walk.tokens)}", style="bold")
    yield Text(f"token {walk.token}, {token!r}, through head {walk.head} of {walk.attention}\n")
    for number, equation in enumerate(walk.equations, start=1):
        yield Text.assemble((f"{number}. {equation.title}", "bold"), f"   {equation.equation}")
        yield Text.assemble((f"   {equation.english}", "italic"))
        yield Text.assemble((f"   {equation.place}  {equation.place.code}", "dim"))
        for row in equation.rows:
            yield Text(f"      {row}")
        yield Text()
