"""Labelled texts: a text or two with the name of a class, or of several, from a table.

    text,label                          sentence1,sentence2,label
    "I liked it",positive               It rains,It is wet,entailment

A .jsonl may hold a list of labels; in the other tables `label_separator` cuts a cell into several.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.files import Examples, Table, read_table
from glassformer.errors import InputError, nearest

TEXT_COLUMNS = (("text",), ("sentence1", "sentence2"), ("sentence",), ("document",))
LABEL_COLUMN = "label"


@dataclass(frozen=True)
class LabeledText:
    """One example: a text, or two to be judged together, and its labels: one, or any number of them."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]


def read_labeled(
    path: Path,
    *,
    text_columns: Sequence[str] | None = None,
    label_column: str | None = None,
    label_separator: str | None = None,
    skip_empty: bool = False,
) -> Examples[LabeledText]:
    """All rows of a table. An empty text is an error, or with `skip_empty` it is left out and counted."""
    table = read_table(path)
    names = choose_text_columns(table, text_columns)
    texts = list(zip(*(table.texts(name) for name in names), strict=True))
    column = label_column or LABEL_COLUMN
    labels = table.column(column)
    kept, lines, left_out = [], [], []
    for row, parts, cell in zip(table.rows, texts, labels, strict=True):
        empty = next((name for name, text in zip(names, parts, strict=True) if not text.strip()), None)
        if empty is None:
            kept.append(LabeledText(parts, split_labels(cell, label_separator, path, row.line)))
            lines.append(row.line)
        elif skip_empty:
            left_out.append(row.line)
        else:
            raise InputError(
                f"{path}, line {row.line}: {empty} is empty (label {cell!r}). Fill it, or leave such rows out with "
                "skip_empty (--skip-empty)"
            )
    return Examples(kept, path=path, lines=lines, left_out=left_out)


def choose_text_columns(table: Table, names: Sequence[str] | None) -> Sequence[str]:
    if names is not None:
        if isinstance(names, str) or len(names) not in (1, 2):
            raise InputError(f"text_columns {names!r}: expected the names of one column or of two")
        return names
    for known in TEXT_COLUMNS:
        if set(known) <= set(table.names):
            return known
    usual = ", ".join(" and ".join(known) for known in TEXT_COLUMNS)
    raise InputError(
        f"{table.path} has the columns {', '.join(table.names)}: expected one of {usual}. Say which column is the text"
    )


def split_labels(cell: Any, separator: str | None, path: Path, line: int) -> tuple[str, ...]:
    """The labels of one cell; `path` and `line` say where it stands."""
    if isinstance(cell, list):
        parts = cell
    elif separator is not None and isinstance(cell, str):
        parts = cell.split(separator) if cell.strip() else []
    else:
        parts = [cell]
    labels = tuple(map(as_label, parts))
    if "" in labels:
        raise InputError(f"{path}, line {line}: the label is {cell!r}, expected the name of a class or its number")
    if len(labels) > 1 and len(set(labels)) < len(labels):
        raise InputError(f"{path}, line {line}: the label is {cell!r}, which names one class twice")
    return labels


def as_label(value: Any) -> str:
    """A class by its name; empty if this can be none."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else ""


def label_names(examples: Iterable[LabeledText]) -> list[str]:
    """Every label that occurs, sorted: as numbers if all are whole numbers, otherwise as words."""
    names = {label for example in examples for label in example.labels}
    if all(name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def check_labels(examples: Examples[LabeledText], names: Sequence[str]) -> None:
    """A label that training never saw cannot be predicted: it is named with its file and line."""
    known = set(names)
    for line, example in zip(examples.lines, examples, strict=True):
        for label in example.labels:
            if label not in known:
                raise InputError(
                    f"{examples.path}, line {line}: no example of training has the label {label!r}"
                    f"{nearest(label, known)}"
                )
