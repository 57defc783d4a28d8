"""Reads the user's files: lines, long texts, and tables (.csv, .tsv, .jsonl, .json, .parquet, .xlsx); text files may be
gzipped.

The format of a text file is detected from its beginning (`formats/`) or set by flags. The first row of a table holds
the column names, unless it is detected to be an example; then the columns are called 1, 2, 3. Blank rows are skipped.
Errors name file, line and value.
"""

import codecs
import csv
import gzip
import io
import json
import os
import select
import shutil
import stat
import sys
import time
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, NamedTuple, TypeVar, overload

from glassformer.data.formats.delimiter import DELIMITER_SIGNS, contradicts, without_quotes
from glassformer.data.formats.encoding import TextFormat, find_text_format, is_mixed, two_encodings, wrong_byte
from glassformer.data.formats.foreign import check_beginning, check_ending
from glassformer.data.formats.json_list import objects_in_list
from glassformer.data.formats.long import MAX_LINE_BYTES, bounded_lines, too_long
from glassformer.data.formats.packed import check_so_far, check_unpacked, excel_beginning, excel_rows, parquet_rows
from glassformer.data.formats.table import (
    LOOKED_AT,
    ExpectedColumns,
    TableFormat,
    TableOptions,
    TrainingFlags,
    find_format,
    header_of,
)
from glassformer.errors import InputError, did_you_mean

TABLES = {
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab", ".txt"), "tsv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}
PACKED = ("parquet", "xlsx")  # tables that are not text
STDIN = Path("standard input")  # accepted wherever a file is read
BLOCK = 1 << 20  # bytes of a long text read at a time, and from which the format is detected
FEW_LINES = 3  # enough to detect the format of a table with very long lines
LISTED = 20  # columns listed in an error
NULL = "\\N"  # an empty cell in database exports
AS_FOUND = TableOptions()
BY_NAME = ExpectedColumns()
PIPE_TIMEOUT = 5  # seconds to wait for a writer to open a pipe
PIPES: dict[tuple[int, int, int], Any] = {}  # the content read from each pipe
Example = TypeVar("Example")


class Row(NamedTuple):
    """One row of a table: the line on which it begins, and its cells by column."""

    line: int
    cells: dict[str, Any]


@dataclass
class BlankRows:
    """The number of blank rows of a table so far."""

    count: int = 0


@dataclass(frozen=True)
class Table:
    """All rows of a file, their columns, and the format of the file."""

    path: Path
    names: tuple[str, ...]
    rows: list[Row]
    form: TableFormat | None = None
    blank: int = 0  # blank rows that were skipped

    def column(self, name: str, flag: str = "") -> list[Any]:
        """The cells of one column. `flag` is the flag that selects another column."""
        name = find_column(self.path, name, self.names, self.form, flag)
        return [cell_of(self.path, row, name) for row in self.rows]

    def texts(self, name: str, flag: str = "") -> list[str]:
        """A column whose cells must be texts; a missing value is an empty text."""
        cells = self.column(name, flag)
        return [cell_text(self.path, row.line, name, cell) for row, cell in zip(self.rows, cells, strict=True)]


class Examples(Sequence[Example]):
    """Examples read from a file with their lines, and the lines that were skipped because they were empty."""

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        path: Path,
        lines: Sequence[int],
        left_out: Sequence[int] = (),
        form: TableFormat | None = None,
        blank: int = 0,
    ) -> None:
        self.examples, self.path, self.lines, self.left_out = list(examples), path, list(lines), list(left_out)
        self.form, self.blank = form, blank  # format of the file, and number of blank rows
        if not self.examples:
            raise InputError(f"{path}: all {len(self.left_out)} examples are empty. Is it the right column?")

    @property
    def written(self) -> str:
        """The format of the file in words, and what was skipped."""
        blank = f", {self.blank:,} blank row{'s' * (self.blank > 1)} skipped" if self.blank else ""
        return f"{self.form}{blank}"

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


