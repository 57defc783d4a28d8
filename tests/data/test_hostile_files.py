"""Data made to break its reader: decompression bombs, endless lines, files of another kind. Each is refused with an
error, in little time and memory."""

import gzip
import io
import json
import os
import struct
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from helpers.command import bounded, refused, run
from PIL import Image

from glassformer.data import files
from glassformer.data.corpus import open_corpus
from glassformer.data.documents import stream_documents
from glassformer.data.files import read_lines, read_table, stream_lines, stream_rows
from glassformer.data.formats.table import TableOptions
from glassformer.data.images import IDX_PIXELS, read_idx, read_images
from glassformer.data.labeled_series import read_labeled_series
from glassformer.data.pairs import read_pairs
from glassformer.data.pixels import inspect_image
from glassformer.data.series import read_series
from glassformer.data.texts import read_labeled
from glassformer.errors import InputError
from glassformer.io import write_json

MB = 10**6
Reader = Callable[[Path], object]
SMALL = TableOptions(max_line_mb=1)


def written(folder: Path, name: str, content: bytes | str) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


# Long lines and cells

LONG: dict[str, tuple[str, bytes]] = {
    "a line of a .csv": ("a.csv", b"text,label\nshort,a\n" + b"x" * 3 * MB + b",b\n"),
    "the last line": ("a.csv", b"text,label\n" + b"x" * 3 * MB),
    "a line of a .tsv": ("a.tsv", b"text\tlabel\nshort\ta\n" + b"x" * 3 * MB + b"\tb\n"),
    "a line of a .jsonl": ("a.jsonl", b'{"text": "a", "label": "b"}\n{"text": "' + b"x" * 3 * MB + b'"}\n'),
    "an object of a list": ("a.json", b'[{"text": "a", "label": "b"}, {"text": "' + b"x" * 3 * MB + b'"}]'),
    "a quote that is not closed": ("a.csv", b'text,label\na,b\n"' + b"one line, and another\n" * 2 * 10**5),
    "UTF-16": ("a.csv", "text,label\nshort,a\n".encode("utf-16") + ("x" * 3 * MB).encode("utf-16-le")),
    "old Mac line ends": ("a.csv", b"text,label\rshort,a\r" + b"x" * 3 * MB + b",b\r"),
    "packed": ("a.csv.gz", gzip.compress(b"text,label\nshort,a\n" + os.urandom(3 * MB).hex().encode() + b",b\n")),
}


@pytest.mark.parametrize(("name", "content"), LONG.values(), ids=LONG)
def test_a_line_or_cell_past_the_limit(name: str, content: bytes, tmp_path: Path) -> None:
    """The error has file, line, size, limit and the flag that raises it."""
    file = written(tmp_path, name, content)
    said = refused(lambda: read_labeled(file, options=SMALL))
    assert f"{file}, line " in said
    assert " MB, expected at most 1 MB. " in said
    assert "raise the limit with --max-line-mb " in said


