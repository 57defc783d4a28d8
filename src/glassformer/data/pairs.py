"""Pairs of texts, source and target: two files aligned line by line, lines with a tab, or two columns of a table.

train.en + train.de                                     line 7 is the translation of line 7
pairs.tsv                                               one<TAB>eins, below a header or not
pairs.csv, .jsonl, .parquet, .xlsx                      the columns source and target, document and summary, or just two
{"translation": {"en": "one", "de": "eins"}}            the languages are the columns
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.data.files import (
    AS_FOUND,
    BlankRows,
    Examples,
    Table,
    absent_column,
    cell_text,
    column_hint,
    file_kind,
    listed_columns,
    locate,
    read_lines,
    read_table,
    rows_with_lines,
    table_format,
    unit_of,
)
from glassformer.data.formats.delimiter import DELIMITERS
from glassformer.data.formats.table import ExpectedColumns, TableFormat, TableOptions
from glassformer.errors import InputError

PAIR_COLUMNS = (("source", "target"), ("document", "summary"))
NESTED = "translation"
COLUMN_FLAGS = ("--source-column", "--target-column")
CHOOSE = f"Choose two with {' and '.join(COLUMN_FLAGS)}"


@dataclass(frozen=True)
class TextPair:
    """One example: a source text and its target text."""

    source: str
    target: str
    place: str = field(default="", compare=False, repr=False)  # file and line


class Pairs(Examples[TextPair]):
    """Pairs read from a file, and the names of their two columns, if any."""

    columns: tuple[str, str] | None = None


def read_pairs(
    path: Path,
    targets: Path | None = None,
    *,
    source_column: str | None = None,
    target_column: str | None = None,
    skip_empty: bool = False,
    options: TableOptions = AS_FOUND,
) -> Pairs:
    """All pairs. A pair with an empty side is an error; with `skip_empty` it is skipped and counted."""
    columns = both_columns(path, source_column, target_column)
    if targets is not None:
        if columns is not None:
            raise InputError(
                f"{path} and {targets} are aligned line by line and have no columns. Leave "
                f"{' and '.join(COLUMN_FLAGS)} out"
            )
        return without_empty((path, targets), aligned_lines(path, targets, options), None, skip_empty)
    # In a text file a comma is part of a sentence.
    delimiters = ("tab",) if file_kind(path) in (None, "tsv") else DELIMITERS
    reads = ExpectedColumns(columns or (), header=False, delimiters=delimiters, kind="tsv")
    form = table_format(path, options, reads)
    if columns is None and form.header is not None and not form.has_header:
        skipped = BlankRows()
        sides, lines = two_cells(path, form, options, skipped)
        return without_empty((path, path), sides, lines, skip_empty, form, skipped.count)
    table = read_table(path, options, reads)
    if NESTED in table.names and (columns is None or not set(columns) <= set(table.names)):
        columns, sides = two_languages(table, columns)
    else:
        columns = columns or two_columns(table)
        sides = list(zip(*(table.texts(*both) for both in zip(columns, COLUMN_FLAGS, strict=True)), strict=True))
    found = without_empty((path, path), sides, [row.line for row in table.rows], skip_empty, form, table.blank)
    found.columns = columns
    return found


def both_columns(path: Path, source: str | None, target: str | None) -> tuple[str, str] | None:
    if source is None and target is None:
        return None
    if source is None or target is None:
        raise InputError(
            f"{path}: --source-column is {source!r} and --target-column is {target!r}. Give both or neither"
        )
    return source, target


def aligned_lines(path: Path, targets: Path, options: TableOptions) -> list[tuple[str, str]]:
    lines, other = read_lines(path, options), read_lines(targets, options)
    if len(lines) != len(other):
        raise InputError(f"{path} has {len(lines)} lines, but {targets} has {len(other)}: they must be aligned")
    return list(zip(lines, other, strict=True))


def two_cells(
    path: Path, form: TableFormat, options: TableOptions, skipped: BlankRows
) -> tuple[list[tuple[str, str]], list[int]]:
    """The two cells of each row of a table without a header, and its line."""
    sides, lines = [], []
    for line, cells in rows_with_lines(path, form, options, skipped):
        while len(cells) > 2 and not cells[-1]:
            cells = cells[:-1]
        if len(cells) != 2:
            between = f"<{(form.delimiter or 'next cell').upper()}>"
            hint = "Complete the line, or set another delimiter with --delimiter"
            if len(cells) > 2:
                hint = f"Choose two columns, as in {COLUMN_FLAGS[0]} 1 {COLUMN_FLAGS[1]} 2"
            raise InputError(
                f"{locate(path, line)}: {len(cells)} column{'s' * (len(cells) != 1)}, expected "
                f"source{between}target: {' | '.join(cells)[:60]!r}. {hint}"
            )
        sides.append((cells[0], cells[1]))
        lines.append(line)
    return sides, lines


def two_columns(table: Table) -> tuple[str, str]:
    """The usual columns, or the only two."""
    for known in PAIR_COLUMNS:
        if set(known) <= set(table.names):
            return known
    if len(table.names) == 2:
        return table.names[0], table.names[1]
    raise InputError(
        f"{table.path} has the columns {listed_columns(table.names)}: expected source and target, or document "
        "and summary"
        f"{column_hint(table.form, CHOOSE)}"
    )


def two_languages(
    table: Table, columns: tuple[str, str] | None
) -> tuple[tuple[str, str] | None, list[tuple[str, str]]]:
    """The names of two languages, and their texts."""
    sides = []
    for line, texts in zip((row.line for row in table.rows), table.column(NESTED), strict=True):
        if not isinstance(texts, dict):
            raise InputError(
                f"{locate(table.path, line)}: {NESTED} is {texts!r:.60}, expected " + '{"en": "...", "de": "..."}'
            )
        if columns is None:
            if len(texts) != 2:
                raise InputError(
                    f"{locate(table.path, line)}: {NESTED} has the languages {listed_columns(texts)}. {CHOOSE}"
                )
            first, second = texts
            columns = first, second  # in their order; every other line must have the same two
        for name in columns:
            if name not in texts:
                raise absent_column(locate(table.path, line), name, texts)
        source, target = (cell_text(table.path, line, name, texts[name]) for name in columns)
        sides.append((source, target))
    return columns, sides


def without_empty(
    files: tuple[Path, Path],
    sides: Sequence[tuple[str, str]],
    lines: Sequence[int] | None,
    skip_empty: bool,
    form: TableFormat | None = None,
    blank: int = 0,
) -> Pairs:
    kept, where, left_out = [], [], []
    before = f"{files[0]}, {unit_of(files[0])}"
    for line, (source, target) in zip(lines or range(1, len(sides) + 1), sides, strict=True):
        if source.strip() and target.strip():
            kept.append(TextPair(source, target, f"{before} {line}"))
            where.append(line)
        elif skip_empty:
            left_out.append(line)
        else:
            file, side, other = (files[1], "target", source) if source.strip() else (files[0], "source", target)
            raise InputError(
                f"{locate(file, line)}: the {side} is empty (paired with {other[:60]!r}). Fill it, or leave such "
                "pairs out with --skip-empty"
            )
    return Pairs(kept, path=files[0], lines=where, left_out=left_out, form=form, blank=blank)
