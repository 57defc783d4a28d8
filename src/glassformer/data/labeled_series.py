"""Labelled series: rows of numbers of one length, each with the name of its class.

    1<TAB>0.12<TAB>0.34<TAB>...         label,t0,t1,...
    2<TAB>1.52<TAB>1.48<TAB>...         up,0.12,0.34,...

A first line in which the label column is named is a header. Without one, the label stands first, as in the files of the
UCR archive (Dau et al., 2019).
"""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from glassformer.data.files import Examples, kind_of, quoted_rows, tabbed_rows
from glassformer.errors import InputError


@dataclass(frozen=True)
class LabeledSeries:
    """One example: its values in their order, and its label."""

    values: tuple[float, ...]
    labels: tuple[str, ...]


def read_labeled_series(path: Path, *, label_column: str = "label") -> Examples[LabeledSeries]:
    """All rows of a .csv, .tsv or .txt; each may end in .gz. Every row has as many values as the first."""
    kind = kind_of(path)
    if kind not in ("csv", "tsv"):
        raise InputError(f"{path} is no table of numbers: expected .csv, .tsv or .txt, or one of these with .gz")
    rows = quoted_rows(path) if kind == "csv" else tabbed_rows(path)
    place, names = 0, list[str]()
    found, lines = list[LabeledSeries](), list[int]()
    for line, cells in rows:
        if line == 1 and label_column in cells:
            place, names = cells.index(label_column), cells
            continue
        values = tuple(
            as_value(path, line, column, cell, names, label_column)
            for column, cell in enumerate(cells)
            if column != place
        )
        label = cells[place].strip() if place < len(cells) else ""
        if not label:
            raise InputError(f"{path}, line {line}: the label is empty, expected the name of a class or its number")
        if not values:
            raise InputError(f"{path}, line {line}: {cells[0][:60]!r} has a label and no values")
        if found and len(values) != len(found[0].values):
            raise InputError(
                f"{path}, line {line}: {len(values)} values, and line {lines[0]} has {len(found[0].values)}. Every "
                "series must have as many: cut the longer ones, or bring all to one length"
            )
        found.append(LabeledSeries(values, (as_class(label),)))
        lines.append(line)
    if not found:
        raise InputError(f"{path} has no rows: expected a label and its values in each")
    return Examples(found, path=path, lines=lines)


def as_value(path: Path, line: int, column: int, cell: str, names: list[str], label_column: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if isfinite(value):
        return value
    where = f"column {names[column]!r}" if names and column < len(names) else f"column {column + 1}"
    hint = "" if names else f" (no column of line 1 is called {label_column!r}, so the label is taken to stand first)"
    raise InputError(f"{path}, line {line}, {where}: {cell[:60]!r} is no number{hint}. Fill it, or leave the row out")


def as_class(label: str) -> str:
    """Some files of the archive write the number of a class as 1.0000000e+00."""
    try:
        number = float(label)
    except ValueError:
        return label
    return str(int(number)) if isfinite(number) and number == int(number) else label
