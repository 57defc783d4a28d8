"""Parquet and Excel: read in parts, with a clear error if a package is missing, a file is broken or memory is short."""

import io
import sys
import zipfile
from pathlib import Path

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest

from glassformer.data.files import read_table, stream_rows
from glassformer.data.formats import packed
from glassformer.errors import InputError


def test_a_package_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.parquet", "a.xlsx"):
        (tmp_path / name).write_bytes(b"PK")
    for module in ("pyarrow", "pyarrow.parquet", "openpyxl"):
        monkeypatch.setitem(sys.modules, module, None)
    for name, extra in (("a.parquet", "parquet"), ("a.xlsx", "excel")):
        with pytest.raises(InputError, match=rf"pip install 'glassformer\[{extra}\]'. Or save it as \.csv"):
            read_table(tmp_path / name)


def test_parquet_is_read_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pyarrow.table({"text": [f"text {i}" for i in range(5000)], "label": list(range(5000))})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    batches: list[int] = []
    original = pyarrow.parquet.ParquetFile.iter_batches

    def iter_batches(self: object, **options: object) -> object:
        for batch in original(self, **options):
            batches.append(len(batch))
            yield batch

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", iter_batches)
    rows = stream_rows(tmp_path / "a.parquet")
    assert next(rows).cells == {"text": "text 0", "label": 0}
    assert batches == [1000], "the first row needs no more"
    assert [row.cells["label"] for row in rows] == list(range(1, 5000))
    assert batches == [1000] * 5


def test_a_workbook_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book, content = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["text"])
    book.save(content)
    (tmp_path / "a.xlsx").write_bytes(content.getvalue())
    with zipfile.ZipFile(tmp_path / "a.xlsx", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", " " * 1_000_000)
    assert (tmp_path / "a.xlsx").stat().st_size < 20_000
    monkeypatch.setattr(packed, "MAX_WORKBOOK_BYTES", 500_000)
    with pytest.raises(InputError, match=r"a\.xlsx unpacks to 1,0\d\d,\d{3} bytes: expected at most"):
        read_table(tmp_path / "a.xlsx")
