"""The rows of an input file: their unchanged cells, and the model's input from each."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.checkpoints.run import NO_RULES, TextRules
from glassformer.data.files import file_kind, kept_pipe, locate, table_format, unit_of
from glassformer.data.formats.table import TableFormat
from glassformer.errors import InputError
from glassformer.io import checksum
from glassformer.predict.images import IMAGE_ABILITIES
from glassformer.predict.inputs import (
    NOTHING_REMEMBERED,
    RememberedFormat,
    as_line,
    expected_columns,
    has_tabs,
    images_in,
    is_table,
    is_text_table,
    numbered_lines,
    rows_in,
    series_in,
)
from glassformer.predict.show import as_json

COLUMN_OF_LINES = {
    **dict.fromkeys(IMAGE_ABILITIES, "image"),
    "series": "series",
}  # column name for a file without columns, if not "text"


class InputRow(NamedTuple):
    """One row of the input."""

    line: int  # where it starts; for a folder, the number of the image
    cells: dict[str, Any]
    input: Any  # for the pipeline; None if it is empty


@dataclass(frozen=True)
class Source:
    """A file whose rows can be read more than once."""

    task: str  # of the model that reads it
    file: Path
    text_columns: tuple[str, ...] = ()
    memory: RememberedFormat = NOTHING_REMEMBERED  # how to read tables
    rules: TextRules = NO_RULES  # as in training

    def rows(self, tell: Callable[[str], None] = lambda said: None) -> Iterator[InputRow]:
        """Yields all rows in order. `tell` receives a sentence on how a table was read, if that is not certain."""
        first: type | None = None
        for row in self.stream(tell):
            if is_empty(row.input):
                yield row._replace(input=None)
                continue
            first = first or type(row.input)
            if type(row.input) is not first:
                one, other = ("a pair", "a text") if first is str else ("a text", "a pair")
                raise InputError(
                    f"{locate(self.file, row.line)} is {one}, and the first is {other}: expected only texts, or only "
                    "pairs"
                )
            yield row

    def stream(self, tell: Callable[[str], None]) -> Iterator[InputRow]:
        file, task = self.file, self.task
        if task in IMAGE_ABILITIES and self.is_pictures:
            for number, picture in enumerate(images_in(file), start=1):
                yield InputRow(number, {"image": as_json(picture)}, picture)
        elif self.is_table:
            of_series = series_in(file, self.memory, tell)
            of_texts = rows_in(file, self.text_columns, task, self.memory, nulls=True, tell=tell)
            for row, given in of_series if task == "series" else of_texts:
                yield InputRow(row.line, row.cells, given)
        else:
            column = COLUMN_OF_LINES.get(task, "text")
            for number, text in numbered_lines(file, self.memory.options):
                given = as_line(task, text, file, number, self.rules) if text.strip() else None
                yield InputRow(number, {column: text}, given)

    @property
    def is_pictures(self) -> bool:
        return self.file.is_dir() or "idx3-ubyte" in self.file.name

    @property
    def row_name(self) -> str:
        """The word for a row in messages, such as "line" in "line 7"."""
        return "image" if self.is_pictures else unit_of(self.file)

    @property
    def is_table(self) -> bool:
        """Whether the file is read by columns."""
        file, memory = self.file, self.memory
        has_more = has_tabs(file, memory) if self.task == "series" else is_text_table(file, memory, self.task)
        return bool(self.text_columns) or is_table(file) or has_more

    @property
    def form(self) -> TableFormat | None:
        """The format of a table of texts; None for other files."""
        if self.task == "series" or not self.is_table or file_kind(self.file) not in ("csv", "tsv"):
            return None
        return table_format(self.file, self.memory.options, expected_columns(self.file, self.text_columns, self.memory))


def is_empty(given: Any) -> bool:
    """Whether an input is missing or blank, or a pair with a missing or blank part."""
    if isinstance(given, tuple):
        return any(map(is_empty, given))
    return given is None or (isinstance(given, str) and not given.strip())


@dataclass(frozen=True)
class Survey:
    """The result of a first pass over the input, which refuses anything unreadable before the model runs."""

    columns: dict[str, set[type]]  # and the types of their cells
    count: int  # rows
    checksum: str


def survey(source: Source, tell: Callable[[str], None] = lambda said: None) -> Survey:
    columns: dict[str, set[type]] = {}
    count = 0
    for row in source.rows(tell):
        for name, cell in row.cells.items():
            columns.setdefault(name, set()).add(type(cell))
        count += 1
    return Survey(columns, count, checksum_of(source.file))


def checksum_of(place: Path) -> str:
    """A checksum of a file's content, or of the names, sizes and times of the images in a folder."""
    if not place.is_dir():
        return checksum(kept_pipe(place) if place.is_fifo() else place)
    found = hashlib.sha256()
    for file in map(Path, images_in(place)):
        state = file.stat()
        found.update(f"{file.relative_to(place)}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return found.hexdigest()
