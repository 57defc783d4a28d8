"""How rows are written: .csv, .tsv, .jsonl, each also packed (.gz), and .parquet.

A chunk of rows becomes bytes that are appended to what is there: lines; if packed, a member of its own, which every
reader of gzip joins to the others. A Parquet file cannot grow: its chunks are kept as Arrow streams, one behind the
other, and become the file at the end.
"""

import codecs
import csv
import datetime
import gzip
import io
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from glassformer.data.files import opened
from glassformer.data.formats.delimiter import SIGNS
from glassformer.data.formats.encoding import UTF8
from glassformer.data.formats.table import TableFormat
from glassformer.errors import InputError

Kind = Literal["text", "number", "texts", "numbers", "vector", "json"]  # of an answer's column
Cells = dict[str, Any]
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")
GROUP_ROWS, GROUP_BYTES = 1 << 16, 1 << 26  # of a row group of a Parquet file, at the most
MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def make_format(
    out: Path,
    source: Path,
    form: TableFormat | None,
    columns: Mapping[str, set[type]],
    answers: Mapping[str, Kind],
) -> "Format":
    """The format that the name of the output asks for: these columns of the input, and behind them the answers. A .csv
    has the delimiter of the input, if that is one, too; its `form` says so."""
    names = [*columns, *answers]
    ending = ending_of(out)
    if ending == ".parquet":
        return Parquet(names, schema_of(source, columns, answers))
    plain, mark = ending.removesuffix(".gz"), needs_mark(source, form)
    written: Format = Jsonl(names)
    if plain == ".csv":
        delimiter = form.delimiter if form is not None and form.kind == "csv" else None
        written = Csv(names, mark=mark, delimiter=SIGNS[delimiter or "comma"])
    elif plain == ".tsv":
        written = Tsv(names, mark=mark)
    return Packed(written) if ending.endswith(".gz") else written


def ending_of(out: Path) -> str:
    """How the name of an output ends; one that says nothing of the format is refused."""
    ending = next((ending for ending in ENDINGS if out.name.lower().endswith(ending)), None)
    if ending is None:
        raise InputError(f"--out {out}: expected a name that ends in {', '.join(ENDINGS[:4])}, or in .gz behind them")
    if ending == ".parquet":
        need_pyarrow(out)
    return ending


def need_pyarrow(file: Path) -> None:
    if find_spec("pyarrow") is None:
        raise InputError(f"{file}: Parquet needs pyarrow: pip install 'glassformer[parquet]'")


def needs_mark(source: Path, form: TableFormat | None) -> bool:
    """Whether to begin with a byte order mark, by which Excel knows UTF-8: where the input has one, or is not UTF-8."""
    if form is not None and form.text is not None and form.text.encoding.codec != UTF8.codec:
        return True
    if not source.is_file():
        return False
    with opened(source) as stream:
        return stream.read(3).startswith(MARKS)