def read_lines(path: Path, options: TableOptions = AS_FOUND) -> list[str]:
    """The lines of a text file."""
    lines = stream_lines(path, text_format(path, options), options.longest)
    found = [line.removesuffix("\n").removesuffix("\r") for _, line in lines]
    if not found:
        raise InputError(f"{path} is empty: expected one example per line")
    return found


def read_table(path: Path, options: TableOptions = AS_FOUND, reads: ExpectedColumns = BY_NAME) -> Table:
    """All rows of a table."""
    rows = stream_rows(path, options, reads)
    every = list(rows)
    names = rows.names or tuple({name: None for row in every for name in row.cells})
    return Table(path, names, every, rows.form, rows.skipped.count)


def stream_rows(path: Path, options: TableOptions = AS_FOUND, reads: ExpectedColumns = BY_NAME) -> "Rows":
    """Streams the rows of a table, for files larger than memory."""
    return Rows(path, table_format(path, options, reads), options, reads)


class Rows(Iterator[Row]):
    """An iterator over the rows of a table (at least one) that knows the table's format."""

    def __init__(
        self, path: Path, form: TableFormat, options: TableOptions = AS_FOUND, reads: ExpectedColumns = BY_NAME
    ) -> None:
        self.path, self.form, self.skipped = path, form, BlankRows()
        self.names: tuple[str, ...] = ()  # of the columns; empty if each row names its cells
        if form.kind == "jsonl":
            self.rows = stream_objects(path, form)
        elif form.kind == "parquet":
            rows = parquet_rows(path, form.longest)
            self.rows = (Row(number, cells) for number, cells in enumerate(rows, start=1))
        else:
            self.names = tuple(checked_names(path, form, reads))
            self.rows = stream_cells(path, form, self.names, options, self.skipped)
        first = next(self.rows, None)
        if first is None:
            raise InputError(f"{path} {'has a header but no rows' if form.has_header else 'is empty: expected rows'}")
        self.first: Row | None = first

    def __next__(self) -> Row:
        if self.first is not None:
            first, self.first = self.first, None
            return first
        return next(self.rows)


def file_kind(path: Path) -> str | None:
    """csv, tsv, jsonl, parquet or xlsx by the file extension; None for any other file. A table on standard input is
    csv."""
    if path == STDIN:
        return "csv"
    return TABLES.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def table_format(path: Path, options: TableOptions = AS_FOUND, reads: ExpectedColumns = BY_NAME) -> TableFormat:
    """The format of a table: from flags, or detected from its beginning."""
    kind = file_kind(path) or reads.kind
    if kind in PACKED:
        with opened(path):
            if path.name.lower().endswith(".gz"):
                raise InputError(f"{path}: a .{kind} file is already compressed. Unpack it first, with gunzip")
        if kind == "parquet":
            return TableFormat(kind, longest=options.longest)
        sample, sheet = excel_beginning(path, *sheets_of(options), LOOKED_AT)
        header, asked = header_of(sample, options, reads, str(path), unit_of(path))
        first = tuple(sample[0]) if sample else ()
        return TableFormat(kind, header=header, asked=asked, first=first, sheet=sheet, longest=options.longest)
    head, whole = beginning(path, options.longest)
    if kind is None:
        raise InputError(
            f"{path} is not a table: expected {', '.join(TABLES)}, or one of these with .gz. Rename the file"
        )
    return find_format(kind, head, str(path), whole=whole, options=options, reads=reads)


def with_training_flags(options: TableOptions, settings: Mapping[str, Any]) -> TableOptions:
    """Flags, completed by those of training: its header and limit always apply, the others where they fit."""
    data = settings.get("data") or ()
    kinds = tuple(file_kind(Path(file)) for file in ([data] if isinstance(data, str | Path) else data))
    told = {name: settings.get(name) for name in ("delimiter", "quotes", "encoding", "sheet")}
    kept = {name: settings.get(name) for name in ("header", "max_line_mb") if getattr(options, name) is None}
    return replace(options, **kept, trained=TrainingFlags(**told, kinds=kinds))