def test_the_flag_raises_the_limit_and_the_sentence_says_to_what(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", b"text,label\nshort,a\n" + b"x" * 20 * MB + b",b\n")
    said = refused(lambda: read_labeled(file))
    assert f"{file}, line 3: a line of 20 MB, expected at most 16 MB. Are its line breaks missing?" in said
    flag = int(said.rpartition(" ")[2])
    assert len(read_labeled(file, options=TableOptions(max_line_mb=flag))[1].texts[0]) == 20 * MB


@pytest.mark.parametrize("limit", [0, -1, 10**9, 1.5, "x", True])
def test_a_limit_that_is_none(limit: Any) -> None:
    assert "--max-line-mb is " in refused(lambda: TableOptions(max_line_mb=limit))


@pytest.mark.parametrize("read", [read_lines, lambda file: list(stream_lines(file)), read_pairs, read_labeled_series])
def test_every_reader_is_bounded(read: Reader, tmp_path: Path) -> None:
    file = written(tmp_path, "a.tsv", b"1\t2\n" * 2 + b"9" * 17 * MB + b"\n")
    assert "a line of 17 MB, expected at most 16 MB" in refused(lambda: read(file))


def test_a_table_of_a_million_columns_is_read(tmp_path: Path) -> None:
    """Its first line is longer than the part from which the format is usually detected."""
    names = ",".join(f"column{i}" for i in range(200_000))
    file = written(tmp_path, "a.csv", f"{names}\n{','.join('1' for _ in range(200_000))}\n")
    assert len(file.read_bytes()) > 2 * files.BLOCK
    assert len(read_table(file).names) == 200_000
    said = refused(lambda: read_labeled(file))
    assert "has the columns column0, column1, " in said


# Archives


def bomb(content: bytes, times: int) -> bytes:
    """A gzip file of `times` repetitions, made without holding them in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(content) for _ in range(times)) + packer.flush()


BOMBS = {
    "one line": ("a.csv.gz", b"x" * MB, 100),
    "empty lines": ("a.csv.gz", b"\n" * MB, 100),
    "rows": ("a.csv.gz", b"text,label\n" * 10**5, 10),
    "zeros": ("a.txt.gz", b"\0" * MB, 100),
    "JSON": ("a.jsonl.gz", b'{"text": "a", "label": "b"}\n' * 40_000, 10),
    "a list": ("a.json.gz", b"[" * MB, 100),
    "tabs": ("a.tsv.gz", b"a\tb\n" * 250_000, 10),
}


@pytest.mark.parametrize(("name", "content", "times"), BOMBS.values(), ids=BOMBS)
def test_a_gzip_bomb(name: str, content: bytes, times: int, tmp_path: Path) -> None:
    file = written(tmp_path, name, bomb(content, times))
    assert str(file) in refused(lambda: read_labeled(file))


def test_a_gzip_bomb_of_text(tmp_path: Path) -> None:
    file = written(tmp_path, "a.txt.gz", bomb(b"word " * 200_000, 100))
    said = refused(lambda: [len(piece.text) for piece in stream_documents(file)])
    assert "which real data does not do. If it is real, unpack it first" in said
    assert "over 100 times as much" in refused(lambda: read_lines(file, TableOptions(max_line_mb=1000)))


def test_what_is_well_packed_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv.gz", gzip.compress(b"text,label\n" + b"the same text,a\n" * 10**5))
    assert len(read_labeled(file)) == 10**5


@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8b", b"\x1f\x8b\x08" + b"\0" * 50, gzip.compress(b"a,b\n1,2\n")[:-9]],
    ids=["empty", "magic", "zeros", "cut"],  # explicit, because gzip writes the time into the content
)
def test_a_gzip_file_that_is_none(content: bytes, tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv.gz", content)
    refused(lambda: read_labeled(file))


def workbook(path: Path, sheet: str, shared: str = "", repeat: int = 1) -> Path:
    """The smallest workbook that openpyxl accepts, with this XML as its sheet."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="xml" ContentType='
        f'"application/xml"/><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.'
        f'relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{office}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{office}.worksheet+xml"/>'
        f'<Override PartName="/xl/sharedStrings.xml" ContentType="{office}.sharedStrings+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" Type="{relations}/'
        'officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets><sheet name="S" sheetId="1" '
        'r:id="b"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="b" Type='
        f'"{relations}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/sharedStrings.xml": shared or f'<sst xmlns="{main}"></sst>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        with archive.open("xl/worksheets/sheet1.xml", "w") as stream:
            stream.write(f'<worksheet xmlns="{main}"><sheetData>'.encode())
            for _ in range(repeat):
                stream.write(sheet.encode())
            stream.write(b"</sheetData></worksheet>")
    return path


def cell(text: str, place: str = "A1") -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


HEADER = f'<row r="1">{cell("text")}{cell("label", "B1")}</row>'
LAUGHS = '<!DOCTYPE a [<!ENTITY a "' + "x" * 1000 + '">' + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 100}">' for i in range(5)
) + "]>"  # fmt: skip
SHEETS: dict[str, dict[str, Any]] = {
    "a row of number 10^12": {"sheet": HEADER + f'<row r="1000000000000">{cell("a", "A1000000000000")}</row>'},
    "a row below the first": {"sheet": HEADER + '<row r="-5"></row>'},
    "a row of number x": {"sheet": HEADER + '<row r="x"></row>'},
    "a column of many letters": {"sheet": HEADER + f'<row r="2">{cell("a", "ZZZZZZZ2")}</row>'},
    "a cell of megabytes": {"sheet": HEADER + f'<row r="2">{cell(os.urandom(9 * MB).hex(), "A2")}</row>'},
    "a hundred megabytes of rows": {"sheet": "<row></row>" * 10**5, "repeat": 100},
    "entities of entities": {"sheet": HEADER, "shared": f"{LAUGHS}<sst><si><t>&f;</t></si></sst>"},
    "a text that is not there": {"sheet": HEADER + '<row r="2"><c r="A2" t="s"><v>1000000</v></c></row>'},
    "no XML": {"sheet": "<row><row><"},
}


