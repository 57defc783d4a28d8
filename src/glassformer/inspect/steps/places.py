"""The description of one step of a Transformer, and the line of this package that computes it.

A line is found by the start of its statement, so the reference follows the code. Read next: `step.py`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from glassformer.version import PACKAGE


@dataclass(frozen=True)
class SourceLine:
    """A line of the package: its file, relative to src/glassformer, its number and its code."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Step:
    """One step: the axes of its tensor, its equation, a sentence in two languages, and the code that computes it."""

    axes: tuple[str, ...]
    equation: str
    english: str
    korean: str
    function: Callable[..., Any]  # contains the statement
    statement: str  # start of the statement that computes the step

    @cached_property
    def place(self) -> SourceLine:
        return line_of(self.function, self.statement)


@cache
def line_of(function: Callable[..., Any], statement: str) -> SourceLine:
    """The only line of a function that starts with `statement`."""
    lines, first = inspect.getsourcelines(function)
    found = [i for i, line in enumerate(lines) if line.strip().startswith(statement)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} lines of {function.__qualname__} start with {statement!r}: expected one")
    file = Path(inspect.getsourcefile(function) or "").relative_to(PACKAGE)
    return SourceLine(file.as_posix(), first + found[0], lines[found[0]].strip())