def sheets_of(options: TableOptions) -> tuple[str | None, str | None]:
    """The requested sheet of a workbook, and the one used in training."""
    return options.sheet, options.trained.sheet if options.trained is not None else None


def text_format(path: Path, options: TableOptions = AS_FOUND) -> TextFormat:
    """The format of a text file: from --encoding, or detected from its beginning."""
    head, whole = beginning(path)
    trained = options.trained.encoding if options.trained is not None else None
    return find_text_format(head, str(path), whole=whole, asked=options.encoding, trained=trained)


def locate(path: Path, line: int) -> str:
    """The place of an example in an error: the line of a text file, or the row of another table."""
    return f"{path}, {unit_of(path)} {line}"


def unit_of(path: Path) -> str:
    """What an error counts: lines, or rows if the file has no lines."""
    return "row" if file_kind(path) in PACKED else "line"


def beginning(path: Path, longest: int = 0) -> tuple[bytes, bool]:
    """The first bytes of a file, and whether that is all. For a pipe, the bytes that have already arrived.

    If its first lines are longer, they are read completely, up to `longest` bytes.
    """
    with opened(path) as stream:
        if path != STDIN:
            head = stream.read(BLOCK)
            while len(head) < longest and max(head.count(b"\n"), head.count(b"\r")) < FEW_LINES:
                if not (more := stream.read(BLOCK)):
                    break
                head += more
            after = stream.read(1)
        elif stream.seekable():
            place = stream.tell()
            head, after = stream.read(BLOCK), stream.read(1)
            stream.seek(place)
        else:
            head, after = getattr(stream, "peek", lambda size: b"")(BLOCK), b"?"
    check_ending(path)
    check_beginning(path, head)
    return head, not after


def checked_names(path: Path, form: TableFormat, reads: ExpectedColumns) -> list[str]:
    """The column names. Duplicates are an error, unless they are not used."""
    names = form.names
    seen = Counter[str]()
    for place, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            if name and (not reads.columns or name in reads.columns):
                raise InputError(f"{locate(path, 1)}: two columns are called {name!r}. Rename one of them")
            names[place] = f"{name or 'column'} ({place + 1})"
    return names


def stream_objects(path: Path, form: TableFormat) -> Iterator[Row]:
    assert form.text is not None
    if form.is_list:
        for number, cells, text in objects_in_list(stream_text(path, form=form.text), str(path), form.longest):
            yield checked_object(path, number, cells, text)
        return
    for number, line in stream_lines(path, form.text, form.longest):
        if not line.strip():
            continue
        try:
            cells = json.loads(line)
        except RecursionError:
            raise InputError(f"{path}, line {number}: brackets are nested too deeply to be read") from None
        except ValueError as error:
            raise InputError(
                f"{path}, line {number} is not JSON ({error}): {line[:60].strip()!r}. Expected one object per line, as "
                'in {"text": "...", "label": "..."}, or one list of objects'
            ) from None
        if not isinstance(cells, dict):
            raise InputError(
                f"{path}, line {number}: {line[:60].strip()!r} is not a JSON object. Expected one per line"
            )
        yield checked_object(path, number, cells, line)


def checked_object(path: Path, number: int, cells: dict[str, Any], text: str) -> Row:
    if "\\ud" in text.lower():
        check_surrogates(path, number, cells)
    return Row(number, cells)


def stream_cells(
    path: Path, form: TableFormat, names: Sequence[str], options: TableOptions, skipped: BlankRows
) -> Iterator[Row]:
    """The rows below the header. Cells after the last column must be empty, as after a trailing delimiter."""
    rows = rows_with_lines(path, form, options, skipped)
    if form.has_header:
        next(rows, None)
    for number, cells in rows:
        if form.kind == "xlsx":
            cells += [""] * (len(names) - len(cells))
        if len(cells) != len(names) and (len(cells) < len(names) or any(cells[len(names) :])):
            raise InputError(
                f"{locate(path, number)}: {len(cells)} cells, expected {len(names)} ({listed_columns(names)}): "
                f"{' | '.join(cells)[:60]!r}"
            )
        yield Row(number, dict(zip(names, cells, strict=False)))