@pytest.mark.parametrize("made", SHEETS.values(), ids=SHEETS)
def test_a_workbook_that_is_a_bomb(made: dict[str, Any], tmp_path: Path) -> None:
    file = workbook(tmp_path / "a.xlsx", **made)
    assert str(file) in refused(lambda: read_labeled(file))


def test_a_workbook_that_claims_a_terabyte(tmp_path: Path) -> None:
    file = workbook(tmp_path / "a.xlsx", HEADER)
    content = bytearray(file.read_bytes())
    place = content.rfind(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<I", 2**32 - 2)
    file.write_bytes(content)
    assert "unpacks to more than 4,294 MB" in refused(lambda: read_labeled(file))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18, b"text,label\n1,2\n"])
def test_a_workbook_that_is_none(content: bytes, tmp_path: Path) -> None:
    file = written(tmp_path, "a.xlsx", content)
    refused(lambda: read_labeled(file))


def test_one_long_text_that_many_rows_of_parquet_share(tmp_path: Path) -> None:
    """The file stores the text once; expanded, the rows would take 20 GB."""
    values = pyarrow.array([os.urandom(5 * MB).hex(), "b"])
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 2000, pyarrow.int32()), values)
    table = pyarrow.table({"text": column, "label": ["a"] * 2000})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with bounded():
        rows = stream_rows(tmp_path / "a.parquet")
        assert [len(next(rows).cells["text"]) for _ in range(3)] == [10 * MB] * 3
    assert "a cell of 10 MB, expected at most 1 MB" in refused(lambda: next(stream_rows(tmp_path / "a.parquet", SMALL)))


def test_a_parquet_file_of_ten_million_empty_rows(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.nulls(10**7, pyarrow.string())}), tmp_path / "a.parquet")
    assert "which real data does not do" in refused(lambda: read_table(tmp_path / "a.parquet"))


def test_a_parquet_file_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    column = pyarrow.array(["x" * 10 * MB + str(i) for i in range(8)])
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), tmp_path / "a.parquet", compression="zstd")
    assert "which real data does not do" in refused(lambda: read_table(tmp_path / "a.parquet"))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"])
def test_a_parquet_file_that_is_none(content: bytes, tmp_path: Path) -> None:
    file = written(tmp_path, "a.parquet", content)
    refused(lambda: read_table(file))


# Images


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, data: bytes = b"", more: bytes = b"") -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + more + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def scans(count: int) -> bytes:
    """A progressive JPEG with its last scan repeated many times."""
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(buffer, "JPEG", progressive=True)
    content = buffer.getvalue()
    last = content.rfind(b"\xff\xda")
    return content[:last] + content[last:-2] * count + b"\xff\xd9"


def gif(width: int, height: int) -> bytes:
    screen = struct.pack("<HHBBB", width, height, 0, 0, 0)
    return b"GIF89a" + screen + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x01\x00\x00;"


def tiff(width: int, height: int) -> bytes:
    tags = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 278: height, 279: width * height % 2**32}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(tags.items()))
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + entries + b"\0" * 4


PICTURES: dict[str, bytes] = {
    "a PNG of 10^10 pixels": png(100_000, 100_000),
    "a PNG of 10^8 pixels": png(10_000, 10_000, zlib.compress(b"\0" * 1000)),
    "a PNG of 2^62 pixels": png(2**31 - 1, 2**31 - 1),
    "a PNG of no pixels": png(0, 0),
    "a PNG of one long row": png(10**9, 1),
    "a PNG that unpacks to more": png(4, 4, bomb(b"\0" * MB, 50)),
    "a PNG with a text of 100 MB": png(4, 4, more=chunk(b"zTXt", b"a\0\0" + zlib.compress(b"x" * 100 * MB))),
    "a PNG with a colour profile of 100 MB": png(4, 4, more=chunk(b"iCCP", b"a\0\0" + zlib.compress(b"\0" * 100 * MB))),
    "a JPEG of a thousand scans": scans(1000),
    "a JPEG that claims 65,500 x 65,500": scans(1).replace(b"\x08\0\x40\0\x40", b"\x08\xff\xdc\xff\xdc"),
    "a GIF of 65,535 x 65,535": gif(65_535, 65_535),
    "a TIFF of 10^5 x 10^5": tiff(100_000, 100_000),
    "a TIFF that is not whole": tiff(5000, 5000),
    "a BMP of 10^9 x 10^9": b"BM" + struct.pack("<IHHIIiiHH6I", 0, 0, 0, 54, 40, 10**9, 10**9, 1, 24, *[0] * 6),
    "a PPM of 10^12 pixels": b"P6 1000000 1000000 255\n",
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n",
    "zeros": b"\0" * 1000,
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("content", PICTURES.values(), ids=PICTURES)
def test_a_picture_that_is_a_bomb(content: bytes, tmp_path: Path) -> None:
    file = written(tmp_path, "a.png", content)
    assert str(file) in refused(lambda: inspect_image(file))


def idx(*sizes: int, data: bytes = b"\0" * 16) -> bytes:
    return struct.pack(">I", IDX_PIXELS) + struct.pack(f">{len(sizes)}I", *sizes) + data


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a-idx3-ubyte", idx(2**32 - 1, 2**32 - 1, 2**32 - 1)),
        ("a-idx3-ubyte", idx(10**4, 10**4, 10**4)),
        ("a-idx3-ubyte", idx(1, 2, 2)),
        ("a-idx3-ubyte", b""),
        ("a-idx3-ubyte.gz", gzip.compress(idx(2**32 - 1, 2**32 - 1, 1))),
        ("a-idx3-ubyte.gz", bomb(idx(10**4, 10**4, 10**4) + b"\0" * MB, 100)),
        ("a-idx3-ubyte.gz", b"\x1f\x8b\x08"),
    ],
    ids=range(7),
)
def test_an_idx_file_that_lies(name: str, content: bytes, tmp_path: Path) -> None:
    file = written(tmp_path, name, content)
    assert str(file) in refused(lambda: read_idx(file, IDX_PIXELS))


