"""Labelled series: rows of numbers of equal length, each with a class name.

    1<TAB>0.12<TAB>0.34<TAB>...         label,t0,t1,...
    2<TAB>1.52<TAB>1.48<TAB>...         up,0.12,0.34,...

A first row that names the label column is a header. Without one, the label comes first, as in the files of the UCR
archive (Dau et al., 2019). Numbers may have decimal commas (1,5) if cells are not separated by commas.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from glassformer.data.files import (
    AS_FOUND,
    BlankRows,
    Examples,
    cell_of,
    column_hint,
    file_kind,
    locate,
    rows_with_lines,
    stream_rows,
    table_format,
    unit_of,
)
from glassformer.data.formats.delimiter import DECIMAL_COMMA, DECIMAL_POINT
from glassformer.data.formats.table import ExpectedColumns, TableFormat, TableOptions
from glassformer.data.texts import as_label
from glassformer.errors import InputError, did_you_mean


@dataclass(frozen=True)
class LabeledSeries:
    """One example: its values in order, and its label."""

    values: tuple[float, ...]
    labels: tuple[str, ...]


def read_labeled_series(
    path: Path, *, label_column: str = "label", options: TableOptions = AS_FOUND
) -> Examples[LabeledSeries]:
    """All rows of a table. Every row has as many values as the first."""
    reads = ExpectedColumns((label_column,), header=False, numbers=True)
    form = table_format(path, options, reads)
    skipped = BlankRows()
    names, rows = numbered_rows(path, form, options, reads, skipped)
    place = label_place(path, names, label_column, form)
    found, lines = list[LabeledSeries](), list[int]()
    for line, cells in rows:
        label = as_class(as_label(cells[place])) if place < len(cells) else ""
        if not label:
            raise InputError(f"{locate(path, line)}: the label is empty, expected a class name or number")
        values = tuple(
            as_value(path, line, column, cell, names, form) for column, cell in enumerate(cells) if column != place
        )
        if not values:
            raise InputError(f"{locate(path, line)}: {str(cells[0])[:60]!r} has a label but no values")
        if found and len(values) != len(found[0].values):
            raise InputError(
                f"{locate(path, line)}: {len(values)} values, but {unit_of(path)} {lines[0]} has "
                f"{len(found[0].values)}. All series must have the same length: shorten the longer ones, or resample "
                "them"
            )
        found.append(LabeledSeries(values, (label,)))
        lines.append(line)
    if not found:
        raise InputError(f"{path} has no rows: expected a label and its values in each")
    return Examples(found, path=path, lines=lines, form=form, blank=skipped.count)


def numbered_rows(
    path: Path, form: TableFormat, options: TableOptions, reads: ExpectedColumns, skipped: BlankRows
) -> tuple[Sequence[str], Iterator[tuple[int, list[Any]]]]:
    """The column names, empty if there is no header, and the rows below it with their lines."""
    if file_kind(path) in ("jsonl", "parquet"):
        names = tuple(next(stream_rows(path, options, reads)).cells)
        rows = stream_rows(path, options, reads)
        return names, ((row.line, [cell_of(path, row, name) for name in names]) for row in rows)
    cells = rows_with_lines(path, form, options, skipped)
    if not form.has_header:
        return (), ((line, without_end(row, form.ends_open)) for line, row in cells)
    next(cells)
    return form.names, ((line, without_end(row, len(row) > len(form.names))) for line, row in cells)


def without_end(cells: list[str], ends_open: bool) -> list[str]:
    """Removes the empty cell after a trailing delimiter."""
    return cells[:-1] if ends_open and not cells[-1] else cells


def label_place(path: Path, names: Sequence[str], label_column: str, form: TableFormat) -> int:
    """The index of the label: from the header, or the first cell."""
    if not names:
        return int(label_column) - 1 if label_column.isdecimal() and int(label_column) else 0
    if label_column in names:
        return list(names).index(label_column)
    raise InputError(
        f"{path} has a header, but no column called {label_column!r}{did_you_mean(label_column, names[:10])}"
        f"{column_hint(form, 'Give the label column with --label-column')}"
    )


def as_value(path: Path, line: int, column: int, cell: Any, names: Sequence[str], form: TableFormat) -> float:
    value = parse_value(cell, decimal_comma=form.decimal_comma)
    if value is not None:
        return value
    where = f"column {names[column]!r}" if column < len(names) else f"column {column + 1}"
    hint = "" if names else " (without a header, the first column is the label)"
    raise InputError(
        f"{locate(path, line)}, {where}: {str(cell)[:60]!r} is not a number{hint}. Fill it, or leave the row out"
    )


def parse_value(cell: Any, *, decimal_comma: bool = False) -> float | None:
    """A cell as a number; None if it is not one. With decimal commas, a point is not decimal."""
    if decimal_comma and isinstance(cell, str):
        cell = cell.strip()
        if DECIMAL_COMMA.fullmatch(cell):
            cell = cell.replace(".", "").replace(",", ".")
        elif DECIMAL_POINT.fullmatch(cell):
            return None
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if isfinite(value) and "_" not in str(cell) else None


def as_class(label: str) -> str:
    """A label with whole numbers tidied: some files of the archive write 1.0000000e+00."""
    try:
        number = float(label)
    except ValueError:
        return label
    return str(int(number)) if isfinite(number) and number == int(number) else label
