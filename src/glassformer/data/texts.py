"""Labelled texts from a table: a text or a text pair with one or more class names.

    text,label                          sentence1,sentence2,label
    "I liked it",positive               It rains,It is wet,entailment

JSON may hold a list of labels; in other tables `label_separator` splits a cell into several labels. Other columns are
ignored.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.files import AS_FOUND, Examples, Table, column_hint, listed_columns, locate, read_table
from glassformer.data.formats.table import ExpectedColumns, TableOptions
from glassformer.errors import InputError, did_you_mean

TEXT_COLUMNS = (("text",), ("sentence1", "sentence2"), ("sentence",), ("document",))
LABEL_COLUMN = "label"
LOPSIDED = 10  # ratio of the largest to the smallest class that counts as a strong imbalance
NO_VALUES = {"", "nan", "na", "n/a", "null", "none", "#n/a", "?", "-"}  # usual marks of a missing value


@dataclass(frozen=True)
class LabeledText:
    """One example: a text or a text pair, with one label or any number of them."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]


def read_labeled(
    path: Path,
    *,
    text_columns: Sequence[str] | None = None,
    label_column: str | None = None,
    label_separator: str | None = None,
    skip_empty: bool = False,
    options: TableOptions = AS_FOUND,
) -> Examples[LabeledText]:
    """All rows of a table. An empty text is an error; with `skip_empty` it is skipped and counted."""
    column = label_column or LABEL_COLUMN
    table = read_table(path, options, reads_texts(text_columns, column))
    names = choose_text_columns(table, text_columns)
    texts = list(zip(*(table.texts(name, "--text-columns") for name in names), strict=True))
    labels = table.column(column, "--label-column")
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
                f"{locate(path, row.line)}: {empty} is empty (label {cell!r}). Fill it, or leave such rows out with "
                "--skip-empty"
            )
    return Examples(kept, path=path, lines=lines, left_out=left_out, form=table.form, blank=table.blank)


def reads_texts(text_columns: Sequence[str] | None, *others: str) -> ExpectedColumns:
    """The columns expected in the header of a table of texts: the named ones, or the usual ones."""
    usual = tuple(name for known in TEXT_COLUMNS for name in known)
    return ExpectedColumns(columns=(*(text_columns or usual), *others))


def choose_text_columns(table: Table, names: Sequence[str] | None) -> Sequence[str]:
    """The named columns, or the first of the usual ones that the table has."""
    if names is not None:
        if isinstance(names, str) or len(names) not in (1, 2):
            raise InputError(f"--text-columns {names!r}: expected the names of one column or of two")
        return names
    for known in TEXT_COLUMNS:
        if set(known) <= set(table.names):
            return known
    usual = ", ".join(" and ".join(known) for known in TEXT_COLUMNS)
    columns, form = listed_columns(table.names), table.form
    if form is not None and form.header is not None and not form.has_header:
        if len(table.names) == 1:
            return table.names
        raise InputError(
            f"{table.path} has no header, so its columns are called {columns}. Give the columns of the text and the "
            f"label, as in --text-columns 1 --label-column 2{column_hint(form, '')}"
        )
    hint = "Choose the text column with --text-columns"
    raise InputError(f"{table.path} has the columns {columns}: expected one of {usual}{column_hint(form, hint)}")


def split_labels(cell: Any, separator: str | None, path: Path, line: int) -> tuple[str, ...]:
    """The labels of one cell; `path` and `line` are its place."""
    if isinstance(cell, list):
        parts = cell
    elif separator is not None and isinstance(cell, str):
        parts = cell.split(separator) if cell.strip() else []
    else:
        parts = [cell]
    labels = tuple(map(as_label, parts))
    if "" in labels:
        raise InputError(f"{locate(path, line)}: the label is {cell!r}, expected a class name or number")
    if len(labels) > 1 and len(set(labels)) < len(labels):
        raise InputError(f"{locate(path, line)}: the label {cell!r} names one class twice. Name each once")
    return labels


def as_label(value: Any) -> str:
    """The name of a class; empty if the value cannot be one."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():  # pandas stores integers so if values are missing
        return str(int(value))
    return str(value) if isinstance(value, int) else ""


def label_names(examples: Iterable[LabeledText]) -> list[str]:
    """Every label that occurs, sorted: as numbers if all are whole numbers, otherwise as words."""
    names = {label for example in examples for label in example.labels}
    if all(name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def check_labels(examples: Examples[LabeledText], names: Sequence[str]) -> None:
    """Refuses a label that is not in the training data, naming its file and line."""
    known = set(names)
    for line, example in zip(examples.lines, examples, strict=True):
        for label in example.labels:
            if label not in known:
                raise InputError(
                    f"{locate(examples.path, line)}: no training example has the label {label!r}"
                    f"{did_you_mean(label, known)}"
                )


def label_hints(labels: Iterable[str]) -> list[str]:
    """Warnings about the training labels: different spellings of one class, missing values, imbalance."""
    counts = Counter(labels)
    alike: dict[str, list[str]] = {}
    for name in counts:
        alike.setdefault("".join(name.casefold().split()), []).append(name)
    hints = [
        f"{' and '.join(map(repr, names))} differ only by case or spaces, and count as {len(names)} classes. If they "
        "are one class, write them the same way"
        for names in alike.values()
        if len(names) > 1
    ]
    hints += [
        f"{counts[name]:,} example{'s have' if counts[name] > 1 else ' has'} the label {name!r}, which counts as a "
        "class. If it means a missing label, leave these rows out"
        for name in counts
        if name.casefold() in NO_VALUES
    ]
    (most, many), *_, (least, few) = [*counts.most_common(), *counts.most_common()[-1:]]
    if many >= LOPSIDED * few:
        hints.append(
            f"strong imbalance: {many:,} of {most!r} and {few:,} of {least!r}. Judge by macro F1 rather than accuracy; "
            "--class-weights balanced gives rare classes more weight"
        )
    return hints