def rows_with_lines(
    path: Path, form: TableFormat, options: TableOptions, skipped: BlankRows
) -> Iterator[tuple[int, list[str]]]:
    """Every row, including the header, with the line on which it begins. Blank rows are skipped and, except at the
    beginning and end, counted; in a table with a single column they are empty cells."""
    if not form.first:
        raise InputError(f"{path} is empty: expected a table with at least one row")
    began, blank = False, 0
    every = excel_rows(path, *sheets_of(options), form.longest) if form.kind == "xlsx" else delimited_rows(path, form)
    for number, cells in every:
        if not (cells and cells[0].strip()) and not any(map(str.strip, cells)):
            blank += began
            continue
        if blank and len(form.first) == 1:
            yield from ((line, [""]) for line in range(number - blank, number))
        elif blank:
            skipped.count += blank
        began, blank = True, 0
        yield number, ["" if cell == NULL else cell for cell in cells] if NULL in cells else cells


def delimited_rows(path: Path, form: TableFormat) -> Iterator[tuple[int, list[str]]]:
    assert form.delimiter is not None
    lines, sign = stream_lines(path, form.text, form.longest), DELIMITER_SIGNS[form.delimiter]
    skipped = 1 if form.tells_excel else 0
    for _ in range(skipped):
        next(lines)
    if form.quotes != "several lines":
        for number, line in lines:
            cells = line.removesuffix("\n").removesuffix("\r").split(sign)
            if form.quotes != "text" and '"' in line:
                check_quotes(path, number, cells, form)
                cells = list(map(without_quotes, cells)) if form.quotes == "one line" else cells
            yield number, cells
        return
    reader = csv.reader((line for _, line in lines), delimiter=sign, skipinitialspace=form.skips_spaces, strict=True)
    while True:
        number = reader.line_num + skipped + 1
        csv.field_size_limit(form.longest)  # global to the process: another table may have changed it
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in str(error):
                raise too_long(f"{path}, line {number}", "cell", form.longest, form.longest, more=True) from None
            raise InputError(
                f"{path}, line {number} is not CSV ({error}): expected cells between {form.delimiter}s, and a cell "
                f'with a {form.delimiter}, a quote or a line break written as "...", with "" for a quote'
            ) from None
        yield number, cells


def check_quotes(path: Path, line: int, cells: Sequence[str], form: TableFormat) -> None:
    """Refuses a line whose quotes contradict what was detected from the beginning of the file."""
    odd = next((cell for cell in cells if '"' in cell and contradicts(cell, form.quotes)), None)
    if odd is not None:
        before = "where quotes enclose cells" if form.quotes == "one line" else "which has none"
        raise InputError(
            f"{path}, line {line}: the quotes in {odd[:60]!r} do not fit the beginning of the file, {before}. Use "
            "--no-quotes if quotes are part of the text, or --quotes if they enclose cells"
        )


def stream_lines(
    path: Path, form: TextFormat | None = None, longest: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, str]]:
    """Every line with its number from 1 and its line end. A line of more than `longest` bytes is an error."""
    form = form or text_format(path)
    is_plain = form.encoding.is_plain and not form.returns
    number = 0
    read = plain_lines if is_plain else other_lines
    with opened(path) as stream, closing(read(stream, form, str(path), longest)) as lines:
        try:
            for line in lines:
                number += 1
                yield number, line if number > 1 else line.removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise wrong_byte(str(path), number + 1, error, form.encoding) from None


