"""Tables and lines: what is read, and the errors."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.shared import shared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glassformer.data.files import (
    AS_FOUND,
    locate,
    read_lines,
    read_table,
    stream_lines,
    stream_text,
    with_training_flags,
)
from glassformer.data.formats.table import TableOptions
from glassformer.errors import InputError


def write(path: Path, text: str) -> Path:
    content = text.encode("utf-8")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_three_kinds_of_tables_say_the_same(tmp_path: Path, ending: str) -> None:
    files = [
        write(tmp_path / f"a.csv{ending}", '\ufefftext,label\r\n"one, ""two""\nthree",0\r\nfour,1\r\n'),
        write(
            tmp_path / f"a.jsonl{ending}",
            '{"text": "one, \\"two\\"\\nthree", "label": "0"}\n{"text":"four","label":"1"}',
        ),
    ]
    for file in files:
        table = read_table(file)
        assert table.names == ("text", "label")
        assert table.texts("text") == ['one, "two"\nthree', "four"]
        assert table.column("label") == ["0", "1"]
    assert [row.line for row in read_table(files[0]).rows] == [2, 4]
    tabs = read_table(write(tmp_path / f"a.tsv{ending}", 'text\tlabel\none, ""two""\t0\n"four\t1\n'))
    assert tabs.texts("text") == ['one, ""two""', '"four'], "a tab-separated file knows no quotes"


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=2, max_size=2), min_size=1
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_what_the_csv_module_writes_is_read_back(tmp_path: Path, rows: list[list[str]]) -> None:
    with (tmp_path / "any.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["a", "b"])
        writer.writerows(rows)
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    if not filled:
        return
    table = read_table(tmp_path / "any.csv", TableOptions(header=True))
    assert [list(row.cells.values()) for row in table.rows] == filled
    assert table.blank <= len(rows) - len(filled), "those at the end are not counted"


def test_a_cell_may_be_long(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "long.csv", f"text\n{'word ' * 100_000}\n")).texts("text") == ["word " * 100_000]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", r"a\.csv is empty"),
        ("a.csv", "text,label\n", r"a\.csv has a header but no rows"),
        ("a.csv", "text,label\none,1\ntwo\n", r"a\.csv, line 3: 1 cells, expected 2 \(text, label\): 'two'"),
        ("a.csv", 'text,label\n"one,1\n', r"a\.csv, line 2 is not CSV"),
        ("a.csv", 'text,label\none,1\n"two"x,1\n', r"a\.csv, line 3 is not CSV"),
        ("a.csv", "text,text\none,1\n", r"a\.csv, line 1: two columns are called 'text'"),
        ("a.tsv", "text\tlabel\none\t1\ntwo\t2\t3\n", r"a\.tsv, line 3: 3 cells, expected 2"),
        ("a.jsonl", "", r"a\.jsonl is empty"),
        ("a.jsonl", '{"text": "a"}\n{"text": ', r"a\.jsonl, line 2 is not JSON"),
        ("a.json", '[\n{"text": "a"},\n{"text" "b"}]', r"a\.json, line 3 is not JSON \(Expecting ':' delimiter\)"),
        ("a.json", '[{"text": "a"}', r"a\.json ends inside its list: expected a \] at the end"),
        ("a.json", '["a", "b"]', r"""a\.json, line 1: '"a"' is not an object"""),
        ("a.json", '[{"text": "a"}]\n[]', r"a\.json, line 2: unexpected text after the list"),
        ("a.json", "[" * 100_000, r"a\.json, line 1: brackets are nested too deeply"),
        ("a.jsonl", "[" * 100_000, r"a\.jsonl, line 1: brackets are nested too deeply"),
        ("a.jsonl", "3\n", r"a\.jsonl, line 1: '3' is not a JSON object"),
        ("a.jsonl", '{"text": "\\ud83d"}\n', r"a\.jsonl, line 1: \\ud83d is half a surrogate pair"),
        ("a.jsonl", '{"text": "a"}\n{"txt": "a"}\n', r"a\.jsonl, line 2 has no 'text', only txt"),
        ("a.jsonl", '{"text": "a"}\n{"text": 3}\n', r"a\.jsonl, line 2: text is 3, expected a text"),
        ("a.jsonl", '{"txt": "a"}\n', r"a\.jsonl has the columns txt, but none called 'text': did you mean 'txt'\?"),
        ("a.parquet", "text", r"a\.parquet cannot be read as Parquet"),
        ("a.table", "text", r"a\.table is not a table: expected \.csv, \.tsv"),
    ],
)
def test_a_table_that_cannot_be_used_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path / name, text)).texts("text")


def test_escaped_pairs_of_halves_are_whole_characters(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "a.jsonl", '{"text": "\\ud83d\\ude00"}')).texts("text") == ["\U0001f600"]


def test_a_gzip_bomb_in_a_large_file_is_refused_at_its_beginning(tmp_path: Path) -> None:
    """The whole file unpacks to less than a hundred times its size."""
    noise = np.random.default_rng(0).bytes(1 << 20).hex().encode()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((b"x" * 999 + b"\n") * 64_000) + gzip.compress(noise))
    with pytest.raises(InputError, match=r"a\.txt\.gz: its first [\d,]+ bytes unpack to more than \d+ MB"):
        read_lines(tmp_path / "a.txt.gz")


def test_what_is_not_gzip_or_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(b"text\tlabel\n")
    with pytest.raises(InputError, match=r"a\.tsv\.gz cannot be unpacked"):
        read_table(tmp_path / "a.tsv.gz")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"one\n" * 1000)[:-12])
    with pytest.raises(InputError, match=r"b\.txt\.gz cannot be unpacked"):
        read_lines(tmp_path / "b.txt.gz")
    (tmp_path / "c.txt").write_bytes(b"one\ntwo\n\xb5\n")
    for read in (
        read_lines,
        read_table,
        lambda path: list(stream_text(path, 5)),
        lambda path: list(stream_lines(path)),
    ):
        with pytest.raises(InputError, match=r"c\.txt, line 3: byte 0xb5 is not UTF-8"):
            read(tmp_path / "c.txt")  # type: ignore[operator]


def test_a_text_in_blocks_is_the_whole_text(tmp_path: Path) -> None:
    text = "가나다 naïve 😀\r\n" * 50
    write(tmp_path / "a.txt.gz", "\ufeff" + text)
    for size in (1, 2, 7, 1000):
        assert "".join(stream_text(tmp_path / "a.txt.gz", size)) == text


def test_nsmc() -> None:
    table = read_table(shared("nsmc/test.tsv.gz"))
    assert (len(table.rows), table.names) == (50_000, ("id", "document", "label"))
    assert json.dumps(sorted(set(table.column("label")))) == '["0", "1"]'
    assert sum(not text for text in table.texts("document")) == 3


def test_a_line_ends_at_a_newline_and_nowhere_else(tmp_path: Path) -> None:
    """str.splitlines would also split at U+2028 and U+0085, and misalign aligned files."""
    (tmp_path / "a.en").write_text("one\u2028still one\ntwo\x85still two\r\n", encoding="utf-8", newline="")
    assert read_lines(tmp_path / "a.en") == ["one\u2028still one", "two\x85still two"]


@pytest.mark.parametrize(
    ("beginning", "late", "found"),
    [
        ("so\t1\n", '"""wow"" he said"\t1\n', "which has none"),
        ('"a ""b"""\t1\n', 'say "bad\t0\n', "enclose cells"),
    ],
    ids=["none before", "all around cells before"],
)
def test_late_quotes_that_contradict_the_beginning_are_told(
    beginning: str, late: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the beginning of a file decides how quotes are read; later quotes that contradict it are an error."""
    monkeypatch.setattr("glassformer.data.files.BLOCK", 40)
    file = write(tmp_path / "a.tsv", "text\tlabel\n" + beginning * 9 + late)
    with pytest.raises(InputError) as error:
        read_table(file)
    assert str(error.value).startswith(f"{file}, line 11: the quotes in ")
    assert found in str(error.value)
    assert "--no-quotes" in str(error.value)
    assert read_table(file, TableOptions(quotes=False)).texts("text")[-1] == late.split("\t")[0]
    write(file, "text\tlabel\n" + beginning * 9 + '"plain"\t1\n')
    assert len(read_table(file).rows) == 10, "what does not contradict is read"


@pytest.mark.parametrize(
    ("name", "unit"), [("a.csv", "line"), ("a.jsonl", "line"), ("a.xlsx", "row"), ("a.parquet", "row")]
)
def test_a_place_is_a_line_or_a_row(name: str, unit: str, tmp_path: Path) -> None:
    assert locate(tmp_path / name, 3) == f"{tmp_path / name}, {unit} 3"


def test_flags_of_the_training_hold_where_they_fit(tmp_path: Path) -> None:
    """The delimiter and quotes of training apply only to files that fit."""
    trained = {"data": ["/old/a.tsv"], "delimiter": "pipe", "quotes": False, "encoding": "cp949", "header": None}
    options = with_training_flags(AS_FOUND, trained)
    pipes = write(tmp_path / "a.tsv", 'text|label\n"a"|b\t1\n')
    assert read_table(pipes, options).rows[0].cells == {"text": '"a"', "label": "b\t1"}
    tabs = write(tmp_path / "b.tsv", 'text\tlabel\n"a ""b"""\t1\n')
    assert read_table(tabs, options).texts("text") == ['"a ""b"""']
    commas = write(tmp_path / "a.csv", 'text,label\n"a, b",1\n')
    assert read_table(commas, options).texts("text") == ["a, b"]
    assert with_training_flags(TableOptions(header=True), {"header": False}).header is True
