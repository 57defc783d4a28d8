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
from glassformer.data.images import IDX_PIXELS, SUFFIXES, read_idx
from glassformer.data.texts import choose_text_columns
from glassformer.errors import InputError
from glassformer.predict.calls import split_pair
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
    task: str, texts: Sequence[str] = (), file: Path | None = None, text_columns: tuple[str, ...] = ()
) -> Iterator[Any]:
    """The inputs as a pipeline of this task takes them."""
    if texts:
        for number, text in enumerate(texts, start=1):
            yield as_input(task, text, f"input {number}")
    elif file is None:
        for number, text in lines_of(STDIN):
            yield as_input(task, text, f"{STDIN}, line {number}")
    elif task == "images" and (file.is_dir() or "idx3-ubyte" in file.name):
        yield from pictures_in(file)
    elif text_columns or (task != "series" and kind_of(file) in ("csv", "jsonl")):
        for _, given in rows_in(file, text_columns, task):
            yield given
    else:
        for number, text in lines_of(file):
            yield as_input(task, text, f"{file}, line {number}")


def as_input(task: str, text: str, place: str) -> Any:
    """A line as what a model of this task reads."""
    if task == "series":
        return as_numbers(text, place)
    if task != "classify" or "\t" not in text:
        return text
    return tuple(split_pair(text, place))


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


def rows_in(file: Path, columns: tuple[str, ...], task: str, *, nulls: bool = False) -> Iterator[tuple[Row, Any]]:
    """The rows of a table, each with what the model reads of it: a cell, or for a model that judges pairs the two. With
    `nulls`, a cell may be None."""
    names: tuple[str, ...] = columns
    for number, row in enumerate(stream_rows(file)):
        if number == 0:
            names = chosen_columns(Table(file, tuple(row.cells), [row]), columns, task)
        cells = [cell_of(file, row, name) for name in names]
        for name, cell in zip(names, cells, strict=True):
            if not (nulls and cell is None):
                check_text(file, row.line, name, cell)
        if task == "images" and cells[0] is not None:
            cells = [path_from(file, cells[0])]
        yield row, cells[0] if len(cells) == 1 else tuple(cells)


def chosen_columns(table: Table, columns: tuple[str, ...], task: str) -> tuple[str, ...]:
    """Those that were named, or that are usual for what the model reads."""
    if task == "images" and not columns:
        usual = next((name for name in IMAGE_COLUMNS if name in table.names), None)
        if usual is None:
            raise InputError(
                f"{table.path} has the columns {', '.join(table.names)}: expected one of {', '.join(IMAGE_COLUMNS)}. "
                "Name the column of the image files: --text-columns NAME"
            )
        return (usual,)
    names = tuple(choose_text_columns(table, columns or None))
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
        files = sorted(file for file in place.rglob("*") if file.suffix.lower() in SUFFIXES)
        if not files:
            raise InputError(f"{place} has no image in it: expected files such as .png or .jpg")
        yield from map(str, files)
        return
    for number, pixels in enumerate(read_idx(place, IDX_PIXELS)):
        yield Picture(f"{place}[{number}]", pixels)