# Files that are not text

TEXTS: dict[str, bytes] = {
    "zeros": b"\0" * MB,
    "a zero in a header": b"text\0,label\na,b\n" + b"\0" * 100,
    "two encodings": "text,label\n안녕,a\n".encode() + "text,label\n안녕,a\n".encode("cp949") * 3,
    "UTF-16 that ends inside": "text,label\na,b".encode("utf-16")[:-1],
    "half a character": b"text,label\na,b\n\xed\xa0\x80,c\n",
    "noise": b"text,label\n" + bytes(range(128, 256)) * 100,
    "nothing": b"",
    "a mark and nothing": b"\xef\xbb\xbf",
    "blank lines": b"\n" * 10**5,
    "a header": b"text,label\n",
    "quotes": b'"' * 10**5,
    "a quote": b'text,label\n"a,b\n',
    "commas": b"," * 10**6 + b"\n" + b"," * 10**6,
    "two columns of one name": b"text,text,label\na,b,c\n",
    "uneven rows": b"text,label\na,b\n" + b"c," * 10**5 + b"\n",
    "a web page": b"<!DOCTYPE html><html>",
    "a pickle in the place of a table": b"\x80\x04\x95" + b"\0" * 100,
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
def test_a_table_that_is_none(content: bytes, tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", content)
    assert str(file) in refused(lambda: read_labeled(file))


OBJECTS: dict[str, bytes] = {
    "brackets in brackets": b'{"text": ' + b"[" * 10**5 + b"]" * 10**5 + b"}\n",
    "a list of brackets": b"[" * 10**5,
    "a number of a million digits": b'{"text": ' + b"9" * 10**6 + b"}\n",
    "numbers": b"1\n2\n",
    "no JSON": b"{text: a}\n",
    "a list that does not end": b'[{"text": "a", "label": "b"},',
    "a text that does not end": b'{"text": "a\n',
    "half a character": b'{"text": "\\ud800", "label": "a"}\n',
    "a text that is a list": b'{"text": ["a"], "label": "b"}\n',
    "no label": b'{"text": "a"}\n{"text": "b"}\n',
    "a million keys": json.dumps({f"key {i}": i for i in range(10**5)}).encode(),
}


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("content", OBJECTS.values(), ids=OBJECTS)
def test_json_that_is_none(content: bytes, name: str, tmp_path: Path) -> None:
    file = written(tmp_path, name, content)
    assert str(file) in refused(lambda: read_labeled(file))


SERIES: dict[str, str] = {
    "no numbers": "date,a\n2020-01-01,x\n2020-01-02,y\n",
    "endless numbers": "date,a\n2020-01-01,1e999\n2020-01-02,1\n2020-01-03,2\n",
    "a number of a million digits": f"date,a\n2020-01-01,{'9' * 10**6}\n2020-01-02,1\n2020-01-03,1\n",
    "a date of the year 10^9": "date,a\n2020-01-01,1\n1000000000-01-01,2\n",
    "a gap of a thousand years": "date,a\n2020-01-01,1\n2020-01-02,2\n3020-01-01,2\n",
    "one row": "date,a\n2020-01-01,1\n",
    "a date twice": "date,a\n2020-01-01,1\n2020-01-01,2\n",
    "no dates": "date,a\nx,1\ny,2\n",
    "an empty header": ",,,\n1,2,3,4\n",
}


@pytest.mark.parametrize("content", SERIES.values(), ids=SERIES)
def test_a_series_that_is_none(content: str, tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", content)

    def read() -> None:
        assert np.isfinite(read_series(file).values).all(), "refused where it is computed with"
        raise InputError(f"{file} was read")

    refused(read)


# Paths that are not regular files


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    assert "is a folder" in refused(lambda: read_labeled(tmp_path))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full", "/dev/random"])
def test_a_device_in_the_place_of_a_file(device: str, tmp_path: Path) -> None:
    link = tmp_path / "a.csv"
    link.symlink_to(device)
    assert str(link) in refused(lambda: read_labeled(link))
    link = tmp_path / "a.txt"
    link.symlink_to(device)
    refused(lambda: read_lines(link, TableOptions(encoding="latin-1")))
    refused(lambda: read_images(link))


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("b.csv")
    (tmp_path / "b.csv").symlink_to("a.csv")
    assert "cannot be read: Too many levels of symbolic links" in refused(lambda: read_labeled(tmp_path / "a.csv"))
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "again").symlink_to(tmp_path)
    (tmp_path / "cat" / "x.png").symlink_to("x.png")
    refused(lambda: read_images(tmp_path))


def test_a_pipe_that_nobody_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIPE_TIMEOUT", 1)
    for name in ("a.csv", "a.csv.gz"):
        os.mkfifo(tmp_path / name)
        said = refused(lambda name=name: read_labeled(tmp_path / name))  # type: ignore[misc]
        assert "is a pipe that nothing has opened for writing for 1 seconds" in said


@pytest.mark.parametrize("content", [b"text,label\none,a\ntwo,b\n", b""])
def test_a_pipe_is_read_once_and_may_be_late(content: bytes, tmp_path: Path) -> None:
    pipe = tmp_path / "a.csv"
    os.mkfifo(pipe)
    writer = threading.Timer(0.3, lambda: pipe.write_bytes(content))
    writer.start()
    try:
        if content:
            assert [example.texts for example in read_labeled(pipe)] == [("one",), ("two",)]
        else:
            refused(lambda: read_labeled(pipe))
    finally:
        writer.join()


@pytest.mark.parametrize("name", ["a\nb.csv", "a\x1b[31mred.csv", "a\rb.csv", "x" * 250 + ".csv", "\udcff.csv"])
def test_odd_names(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    try:
        file.write_text("text,label\n", encoding="utf-8")
    except OSError:
        pytest.skip("no such name on this disk")
    said = refused(lambda: read_labeled(file))
    assert "\x1b" not in said
    assert "\r" not in said


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    refused(lambda: read_labeled(tmp_path / ("x" * 5000 + ".csv")))


def test_a_name_with_a_zero(tmp_path: Path) -> None:
    refused(lambda: read_labeled(tmp_path / "a\0b.csv"))


CORPORA: list[Any] = [
    [], {}, {"tokens": "x"}, {"bytes_per_token": 10**9},
    {"tokens": 10**12, "documents": 1, "empty_documents": 0, "bytes": 1, "unknown_bytes": 0, "bytes_per_token": 2},
]  # fmt: skip


@pytest.mark.parametrize("index", CORPORA, ids=range(len(CORPORA)))
def test_a_corpus_that_is_none(index: Any, tmp_path: Path) -> None:
    write_json(tmp_path / "index.json", index)
    for name in ("tokens.bin", "documents.bin", "marks.bin"):
        (tmp_path / name).write_bytes(b"\0" * 24)
    refused(lambda: open_corpus(tmp_path))


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("classify", "a.csv", b"text,label\n" + b"x" * 17 * MB),
        ("translate", "a.tsv", b"a\tb\n" + b"x" * 17 * MB),
        ("lm", "a.csv", b"text\n" + b"x" * 17 * MB),
        ("lm", "a.txt.gz", bomb(b"word " * 200_000, 100)),
        ("forecast", "a.csv", b"date,a\n" + b"9" * 17 * MB),
        ("images", "a.csv", b"image,label\n" + b"x" * 17 * MB),
    ],
    ids=range(6),
)
def test_every_verb_ends_with_a_sentence(
    task: str, name: str, content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, name, content)
    with bounded(60):
        assert run("train", task, "--data", file, "--out", tmp_path / "run", "--steps", 1) == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert len(said.splitlines()[-1]) < 2000
    assert sys.getsizeof(said) < 10_000
