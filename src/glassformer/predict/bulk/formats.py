"""The formats of an output: .csv, .tsv, .jsonl, each also gzipped (.gz), and .parquet.

Each chunk of rows becomes bytes that are appended to the file: lines, or a gzip member, which every gzip reader joins
to the others. A Parquet file cannot be appended to: its chunks are kept as consecutive Arrow streams, which become the
file at the end.
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
from glassformer.data.formats.delimiter import DELIMITER_SIGNS
from glassformer.data.formats.encoding import UTF8
from glassformer.data.formats.table import TableFormat
from glassformer.errors import InputError

ColumnKind = Literal["text", "number", "texts", "numbers", "vector", "json"]  # of an answer's column
RowCells = dict[str, Any]
OUTPUT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")
GROUP_ROWS, GROUP_BYTES = 1 << 16, 1 << 26  # maximum size of a Parquet row group
BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def make_format(
    out: Path,
    source: Path,
    form: TableFormat | None,
    columns: Mapping[str, set[type]],
    answers: Mapping[str, ColumnKind],
) -> "Format":
    """The format for the file name of the output, with these columns of the input followed by the answers. A .csv has
    the delimiter of the input if that is a .csv, too, as `form` says."""
    names = [*columns, *answers]
    ending = suffix_of(out)
    if ending == ".parquet":
        return Parquet(names, schema_of(source, columns, answers))
    plain, mark = ending.removesuffix(".gz"), needs_bom(source, form)
    written: Format = Jsonl(names)
    if plain == ".csv":
        delimiter = form.delimiter if form is not None and form.kind == "csv" else None
        written = Csv(names, mark=mark, delimiter=DELIMITER_SIGNS[delimiter or "comma"])
    elif plain == ".tsv":
        written = Tsv(names, mark=mark)
    return Gzipped(written) if ending.endswith(".gz") else written


def suffix_of(out: Path) -> str:
    """The suffix of an output. Refuses a name without a known suffix."""
    ending = next((ending for ending in OUTPUT_SUFFIXES if out.name.lower().endswith(ending)), None)
    if ending is None:
        raise InputError(f"--out {out}: expected a name that ends in one of {', '.join(OUTPUT_SUFFIXES)}")
    if ending == ".parquet":
        need_pyarrow(out)
    return ending


def need_pyarrow(file: Path) -> None:
    if find_spec("pyarrow") is None:
        raise InputError(f"{file}: Parquet needs pyarrow: pip install 'glassformer[parquet]'")


def needs_bom(source: Path, form: TableFormat | None) -> bool:
    """Whether to start with a byte order mark, so that Excel detects UTF-8: if the input has one or is not UTF-8."""
    if form is not None and form.text is not None and form.text.encoding.codec != UTF8.codec:
        return True
    if not source.is_file():
        return False
    with opened(source) as stream:
        return stream.read(3).startswith(BYTE_ORDER_MARKS)


class Format(ABC):
    """The format of one output."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)  # the columns in order
        self.spaced = 0  # cells whose tabs and line breaks became spaces

    def head(self) -> bytes:
        """The bytes before the first row."""
        return b""

    @abstractmethod
    def chunk(self, rows: Sequence[RowCells]) -> bytes:
        """The bytes of these rows, to append to the rows before."""

    def finish(self, partial: Path, place: Path) -> None:
        """Turns the chunks into the output file, in one atomic step."""
        partial.replace(place)


class Csv(Format):
    """Cells separated by commas or another delimiter, quoted where necessary (RFC 4180)."""

    def __init__(self, names: Sequence[str], *, mark: bool, delimiter: str = ",") -> None:
        super().__init__(names)
        self.mark, self.delimiter = mark, delimiter

    def head(self) -> bytes:
        return (b"\xef\xbb\xbf" if self.mark else b"") + self.lines([self.names])

    def chunk(self, rows: Sequence[RowCells]) -> bytes:
        return self.lines([[as_text(row.get(name)) for name in self.names] for row in rows])

    def lines(self, rows: Sequence[Sequence[str]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(rows)
        return text.getvalue().encode("utf-8")


class Tsv(Csv):
    """Cells separated by tabs, without quotes. Tabs and line breaks in a cell become spaces; such cells are counted."""

    def lines(self, rows: Sequence[Sequence[str]]) -> bytes:
        return "".join("\t".join(map(self.in_a_line, row)) + "\n" for row in rows).encode("utf-8")

    def in_a_line(self, cell: str) -> str:
        if not any(mark in cell for mark in "\t\n\r"):
            return cell
        self.spaced += 1
        return cell.replace("\r\n", " ").replace("\t", " ").replace("\n", " ").replace("\r", " ")


class Jsonl(Format):
    """One JSON object per line."""

    def chunk(self, rows: Sequence[RowCells]) -> bytes:
        lines = [json.dumps(row, ensure_ascii=False, default=as_text) + "\n" for row in rows]
        return "".join(lines).encode("utf-8")


class Gzipped(Format):
    """Another format, gzipped."""

    def __init__(self, inner: Format) -> None:
        super().__init__(inner.names)
        self.inner = inner

    def head(self) -> bytes:
        return gzip_bytes(self.inner.head())

    def chunk(self, rows: Sequence[RowCells]) -> bytes:
        data = gzip_bytes(self.inner.chunk(rows))
        self.spaced = self.inner.spaced
        return data


def gzip_bytes(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0) if data else b""  # no time stamp: the same rows give the same bytes


class Parquet(Format):
    """Typed columns. Those of a typed input keep their types."""

    def __init__(self, names: Sequence[str], schema: Any) -> None:
        super().__init__(names)
        self.schema = schema

    def chunk(self, rows: Sequence[RowCells]) -> bytes:
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
                f"a cell of column {name!r} does not fit into a Parquet column of type {kind} ({error}). Use .jsonl or "
                ".csv, or leave the column out with --id-column"
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


def schema_of(source: Path, columns: Mapping[str, set[type]], answers: Mapping[str, ColumnKind]) -> Any:
    """The schema of a Parquet file: column types come from the input's schema, or else from its cells."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    own: Any = pq.read_schema(source) if source.name.lower().endswith(".parquet") else None
    kinds: dict[ColumnKind, Any] = {
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
    """The Arrow type for these types of cells; string if they differ."""
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
    """A cell as text: other values as JSON, None as an empty cell."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if type(value) is float and math.isfinite(value):
        return repr(value)  # the same as in JSON
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