class Format(ABC):
    """How the rows of one output are written."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)  # the columns in their order
        self.spaced = 0  # cells whose tabs and line breaks became spaces

    def head(self) -> bytes:
        """What stands before the first row."""
        return b""

    @abstractmethod
    def chunk(self, rows: Sequence[Cells]) -> bytes:
        """These rows, to be written behind those before."""

    def finish(self, partial: Path, place: Path) -> None:
        """Makes the file of all chunks, whole or not at all."""
        partial.replace(place)


class Csv(Format):
    """Cells between commas, or another delimiter, quoted where they must be (RFC 4180)."""

    def __init__(self, names: Sequence[str], *, mark: bool, delimiter: str = ",") -> None:
        super().__init__(names)
        self.mark, self.delimiter = mark, delimiter

    def head(self) -> bytes:
        return (b"\xef\xbb\xbf" if self.mark else b"") + self.lines([self.names])

    def chunk(self, rows: Sequence[Cells]) -> bytes:
        return self.lines([[as_text(row.get(name)) for name in self.names] for row in rows])

    def lines(self, rows: Sequence[Sequence[str]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(rows)
        return text.getvalue().encode("utf-8")


class Tsv(Csv):
    """Cells between tabs, without quotes: a tab or a line break in a cell becomes a space, and is counted."""

    def lines(self, rows: Sequence[Sequence[str]]) -> bytes:
        return "".join("\t".join(map(self.in_a_line, row)) + "\n" for row in rows).encode("utf-8")

    def in_a_line(self, cell: str) -> str:
        if not any(mark in cell for mark in "\t\n\r"):
            return cell
        self.spaced += 1
        return cell.replace("\r\n", " ").replace("\t", " ").replace("\n", " ").replace("\r", " ")


class Jsonl(Format):
    """An object in each line."""

    def chunk(self, rows: Sequence[Cells]) -> bytes:
        lines = [json.dumps(row, ensure_ascii=False, default=as_text) + "\n" for row in rows]
        return "".join(lines).encode("utf-8")


class Packed(Format):
    """Another format, gzipped."""

    def __init__(self, inner: Format) -> None:
        super().__init__(inner.names)
        self.inner = inner

    def head(self) -> bytes:
        return pack(self.inner.head())

    def chunk(self, rows: Sequence[Cells]) -> bytes:
        data = pack(self.inner.chunk(rows))
        self.spaced = self.inner.spaced
        return data


def pack(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0) if data else b""  # without a time: the same rows, the same bytes


class Parquet(Format):
    """Typed columns: those of the input as they are, where it has types."""

    def __init__(self, names: Sequence[str], schema: Any) -> None:
        super().__init__(names)
        self.schema = schema

    def chunk(self, rows: Sequence[Cells]) -> bytes:
        import pyarrow as pa

        columns = [self.column(name, [row.get(name) for row in rows]) for name in self.names]
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, self.schema) as writer:
            writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))
        return stream.getvalue().to_pybytes()

    def column(self, name: str, cells: list[Any]) -> Any:
        import pyarrow as pa

        kind = self.schema.field(name).type
        if pa.types.is_string(kind):
            cells = [cell if cell is None else as_text(cell) for cell in cells]
        try:
            return pa.array(cells, kind)
        except (pa.ArrowException, OverflowError) as error:
            raise InputError(
                f"a cell of the column {name!r} does not fit into a Parquet column of {kind} ({error}): write .jsonl "
                "or .csv, or leave the column out with --id-column"
            ) from None

    def finish(self, partial: Path, place: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        joined = place.with_name(f".{place.name}.joined")
        end, waiting = partial.stat().st_size, list[Any]()

        def write() -> None:
            if waiting:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()

        with pa.OSFile(str(partial)) as stream, pq.ParquetWriter(joined, self.schema) as writer:
            while stream.tell() < end:
                with pa.ipc.open_stream(stream) as reader:
                    waiting.append(reader.read_all())
                rows, size = sum(len(x) for x in waiting), sum(x.nbytes for x in waiting)
                if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                    write()
            write()
        with joined.open("rb+") as file:
            os.fsync(file.fileno())
        joined.replace(place)
        partial.unlink()


def schema_of(source: Path, columns: Mapping[str, set[type]], answers: Mapping[str, Kind]) -> Any:
    """The types of a Parquet file: those of the input's schema, or of what its cells are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    own: Any = pq.read_schema(source) if source.name.lower().endswith(".parquet") else None
    kinds: dict[Kind, Any] = {
        "text": pa.string(),
        "number": pa.float64(),
        "texts": pa.list_(pa.string()),
        "numbers": pa.list_(pa.float64()),
        "vector": pa.list_(pa.float32()),
        "json": pa.string(),
    }
    fields = [
        own.field(name) if own is not None else pa.field(name, arrow_type(types)) for name, types in columns.items()
    ]
    fields += [pa.field(name, kinds[kind]) for name, kind in answers.items()]
    whole = own is not None and len(columns) == len(own.names)
    return pa.schema(fields, metadata=own.metadata if whole else None)


def arrow_type(types: set[type]) -> Any:
    """The type of a column by those of its cells; a text where they differ."""
    import pyarrow as pa

    types = types - {type(None)}
    for among, found in (
        ({bool}, pa.bool_()),
        ({int}, pa.int64()),
        ({int, float}, pa.float64()),
        ({datetime.date}, pa.date32()),
        ({datetime.datetime}, pa.timestamp("us")),
    ):
        if types and types <= among:
            return found
    return pa.string()


def as_text(value: Any) -> str:
    """A cell as a table of texts has it: what is no text as JSON, and nothing for None."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if type(value) is float and math.isfinite(value):
        return repr(value)  # as JSON has it, too
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
