"""Files of the user: lines, long texts, and tables (.csv, .tsv, .jsonl), plain or packed (.gz), always UTF-8.

A table's first line names its columns (.csv, .tsv), or each line does (.jsonl: one JSON object a line). Cells of a .csv
may be quoted (RFC 4180); a .tsv knows no quotes. Whatever cannot be read is named by file, line and value.
"""

import codecs
import csv
import gzip
import io
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, TypeVar, overload

from glassformer.errors import InputError, nearest

TABLES = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
STDIN = Path("standard input")  # stands for it wherever a file is read
BLOCK = 1 << 20  # bytes of a long text that are read at a time
LONGEST_CELL = 2**31 - 1  # what the csv module can be told to accept; by itself it stops at 128 KB
Example = TypeVar("Example")


class Row(NamedTuple):
    """One row of a table: the line on which it begins, and its cells by column."""

    line: int
    cells: dict[str, Any]


@dataclass(frozen=True)
class Table:
    """All rows of a file, and the columns that occur in them."""

    path: Path
    names: tuple[str, ...]
    rows: list[Row]

    def column(self, name: str) -> list[Any]:
        """The cells of one column, from top to bottom."""
        if name not in self.names:
            raise absent_column(str(self.path), name, self.names)
        return [cell_of(self.path, row, name) for row in self.rows]

    def texts(self, name: str) -> list[str]:
        """A column whose cells must be texts."""
        cells = self.column(name)
        for row, cell in zip(self.rows, cells, strict=True):
            check_text(self.path, row.line, name, cell)
        return cells


class Examples(Sequence[Example]):
    """Examples as read from a file, with the line of each, and the lines that were left out because they were empty."""

    def __init__(
        self, examples: Sequence[Example], *, path: Path, lines: Sequence[int], left_out: Sequence[int] = ()
    ) -> None:
        self.examples, self.path, self.lines, self.left_out = list(examples), path, list(lines), list(left_out)
        if not self.examples:
            raise InputError(f"{path}: each of its {len(self.left_out)} examples is empty. Is it the right column?")

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        return self.examples[index]

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    with opened(path) as stream:
        return decode_lines(stream.read(), str(path))


def decode_lines(content: bytes, name: str) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        not_utf8(name, content.count(b"\n", 0, error.start) + 1, error)
    if not text:
        raise InputError(f"{name} is empty: expected one example per line")
    # Not str.splitlines, which also cuts at characters that stand inside a sentence, such as U+2028.
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def read_table(path: Path) -> Table:
    """All rows of a .csv, .tsv (or .txt with tabs), .jsonl or .json file of lines; each may end in .gz."""
    rows = list(stream_rows(path))
    names = (
        tuple(rows[0].cells) if kind_of(path) != "jsonl" else tuple({name: None for row in rows for name in row.cells})
    )
    return Table(path, names, rows)


def stream_rows(path: Path) -> Iterator[Row]:
    """The rows of a table one after another, for files that are larger than memory."""
    kind = kind_of(path)
    if kind is None:
        raise InputError(f"{path} is no table: expected {', '.join(TABLES)}, or one of these with .gz. Rename the file")
    rows = stream_objects(path) if kind == "jsonl" else stream_cells(path, kind)
    first = next(rows, None)
    if first is None:
        what = "is empty: expected one JSON object per line" if kind == "jsonl" else "has a header and no rows"
        raise InputError(f"{path} {what}")
    yield first
    yield from rows


def kind_of(path: Path) -> str | None:
    """csv, tsv or jsonl by the ending of the name; None for any other file. A table on standard input is csv."""
    if path == STDIN:
        return "csv"
    return TABLES.get(Path(path.name.removesuffix(".gz")).suffix.lower())


