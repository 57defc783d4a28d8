"""Pairs of texts, source and target: two files aligned line by line, lines with a tab, or two columns of a table.

train.en + train.de                                     line 7 belongs to line 7
pairs.tsv                                               one<TAB>eins
pairs.csv, pairs.jsonl                                  the columns source and target, or document and summary
{"translation": {"en": "one", "de": "eins"}}            the languages are the columns
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.data.files import (
    Examples,
    Table,
    absent_column,
    check_text,
    kind_of,
    read_lines,
    read_table,
    stream_lines,
)
from glassformer.errors import InputError

COLUMNS = (("source", "target"), ("document", "summary"))
NESTED = "translation"


@dataclass(frozen=True)
class Pair:
    """One example: a source text and what is to be written for it."""

    source: str
    target: str
    place: str = field(default="", compare=False, repr=False)  # file and line


def read_pairs(
    path: Path,
    targets: Path | None = None,
    *,
    source_column: str | None = None,
    target_column: str | None = None,
    skip_empty: bool = False,
) -> Examples[Pair]:
    """All pairs. One with an empty side is an error, or with `skip_empty` it is left out and counted."""
    columns = both_columns(path, source_column, target_column)
    if targets is not None:
        if columns is not None:
            raise InputError(f"{path} and {targets} are aligned lines, which have no columns: leave {columns} out")
        return without_empty((path, targets), aligned_lines(path, targets), None, skip_empty)
    if columns is None and kind_of(path) not in ("csv", "jsonl") and not has_header(path):
        return without_empty((path, path), tabbed_lines(path), None, skip_empty)
    table = read_table(path)
    return without_empty((path, path), two_columns(table, columns), [row.line for row in table.rows], skip_empty)


def has_header(path: Path) -> bool:
    """Whether the first line of a file with tabs names its columns, and is no pair."""
    first = next(iter(stream_lines(path)), (1, ""))[1]
    return tuple(first.rstrip("\r\n").lower().split("\t")) in COLUMNS


def both_columns(path: Path, source: str | None, target: str | None) -> tuple[str, str] | None:
    if source is None and target is None:
        return None
    if source is None or target is None:
        raise InputError(f"{path}: source_column is {source!r} and target_column is {target!r}: name both or neither")
    return source, target


def aligned_lines(path: Path, targets: Path) -> list[tuple[str, str]]:
    lines, other = read_lines(path), read_lines(targets)
    if len(lines) != len(other):
        raise InputError(f"{path} has {len(lines)} lines and {targets} has {len(other)}: they must be aligned")
    return list(zip(lines, other, strict=True))


def tabbed_lines(path: Path) -> list[tuple[str, str]]:
    sides = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise InputError(
                f"{path}, line {number}: {len(cells)} columns, expected source<TAB>target: {line[:60]!r}. "
                "If the first line names the columns, say which two are meant"
            )
        sides.append((cells[0], cells[1]))
    return sides


def two_columns(table: Table, columns: tuple[str, str] | None) -> list[tuple[str, str]]:
    known = [pair for pair in COLUMNS if set(pair) <= set(table.names)]
    if NESTED in table.names and (columns is None or not set(columns) <= set(table.names)):
        return two_languages(table, columns)
    if columns is None and not known:
        raise InputError(
            f"{table.path} has the columns {', '.join(table.names)}: expected source and target, or document and "
            "summary. Say which two are meant"
        )
    source, target = columns or known[0]
    return list(zip(table.texts(source), table.texts(target), strict=True))


def two_languages(table: Table, columns: tuple[str, str] | None) -> list[tuple[str, str]]:
    sides = []
    for line, texts in zip((row.line for row in table.rows), table.column(NESTED), strict=True):
        if not isinstance(texts, dict):
            raise InputError(
                f"{table.path}, line {line}: {NESTED} is {texts!r}, expected " + '{"en": "...", "de": "..."}'
            )
        if columns is None:
            if len(texts) != 2:
                raise InputError(
                    f"{table.path}, line {line}: {NESTED} has the languages {', '.join(texts)}. Say which two are meant"
                )
            first, second = texts
            columns = first, second  # in their order; every other line must have the same two
        for name in columns:
            if name not in texts:
                raise absent_column(f"{table.path}, line {line}", name, texts)
            check_text(table.path, line, name, texts[name])
        sides.append((texts[columns[0]], texts[columns[1]]))
    return sides


def without_empty(
    files: tuple[Path, Path], sides: Sequence[tuple[str, str]], lines: Sequence[int] | None, skip_empty: bool
) -> Examples[Pair]:
    kept, where, left_out = [], [], []
    for line, (source, target) in zip(lines or range(1, len(sides) + 1), sides, strict=True):
        if source.strip() and target.strip():
            kept.append(Pair(source, target, f"{files[0]}, line {line}"))
            where.append(line)
        elif skip_empty:
            left_out.append(line)
        else:
            file, side, other = (files[1], "target", source) if source.strip() else (files[0], "source", target)
            raise InputError(
                f"{file}, line {line}: the {side} is empty (beside {other[:60]!r}). Fill it, or leave such pairs out "
                "with skip_empty (--skip-empty)"
            )
    return Examples(kept, path=files[0], lines=where, left_out=left_out)
