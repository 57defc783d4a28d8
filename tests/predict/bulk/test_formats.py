"""The formats of an output: cells survive a round trip, gzipped or not, as text or typed."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.command import run

from glassformer.errors import InputError
from glassformer.predict.bulk.formats import Csv, Gzipped, Jsonl, Tsv, as_text, suffix_of

FolderOf = Callable[[str], Path]
ODD = ['a "quoted" one', "with, comma", "two\nlines", "tab\there", " 공백 ", "'", "=1+1"]


def write_odd(file: Path) -> list[dict[str, str]]:
    rows = [{"id": str(i), "text": text} for i, text in enumerate(ODD)]
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, ["id", "text"])
        writer.writeheader()
        writer.writerows(rows)
    return rows


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "jsonl.gz"])
def test_odd_cells_come_back_as_they_were(ending: str, folder_of: FolderOf, tmp_path: Path) -> None:
    rows, out = write_odd(tmp_path / "in.csv"), tmp_path / f"out.{ending}"
    assert run("predict", folder_of("encoder"), "--file", tmp_path / "in.csv", "--out", out) == 0
    content = gzip.decompress(out.read_bytes()) if ending.endswith("gz") else out.read_bytes()
    lines = content.decode("utf-8").splitlines(keepends=True)
    found = [json.loads(line) for line in lines] if "jsonl" in ending else list(csv.DictReader(lines))
    assert [{name: row[name] for name in ("id", "text")} for row in found] == rows
    assert all(row["label"] in ("calm", "glad", "<b>sad</b>") for row in found)


def test_a_tsv_has_no_quotes_and_says_what_it_cannot_hold(
    folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_odd(tmp_path / "in.csv")
    call = ["predict", folder_of("encoder"), "--file", tmp_path / "in.csv", "--out", tmp_path / "out.tsv"]
    assert run(*call) == 0
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()]
    assert [row[1] for row in rows] == ["text", *(text.replace("\n", " ").replace("\t", " ") for text in ODD)]
    assert "tabs or line breaks in 2 cells became spaces, because .tsv cannot hold them" in capsys.readouterr().err


def test_a_tsv_with_a_header_is_a_table(folder_of: FolderOf, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text('text\tlabel\n"Hi\tglad\n', encoding="utf-8")
    call = ["predict", folder_of("encoder"), "--file", tmp_path / "in.tsv", "--out", tmp_path / "out.tsv"]
    assert run(*call) == 0
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["text", "label", "predicted_label", "score"]
    assert rows[1][:2] == ['"Hi', "glad"]


def test_a_mark_that_excel_needs_is_kept(folder_of: FolderOf, tmp_path: Path) -> None:
    for name, mark in (("marked.csv", b"\xef\xbb\xbf"), ("plain.csv", b"")):
        (tmp_path / name).write_bytes(mark + "text\n안녕\n".encode())
        call = ["predict", folder_of("encoder"), "--file", tmp_path / name, "--out", tmp_path / f"out-{name}"]
        assert run(*call) == 0
        assert (tmp_path / f"out-{name}").read_bytes().startswith(mark + b"text,label,score\n")


def test_a_table_stays_as_it_was_written(
    folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Semicolons are kept; a file that Excel wrote in the encoding of Korean Windows opens in Excel as UTF-8."""
    rows = ["번호;text;값", "1;작은 모델이 살았습니다;1,5", "2;옛날 옛적에;2,5"]
    (tmp_path / "in.csv").write_bytes("\r\n".join([*rows, ""]).encode("cp949"))
    call = ["predict", folder_of("encoder"), "--file", tmp_path / "in.csv", "--out", tmp_path / "out.csv"]
    assert run(*call) == 0
    said = capsys.readouterr().err
    assert "in.csv was read as" in said
    assert "separated by semicolons" in said
    content = (tmp_path / "out.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    lines = content.decode("utf-8-sig").splitlines()
    assert lines[0] == "번호;text;값;label;score"
    assert [line.rsplit(";", 2)[0] for line in lines[1:]] == rows[1:]


def test_blank_rows_are_left_out_and_said(
    folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("id,text\n1,fox\n,\n2,dog\n", encoding="utf-8")
    call = ["predict", folder_of("encoder"), "--file", tmp_path / "in.csv", "--out", tmp_path / "out.csv"]
    assert run(*call) == 0
    assert "in.csv: skipped 1 blank row" in capsys.readouterr().err
    assert [line.split(",")[0] for line in (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()] == [
        "id", "1", "2",
    ]  # fmt: skip


def test_a_json_list_and_an_excel_table(folder_of: FolderOf, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    (tmp_path / "in.json").write_text('[{"text": "fox", "n": 1}, {"text": "dog", "n": null}]', encoding="utf-8")
    book = openpyxl.Workbook()
    for row in (["text", "n"], ["fox", 1], ["dog", None]):
        book.active.append(row)
    book.save(tmp_path / "in.xlsx")
    labels = []
    for name in ("in.json", "in.xlsx"):
        out = tmp_path / f"{name}.csv"
        assert run("predict", folder_of("encoder"), "--file", tmp_path / name, "--out", out) == 0
        with out.open(encoding="utf-8", newline="") as opened:
            found = list(csv.DictReader(opened))
        assert [(row["text"], row["n"]) for row in found] == [("fox", "1"), ("dog", "")]
        labels.append([row["label"] for row in found])
    assert labels[0] == labels[1]


def test_rows_with_other_keys_fit_into_one_table(folder_of: FolderOf, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "fox"}, {"text": "dog", "tags": ["a", "b"], "ok": True, "x": None}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for ending in ("csv", "jsonl"):
        call = ["predict", folder_of("encoder"), "--file", tmp_path / "in.jsonl", "--out", tmp_path / f"out.{ending}"]
        assert run(*call) == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as opened:
        found = [list(row.values())[:4] for row in csv.DictReader(opened)]
    assert found == [["fox", "", "", ""], ["dog", '["a", "b"]', "true", ""]]
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [{name: row[name] for name in before} for before, row in zip(rows, written, strict=True)] == rows
    assert set(written[0]) == {"text", "label", "score"}


def test_chunks_join_to_the_same_bytes() -> None:
    rows = [{"a": str(i), "b": i / 7} for i in range(10)]
    for made in (lambda: Csv(["a", "b"], mark=True), lambda: Tsv(["a", "b"], mark=False), lambda: Jsonl(["a", "b"])):
        one, other = made(), made()
        assert one.chunk(rows[:4]) + one.chunk(rows[4:]) == other.chunk(rows)
        packed = Gzipped(made())
        members = packed.head() + packed.chunk(rows[:4]) + packed.chunk(rows[4:])
        assert gzip.decompress(members) == other.head() + other.chunk(rows)
        assert Gzipped(made()).chunk(rows) == Gzipped(made()).chunk(rows)  # no time stamp


def test_what_is_no_text_as_a_cell() -> None:
    cells: list[Any] = [None, "a", True, 3, 0.25, [1, "é"], {"k": None}]
    assert [as_text(cell) for cell in cells] == ["", "a", "true", "3", "0.25", '[1, "é"]', '{"k": null}']


@pytest.mark.parametrize("name", ["out", "out.txt", "out.json", "out.xlsx", "out.gz"])
def test_a_name_that_says_no_format_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"expected a name that ends in one of \.csv, \.tsv, \.jsonl, \.parquet"):
        suffix_of(Path(name))


class TestParquet:
    def test_a_table_becomes_typed_columns(self, folder_of: FolderOf, tmp_path: Path) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        rows = [{"text": "fox", "n": i, "x": i / 2, "ok": i > 1, "any": i if i else "no", "no": None} for i in range(3)]
        (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        out = tmp_path / "out.parquet"
        assert run("predict", folder_of("encoder"), "--file", tmp_path / "in.jsonl", "--out", out) == 0
        table = pq.read_table(out)
        types = {field.name: str(field.type) for field in table.schema}
        assert types == {
            "text": "string", "n": "int64", "x": "double", "ok": "bool", "any": "string", "no": "string",
            "label": "string", "score": "double",
        }  # fmt: skip
        found = table.to_pylist()
        assert [row["any"] for row in found] == ["no", "1", "2"]
        assert [{name: row[name] for name in ("text", "n", "x", "ok", "no")} for row in found] == [
            {name: row[name] for name in ("text", "n", "x", "ok", "no")} for row in rows
        ]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.parquet"]

    def test_a_parquet_file_keeps_its_types(self, folder_of: FolderOf, tmp_path: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        import datetime
        import decimal

        day = datetime.datetime(2026, 11, 18, 1, 2, 3, 456789)
        table = pa.table(
            {
                "text": ["fox", None, "dog"],
                "small": pa.array([1, 2, None], pa.int8()),
                "when": pa.array([day, None, day], pa.timestamp("us", tz="Asia/Seoul")),
                "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")], pa.decimal128(8, 2)),
                "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
                "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
                "bytes": pa.array([b"\xff", None, b""], pa.binary()),
            },
            metadata={"owner": "me"},
        )
        pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
        call = ["predict", folder_of("encoder"), "--file", tmp_path / "in.parquet", "--out"]
        assert run(*call, tmp_path / "out.parquet") == 0
        found = pq.read_table(tmp_path / "out.parquet")
        assert found.select(table.column_names).equals(table)
        assert found.schema.metadata[b"owner"] == b"me"
        assert [bool(label) for label in found.column("label").to_pylist()] == [True, False, True]
        assert run(*call, tmp_path / "ids.parquet", "--id-column", "small") == 0
        assert pq.read_table(tmp_path / "ids.parquet").column_names == ["small", "label", "score"]
        assert run(*call, tmp_path / "out.csv") == 0

    def test_vectors_are_lists_of_numbers(self, folder_of: FolderOf, tmp_path: Path) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        (tmp_path / "in.csv").write_text('text\nfox\n""\ndog\n', encoding="utf-8")
        call = ["predict", folder_of("embed"), "--file", tmp_path / "in.csv", "--out", tmp_path / "out.parquet"]
        assert run(*call) == 0
        table = pq.read_table(tmp_path / "out.parquet")
        assert str(table.schema.field("vector").type) == "list<element: float>"
        assert [row and len(row) for row in table.column("vector").to_pylist()] == [24, None, 24]

    def test_a_number_that_does_not_fit_is_named(
        self, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("pyarrow")
        (tmp_path / "in.jsonl").write_text(f'{{"text": "fox", "big": {2**70}}}\n', encoding="utf-8")
        call = ["predict", folder_of("encoder"), "--file", tmp_path / "in.jsonl", "--out", tmp_path / "out.parquet"]
        assert run(*call) == 2
        said = capsys.readouterr().err
        assert "a cell of column 'big' does not fit into a Parquet column of type int64" in said

    def test_without_its_package_it_is_said_how_to_get_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("glassformer.predict.bulk.formats.find_spec", lambda name: None)
        with pytest.raises(InputError, match=r"Parquet needs pyarrow: pip install 'glassformer\[parquet\]'"):
            suffix_of(Path("out.parquet"))