def stream_objects(path: Path) -> Iterator[Row]:
    for number, line in stream_lines(path):
        try:
            cells = json.loads(line)
        except ValueError as error:
            raise InputError(
                f"{path}, line {number} is not JSON ({error}): {line[:60].strip()!r}. Expected one object per line, as "
                'in {"text": "...", "label": "..."}; `jq -c .[]` makes such lines of one list'
            ) from None
        if not isinstance(cells, dict):
            raise InputError(f"{path}, line {number}: {line[:60].strip()!r} is no JSON object. Expected one per line")
        if "\\ud" in line.lower():
            check_surrogates(path, number, cells)
        yield Row(number, cells)


def stream_cells(path: Path, kind: str) -> Iterator[Row]:
    rows = quoted_rows(path) if kind == "csv" else tabbed_rows(path)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path} is empty: expected a first line with the names of its columns")
    names = first[1]
    doubles = [name for name, times in Counter(names).items() if times > 1]
    if doubles:
        raise InputError(f"{path}, line 1: two columns are called {doubles[0]!r}. Rename one of them")
    for number, cells in rows:
        if len(cells) != len(names):
            raise InputError(
                f"{path}, line {number}: {len(cells)} cells, expected {len(names)} ({', '.join(names)}): "
                f"{' | '.join(cells)[:60]!r}"
            )
        yield Row(number, dict(zip(names, cells, strict=True)))


def tabbed_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in stream_lines(path):
        yield number, line.removesuffix("\n").removesuffix("\r").split("\t")


def quoted_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader((line for _, line in stream_lines(path)), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}, line {number} is not CSV ({error}): expected cells between commas, and a cell with a comma, "
                'a quote or a line break written as "...", with "" for a quote'
            ) from None
        yield number, cells or [""]


def stream_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Every line with its number, from 1, and with its line end."""
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                not_utf8(str(path), number, error)
            yield number, line.removeprefix("\ufeff") if number == 1 else line


def stream_text(path: Path, size: int = BLOCK) -> Iterator[str]:
    """A long text in blocks of about `size` bytes, cut anywhere between two characters."""
    decoder, line = codecs.getincrementaldecoder("utf-8-sig")(), 1
    with opened(path) as stream:
        while True:
            content = stream.read(size)
            try:
                text = decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                not_utf8(str(path), line + error.object.count(b"\n", 0, error.start), error)
            if text:
                yield text
            if not content:
                return
            line += content.count(b"\n")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if its name ends in .gz, or of standard input."""
    try:
        if path == STDIN:
            yield sys.stdin.buffer
        elif path.name.endswith(".gz"):
            with gzip.open(path) as packed, io.BufferedReader(packed, BLOCK) as stream:
                yield stream
        else:
            with path.open("rb") as stream:
                yield stream
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, expected a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be unpacked ({error}). Is the file whole, and made by gzip?") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def not_utf8(name: str, line: int, error: UnicodeDecodeError) -> NoReturn:
    raise InputError(
        f"{name}, line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8. "
        "Convert it first, for instance with `iconv -f CP949 -t UTF-8`"
    ) from None


def absent_column(place: str, name: str, names: Iterable[str]) -> InputError:
    names = list(names)
    return InputError(f"{place} has the columns {', '.join(names)}, and none called {name!r}{nearest(name, names)}")


def cell_of(path: Path, row: Row, name: str) -> Any:
    try:
        return row.cells[name]
    except KeyError:
        raise InputError(
            f"{path}, line {row.line} has no {name!r}; it has {', '.join(row.cells)}. Every line needs one"
        ) from None


def check_text(path: Path, line: int, name: str, cell: Any) -> None:
    if not isinstance(cell, str):
        raise InputError(f"{path}, line {line}: {name} is {cell!r}, expected a text in quotes")


def check_surrogates(path: Path, line: int, cells: Any) -> None:
    """JSON can spell half a character, which no text may hold."""
    try:
        json.dumps(cells, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(f"{path}, line {line}: {half} is half of a character. Write both halves, or none") from None
