"""A step of a Transformer, described, and the line of the package that computes it.

A line is found by the beginning of its statement, so that it moves with the code. Read next: `step.py`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from glassformer.version import PACKAGE


@dataclass(frozen=True)
class Place:
    """A line of the package: its file, counted from src/glassformer, its number, and what stands there."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Step:
    """One step: what its tensor's axes are, how it is computed, what it means, and where."""

    axes: tuple[str, ...]
    equation: str
    english: str
    korean: str
    function: Callable[..., Any]  # in which it is computed
    statement: str  # that computes it, or how that begins

    @cached_property
    def place(self) -> Place:
        return place_of(self.function, self.statement)


@cache
def place_of(function: Callable[..., Any], statement: str) -> Place:
    """Where a statement of a function stands: it begins so on one line, and on no other."""
    lines, first = inspect.getsourcelines(function)
    found = [i for i, line in enumerate(lines) if line.strip().startswith(statement)]
    if len(found) != 1:
        raise LookupError(f"{statement!r} begins {len(found)} lines of {function.__qualname__}: expected one")
    file = Path(inspect.getsourcefile(function) or "").relative_to(PACKAGE)
    return Place(file.as_posix(), first + found[0], lines[found[0]].strip())