def plain_lines(stream: IO[bytes], form: TextFormat, name: str, longest: int) -> Generator[str, None, None]:
    codec, lines = form.encoding.codec, bounded_lines(stream, name, longest)
    if not form.encoding.word:
        return (line.decode(codec) for line in lines)

    def checked() -> Generator[str, None, None]:
        for number, line in enumerate(lines, start=1):
            if is_mixed(line, form.encoding):
                raise two_encodings(name, number, form.encoding)
            yield line.decode(codec)

    return checked()


def other_lines(stream: IO[bytes], form: TextFormat, name: str, longest: int) -> Generator[str, None, None]:
    """Lines of a file whose encoding has multi-byte newlines, or that uses another newline character."""
    text = io.TextIOWrapper(stream, encoding=form.encoding.codec, newline="\r" if form.returns else "\n")
    try:
        for number, line in enumerate(iter(partial(text.readline, longest + 1), ""), start=1):
            if len(line) > longest:
                raise too_long(f"{name}, line {number}", "line", len(line), longest, more=True)
            if form.returns and "\n" in line:
                raise InputError(
                    f"{name}, line {number} has a line feed, but the lines before end in carriage returns only. Save "
                    "the file with one kind of line ends"
                )
            yield f"{line[:-1]}\n" if form.returns and line.endswith("\r") else line
    finally:
        text.detach()  # the caller closes the stream


def stream_text(path: Path, size: int = BLOCK, *, form: TextFormat | None = None) -> Iterator[str]:
    """A long text in blocks of about `size` bytes, split between any two characters."""
    form = form or text_format(path)
    decoder, line, first = codecs.getincrementaldecoder(form.encoding.codec)(), 1, True
    with opened(path) as stream:
        while True:
            content = stream.read(size)
            check_mixed(path, content, line, form)
            try:
                text = decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                place = line + error.object.count(b"\n", 0, error.start)
                raise wrong_byte(str(path), place, error, form.encoding) from None
            if text:
                text, first = text.removeprefix("\ufeff") if first else text, False
                yield text.replace("\r", "\n") if form.returns else text
            if not content:
                return
            line += content.count(b"\n")


