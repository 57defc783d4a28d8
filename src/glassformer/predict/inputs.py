"""What `predict` is given, one input after another: arguments, lines of a file or of standard input, rows of a table,
pictures. Nothing is read before it is needed, so that a file may be larger than memory.

    text                 a line, or a cell of the column --text-columns
    text<TAB>second      two texts to be judged together, for a model that names classes; or two columns
    1.5, 2, -0.25        a series to be classified
    digits/              a folder of pictures, an idx file (MNIST's format), or lines with the path of one each
"""

import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.checkpoints.run import NO_RULES, TextRules
from glassformer.data.files import (
    STDIN,
    Row,
    Table,
    absent_column,
    cell_of,
    check_text,
    kind_of,
    stream_lines,
    stream_rows,
)
from glassformer.data.images import IDX_PIXELS, list_pictures, read_idx, some_of
from glassformer.data.texts import TEXT_COLUMNS, choose_text_columns
from glassformer.errors import InputError
from glassformer.predict.calls import check_characters, split_pair
from glassformer.predict.images import Picture

IMAGE_COLUMNS = ("image", "path", "file", "filename", "file_name")  # usual names of a column of image files
BETWEEN_NUMBERS = re.compile(r"\s*[,;\t]\s*|\s+")


def check_source(texts: Sequence[str], file: Path | None, text_columns: Sequence[str]) -> None:
    """Refuses what cannot be an input, before a model is loaded for it."""
    if texts and file:
        raise InputError("texts and --file were both given: choose one")
    if text_columns and not file:
        raise InputError("--text-columns names columns of a table: give it with --file")
    if file and not file.exists():
        raise InputError(f"{file}: there is no such file")
    if not texts and not file and sys.stdin.isatty():
        raise InputError('no text was given: write it behind the run, as in glassformer predict RUN "Nov 15 2026"')


def stream_inputs(
    task: str,
    texts: Sequence[str] = (),
    file: Path | None = None,
    text_columns: tuple[str, ...] = (),
    rules: TextRules = NO_RULES,
) -> Iterator[Any]:
    """The inputs as a pipeline of this task takes them, by the rules of the training."""
    if texts:
        for number, text in enumerate(texts, start=1):
            yield as_input(task, text, f"input {number}", rules)
    elif file is None:
        for number, text in lines_of(STDIN):
            yield as_input(task, text, f"{STDIN}, line {number}", rules)
    elif task == "images" and (file.is_dir() or "idx3-ubyte" in file.name):
        yield from pictures_in(file)
    elif text_columns or (task != "series" and is_table(file, task, rules)):
        for _, given in rows_in(file, text_columns, task, rules):
            yield given
    else:
        for number, text in lines_of(file):
            yield as_line(task, text, file, number, rules)


def as_line(task: str, text: str, file: Path, number: int, rules: TextRules) -> Any:
    """A line of a file as what a model of this task reads."""
    place = f"{file}, line {number}"
    reads_one = task == "translate" or rules.texts == 1
    if reads_one and "\t" in text and ".tsv" in file.suffixes:
        raise InputError(
            f"{place} has a tab, and this model reads one text: {text!r:.60}. Give the texts alone, or a table whose "
            "first line names its columns, with --text-columns"
        )
    return as_input(task, text, place, rules)


def is_table(file: Path, task: str, rules: TextRules) -> bool:
    """Whether a file is read by its columns: one with tabs, if its first line names those of the texts."""
    if kind_of(file) != "tsv":
        return kind_of(file) in ("csv", "jsonl")
    first = next((line for _, line in stream_lines(file)), "")
    names = set(first.rstrip("\r\n").split("\t"))
    return len(names) > 1 and any(set(known) <= names for known in columns_of(task, rules))


def columns_of(task: str, rules: TextRules) -> tuple[tuple[str, ...], ...]:
    """The columns that texts may stand in: those of the training, or if it named none the usual ones."""
    if rules.columns:
        return (rules.columns,)
    if task == "images":
        return tuple((name,) for name in IMAGE_COLUMNS)
    return (("source",), *TEXT_COLUMNS) if task == "translate" else TEXT_COLUMNS