def check_mixed(path: Path, content: bytes, first: int, form: TextFormat) -> None:
    """Refuses lines in a second encoding if the first was a guess; `first` is the number of the first line."""
    if form.encoding.word and not content.isascii():
        for number, line in enumerate(content.split(b"\n"), start=first):
            if is_mixed(line, form.encoding):
                raise two_encodings(str(path), number, form.encoding)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed if its name ends in .gz, or of standard input."""
    if "\0" in str(path):
        raise InputError(f"{path}: a file name cannot contain a zero byte")
    try:
        if path == STDIN:
            yield sys.stdin.buffer
        elif path.name.endswith(".gz"):
            with io.BufferedReader(Unpacked(kept_pipe(path) if path.is_fifo() else path, path), BLOCK) as stream:
                yield stream
        else:
            with (kept_pipe(path) if path.is_fifo() else path).open("rb") as stream:
                kind = os.fstat(stream.fileno()).st_mode
                if (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)) and not stream.isatty():
                    raise InputError(f"{path} is a device, expected a file")
                yield stream
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, expected a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be unpacked ({error}). Is it a complete gzip file?") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


class Unpacked(io.RawIOBase):
    """The decompressed blocks of a .gz file. A file that expands to thousands of times its size is refused."""

    def __init__(self, file: Path, name: Path) -> None:
        self.packed = file.open("rb")
        self.stream = gzip.GzipFile(fileobj=self.packed)
        self.name, self.size, self.count = name, file.stat().st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.stream.readinto(buffer)
        self.count += count
        check_unpacked(self.name, self.size, self.count)
        check_so_far(self.name, self.packed.tell(), self.count)
        return count

    def close(self) -> None:
        self.stream.close()
        self.packed.close()
        super().close()


def kept_pipe(pipe: Path) -> Path:
    """The content of a pipe in a temporary file for the rest of the program: a pipe can be read only once."""
    if state_of(pipe) not in PIPES:
        file = NamedTemporaryFile(prefix="glassformer-pipe-")  # noqa: SIM115 - stays open until the program ends
        try:
            copy_pipe(pipe, file)
            file.flush()
        except BaseException:
            file.close()
            raise
        PIPES[state_of(pipe)] = file
    return Path(PIPES[state_of(pipe)].name)


def copy_pipe(pipe: Path, file: IO[bytes]) -> None:
    """Copies a pipe to a file. If no writer opens it within some seconds, that is an error."""
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as stream:
        events, until = select.poll(), time.monotonic() + PIPE_TIMEOUT
        events.register(stream, select.POLLIN)
        # Nothing to read, and no writer has opened it yet.
        while (begun := stream.read(BLOCK)) == b"" and not events.poll(50):
            if time.monotonic() > until:
                raise InputError(
                    f"{pipe} is a pipe that nothing has opened for writing for {PIPE_TIMEOUT} seconds. Start "
                    "its writer "
                    "first, or give a file"
                )
        os.set_blocking(stream.fileno(), True)
        file.write(begun or b"")
        shutil.copyfileobj(stream, file)


def state_of(pipe: Path) -> tuple[int, int, int]:
    """The identity of a pipe, and when it was last written to."""
    state = pipe.stat()
    return state.st_dev, state.st_ino, state.st_mtime_ns


def find_column(
    path: Path,
    name: str,
    names: Sequence[str],
    form: TableFormat | None = None,
    flag: str = "",
    line: int | None = None,
) -> str:
    """A column by its name, or by its number if no column has that name. `flag` is the flag that selects another
    one."""
    if name in names:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return names[int(name) - 1]
    raise absent_column(str(path) if line is None else locate(path, line), name, names, form, flag)


def listed_columns(names: Iterable[str]) -> str:
    """Column names for an error: on one line, and only the first if there are many."""
    first = [" ".join(name.split())[:40] for name in islice(names, LISTED + 1)]
    return ", ".join(first if len(first) <= LISTED else [*first[:LISTED], "..."])


def absent_column(
    place: str, name: str, names: Iterable[str], form: TableFormat | None = None, flag: str = ""
) -> InputError:
    names = list(names)
    near = did_you_mean(name, names)
    guess = near if near.startswith(":") else ""
    what = f"{place} has the columns {listed_columns(names)}, but none called {name!r}{guess}"
    return InputError(f"{what}{column_hint(form, f'Choose with {flag}' if flag else '')}")


def column_hint(form: TableFormat | None, hint: str) -> str:
    """How to select another column, and how to correct a wrongly detected header."""
    hints = [hint] if hint else []
    if form is not None and form.header is not None and not form.asked and not form.header.certain:
        is_there = form.has_header
        hints.append(
            "Use --no-header if the first row is an example"
            if is_there
            else "Use --header if it holds the column names"
        )
    return "".join(f". {said}" for said in hints)


def cell_of(path: Path, row: Row, name: str) -> Any:
    try:
        return row.cells[name]
    except KeyError:
        raise InputError(
            f"{locate(path, row.line)} has no {name!r}, only {listed_columns(row.cells)}. Every {unit_of(path)} "
            "needs one"
        ) from None


def cell_text(path: Path, line: int, name: str, cell: Any) -> str:
    """A cell that must be a text; a missing value is an empty text."""
    if cell is None:
        return ""
    check_text(path, line, name, cell)
    return str(cell)


def check_text(path: Path, line: int, name: str, cell: Any) -> None:
    if not isinstance(cell, str):
        expected = "a text" if file_kind(path) in PACKED else "a text in quotes"
        raise InputError(f"{locate(path, line)}: {name} is {cell!r:.60}, expected {expected}")


def check_surrogates(path: Path, line: int, cells: Any) -> None:
    """Refuses lone surrogates, which JSON can spell but no text may contain."""
    try:
        json.dumps(cells, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(
            f"{path}, line {line}: {half} is half a surrogate pair. Write both halves, or neither"
        ) from None