def as_input(task: str, text: str, place: str, rules: TextRules = NO_RULES) -> Any:
    """A line as what a model of this task reads. A decoder may go on from nothing; others need a text."""
    if task != "images":  # a path may be of any bytes
        check_characters(text, place)
    if task == "series":
        return as_numbers(text, place)
    if task not in ("lm", "images"):
        check_not_empty(text, place)
    if task != "classify":
        return text
    parts = split_pair(text, place, rules)
    return text if len(parts) == 1 else tuple(parts)


def check_not_empty(text: str, place: str) -> None:
    if not text.strip():
        raise InputError(f"{place} is empty: expected a text. Fill it, or leave it out")


def as_numbers(text: str, place: str) -> list[float]:
    numbers = []
    for cell in BETWEEN_NUMBERS.split(text.strip()):
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or "_" in cell:
            raise InputError(f"{place}: {cell!r} is not a number. Expected the values of a series, with commas between")
        numbers.append(number)
    return numbers


def lines_of(file: Path) -> Iterator[tuple[int, str]]:
    number = 0
    for number, line in stream_lines(file):
        yield number, line.removesuffix("\n").removesuffix("\r")
    if not number:
        raise InputError(f"{file} is empty: expected one example per line")


def rows_in(
    file: Path, columns: tuple[str, ...], task: str, rules: TextRules = NO_RULES, *, empty: bool = False
) -> Iterator[tuple[Row, Any]]:
    """The rows of a table, each with what the model reads of it: a cell, or for a model that judges pairs the two. A
    cell must have a text in it, unless it may be `empty`: then it may also be None."""
    names: tuple[str, ...] = columns
    for number, row in enumerate(stream_rows(file)):
        if number == 0:
            names = chosen_columns(Table(file, tuple(row.cells), [row]), columns, task, rules)
        cells = [cell_of(file, row, name) for name in names]
        for name, cell in zip(names, cells, strict=True):
            if not (empty and cell is None):
                check_text(file, row.line, name, cell)
            if not empty and task not in ("lm", "images"):
                check_not_empty(cell, f"{file}, line {row.line}: {name}")
        if task == "images" and cells[0] is not None:
            cells = [path_from(file, cells[0])]
        yield row, cells[0] if len(cells) == 1 else tuple(cells)


def chosen_columns(table: Table, columns: tuple[str, ...], task: str, rules: TextRules) -> tuple[str, ...]:
    """Those that were named, those of the training, or the usual ones for what the model reads."""
    known = next((known for known in columns_of(task, rules) if set(known) <= set(table.names)), None)
    if not columns and known is None:
        if task == "images":
            raise InputError(
                f"{table.path} has the columns {', '.join(table.names)}: expected one of {', '.join(IMAGE_COLUMNS)}. "
                "Name the column of the image files: --text-columns NAME"
            )
        if rules.columns:
            raise InputError(
                f"{table.path} has the columns {', '.join(table.names)}, and the training read "
                f"{' and '.join(rules.columns)}. Name the column of the text with --text-columns"
            )
    names = tuple(choose_text_columns(table, columns or known))
    for name in names:
        if name not in table.names:
            raise absent_column(str(table.path), name, table.names)
    if len(names) == 2 and task != "classify":
        raise InputError(
            f"{table.path} has the texts {' and '.join(names)}, and this model reads one. Name it: --text-columns "
            f"{names[0]}"
        )
    return names


def path_from(table: Path, cell: str) -> str:
    """An image that a table names: from the table's own folder, as in training, or else from where we are."""
    beside = table.parent / cell.strip()
    return str(beside) if beside.is_file() or not Path(cell.strip()).is_file() else cell.strip()


def pictures_in(place: Path) -> Iterator[Any]:
    """The files of a folder and of those in it, by name; or the images of an idx file, by number."""
    if place.is_dir():
        files, others, _ = list_pictures(place)
        if others:
            names = some_of([str(file) for file in others])
            raise InputError(f"{place} has files that are no pictures: {names}. Move them elsewhere")
        if not files:
            raise InputError(f"{place} has no image in it: expected files such as .png or .jpg")
        yield from map(str, files)
        return
    for number, pixels in enumerate(read_idx(place, IDX_PIXELS)):
        yield Picture(f"{place}[{number}]", pixels)
