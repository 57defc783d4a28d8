"""Real-world files, as written by Excel, LibreOffice, pandas, R, databases, Notepad and Korean portals. Each is read
correctly, or refused with an error that says what to do."""

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest

from glassformer.data.documents import document_format, stream_documents, text_files
from glassformer.data.files import read_table
from glassformer.data.formats.table import TableOptions
from glassformer.data.labeled_series import read_labeled_series
from glassformer.data.pairs import read_pairs
from glassformer.data.texts import label_hints, read_labeled
from glassformer.errors import InputError

REVIEWS = [("good film", "pos"), ("bad, really", "neg"), ('he said "wow"', "pos")]


@dataclass(frozen=True)
class Case:
    """A file, the flags to read it with, and the expected rows, format description or error."""

    file: str
    content: str | bytes
    rows: Any = None
    error: str = ""  # the expected error, with {file} for the path
    says: str = ""  # part of the format description
    encoding: str = "utf-8"
    options: dict[str, Any] = field(default_factory=dict)  # flags for the format
    flags: dict[str, Any] = field(default_factory=dict)  # other flags

    @property
    def bytes(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.encode(self.encoding)


def workbook(*sheets: tuple[str, list[list[Any]]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets:
        page = book.create_sheet(title)
        for row in rows:
            page.append(row)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def parquet(**columns: Any) -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), content, row_group_size=2)
    return content.getvalue()


def check(case: Case, tmp_path: Path, read: Callable[..., Any], packed: bool) -> None:
    path = tmp_path / (case.file + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(case.bytes) if packed else case.bytes)
    options = TableOptions(**case.options)
    if case.error:
        with pytest.raises(InputError) as error:
            read(path, options=options, **case.flags)
        assert str(error.value) == case.error.replace("{file}", str(path))
        return
    rows, form = read(path, options=options, **case.flags)
    assert rows == case.rows
    assert case.says in form


def each(cases: dict[str, Case]) -> Any:
    """Every case, and text files also gzipped: they read the same."""
    plain = [pytest.param(case, False, id=name) for name, case in cases.items()]
    no_text = (".xlsx", ".parquet", ".xls", ".ods", ".numbers", ".docx", ".pdf", ".zip")
    packed = [
        pytest.param(case, True, id=f"{name}, packed")
        for name, case in cases.items()
        if not case.file.endswith(no_text) and "gzip" not in name
    ]
    return pytest.mark.parametrize(("case", "packed"), plain + packed)


HEADER_AND_ROWS = [{"text": "good", "label": "1"}, {"text": "bad", "label": "0"}]
TITLE = "{file}, line 1: 'Reviews of 2024' is above the header. Delete the lines above it"
TABLES = {
    "pandas to_csv": Case("a.csv", "text,label\ngood,1\nbad,0\n", HEADER_AND_ROWS, says="separated by commas, header"),
    "pandas with its index": Case(
        "a.csv",
        ",text,label\n0,good,1\n1,bad,0\n",
        [{"": "0", "text": "good", "label": "1"}, {"": "1", "text": "bad", "label": "0"}],
    ),
    "pandas without names": Case(
        "a.csv",
        "0,1\ngood film,1\nbad film,0\nso so,1\n",
        [{"0": "good film", "1": "1"}, {"0": "bad film", "1": "0"}, {"0": "so so", "1": "1"}],
        says="header '0 | 1'",
    ),
    "Excel, CSV UTF-8": Case("a.csv", "text,label\r\ngood,1\r\nbad,0\r\n", HEADER_AND_ROWS, encoding="utf-8-sig"),
    "Excel in Germany": Case(
        "a.csv",
        "Text;Bewertung;Preis\r\nschön, wirklich;gut;1,50\r\nmüde;schlecht;2,00\r\n",
        [
            {"Text": "schön, wirklich", "Bewertung": "gut", "Preis": "1,50"},
            {"Text": "müde", "Bewertung": "schlecht", "Preis": "2,00"},
        ],
        encoding="cp1252",
        says="CP1252 (guessed from 'schön'; choose another with --encoding), separated by semicolons",
    ),
    "Excel, Unicode text": Case(
        "a.txt",
        'text\tlabel\r\n"He said ""hi""\nand left"\t1\r\nbad\t0\r\n',
        [{"text": 'He said "hi"\nand left', "label": "1"}, {"text": "bad", "label": "0"}],
        encoding="utf-16",
        says="UTF-16, separated by tabs, cells in quotes (--no-quotes if they are text), header 'text | label'",
    ),
    "UTF-16, big end first": Case(
        "a.tsv", b"\xfe\xff" + "text\tlabel\r\n좋아요\t1\r\n".encode("utf-16-be"), [{"text": "좋아요", "label": "1"}]
    ),
    "Excel with a line for itself": Case("a.csv", "sep=;\r\ntext;label\r\ngood;1\r\nbad;0\r\n", HEADER_AND_ROWS),
    "Notepad in Korea, ANSI": Case(
        "a.csv",
        "text,label\r\n정말 좋아요 ㅋㅋ,긍정\r\n별로예요,부정\r\n",
        [{"text": "정말 좋아요 ㅋㅋ", "label": "긍정"}, {"text": "별로예요", "label": "부정"}],
        encoding="cp949",
        says="CP949 (guessed from '정말'",
    ),
    "a Korean portal": Case(
        "a.csv",
        '"시도","시군구","인구수"\r\n"서울특별시","종로구","141,379"\r\n"서울특별시","중구","121,312"\r\n',
        [
            {"시도": "서울특별시", "시군구": "종로구", "인구수": "141,379"},
            {"시도": "서울특별시", "시군구": "중구", "인구수": "121,312"},
        ],
        encoding="euc-kr",
        says="CP949",
    ),
    "a Korean portal in UTF-8": Case(
        "a.csv",
        "\ufeff제목,내용\r\n공지,안녕하세요\r\n",
        [{"제목": "공지", "내용": "안녕하세요"}],
        says="UTF-8, separated",
    ),
    "an old Mac": Case("a.csv", "text,label\rgood,1\rbad,0\r", HEADER_AND_ROWS, says="old Mac line ends"),
    "an old Mac in UTF-16": Case("a.tsv", "text\tlabel\rgood\t1\rbad\t0\r", HEADER_AND_ROWS, encoding="utf-16"),
    "cells over several lines": Case(
        "a.csv",
        'text,label\n"good,\n\n""very"" good",1\nbad,0\n',
        [{"text": 'good,\n\n"very" good', "label": "1"}, {"text": "bad", "label": "0"}],
    ),
    "a delimiter at the end": Case("a.csv", "text,label,\r\ngood,1,\r\nbad,0,\r\n", HEADER_AND_ROWS),
    "a delimiter at the end of rows only": Case("a.csv", "text,label\ngood,1,\nbad,0,\n", HEADER_AND_ROWS),
    "empty lines at the end": Case("a.csv", "text,label\ngood,1\nbad,0\n\n,\n,\n", HEADER_AND_ROWS),
    "blank rows between": Case("a.csv", "\ntext,label\n,\ngood,1\n\nbad,0\n", HEADER_AND_ROWS),
    "a title above": Case("a.csv", "Reviews of 2024\n\ntext,label\ngood,1\nbad,0\nso,1\n", error=TITLE),
    "a title above, in Germany": Case(
        "a.csv", "Reviews of 2024;;\r\ntext;label;id\r\ngood;1;7\r\nbad;0;8\r\nso;1;9\r\n", error=TITLE
    ),
    "a comment above": Case(
        "a.csv",
        "# exported by R, 2024\ntext,label\ngood,1\nbad,0\n",
        error="{file}, line 1: '# exported by R' is above the header. Delete the lines above it",
    ),
    "a row with a cell too many": Case(
        "a.csv",
        "text,label\ngood,1\nbad, really,0\nso,1\nno,0\n",
        error="{file}, line 3: 3 cells, expected 2 (text, label): 'bad |  really | 0'",
    ),
    "spaces in the header": Case("a.csv", " text , label\ngood,1\nbad,0\n", HEADER_AND_ROWS),
    "spaces behind commas": Case(
        "a.csv", 'text, label\n"good, yes", 1\nbad, 0\n', [{"text": "good, yes", "label": "1"}, HEADER_AND_ROWS[1]]
    ),
    "thousands": Case(
        "a.csv",
        'city,people\nBonn,"329,673"\nKöln,"1,084,394"\n',
        [
            {"city": "Bonn", "people": "329,673"},
            {"city": "Köln", "people": "1,084,394"},
        ],
    ),
    "one name twice": Case(
        "a.csv",
        "text,label,text\ngood,1,x\n",
        error="{file}, line 1: two columns are called 'text'. Rename one of them",
    ),
    "a database, pipes": Case("a.txt", "text|label\ngood|1\nbad|0\n", HEADER_AND_ROWS, says="separated by pipes"),
    "a database with no values": Case(
        "a.tsv", "text\tlabel\ngood\t1\n\\N\t0\n", [{"text": "good", "label": "1"}, {"text": "", "label": "0"}]
    ),
    "MySQL, with backslashes": Case(
        "a.csv",
        'text,label\n"he said \\"wow\\"",1\n',
        error="{file}, line 2 is not CSV (',' expected after '\"'): expected cells between commas, and a cell with a "
        'comma, a quote or a line break written as "...", with "" for a quote',
    ),
    "R, write.csv": Case(
        "a.csv",
        '"","text","label"\n"1","good",1\n"2","bad",0\n',
        [{"": "1", "text": "good", "label": "1"}, {"": "2", "text": "bad", "label": "0"}],
    ),
    "R, write.table with tabs": Case(
        "a.tsv", '"text"\t"label"\n"good"\t1\n"bad"\t0\n', HEADER_AND_ROWS, says="separated by tabs, cells in quotes"
    ),
    "tabs without quoting": Case(
        "a.tsv",
        'text\tlabel\n"good" it was\t1\nsay "bad\t0\n',
        [
            {"text": '"good" it was', "label": "1"},
            {"text": 'say "bad', "label": "0"},
        ],
        says="separated by tabs, quotes are text, header",
    ),
    "tabs, and a quote that is never closed": Case(
        "a.tsv",
        'text\tlabel\n"he said ""wow"""\t1\n"open\t0\n',
        [{"text": '"he said ""wow"""', "label": "1"}, {"text": '"open', "label": "0"}],
        says="separated by tabs, quotes are text, header",
    ),
    "pandas with tabs, a late quote": Case(
        "a.tsv",
        'text\tlabel\n"he said ""wow"""\t1\n' + "so\t1\n" * 600 + '"open\t0\nclose"\t0\n',
        [
            {"text": '"he said ""wow"""', "label": "1"},
            *[{"text": "so", "label": "1"}] * 600,
            {"text": '"open', "label": "0"},
            {"text": 'close"', "label": "0"},
        ],
        says="separated by tabs, quotes are text",
    ),
    "a review site with tabs, as some quote twice": Case(
        "a.tsv",
        'text\tlabel\n"""wow"" he said"\t1\nbad\t0\n',
        [{"text": '"wow" he said', "label": "1"}, {"text": "bad", "label": "0"}],
        says="cells in quotes (--no-quotes if they are text)",
    ),
    "the same, told that quotes are text": Case(
        "a.tsv",
        'text\tlabel\n"""wow"" he said"\t1\nbad\t0\n',
        [{"text": '"""wow"" he said"', "label": "1"}, {"text": "bad", "label": "0"}],
        says="separated by tabs, quotes are text (--no-quotes), header",
        options={"quotes": False},
    ),
    "tabs, told that cells are in quotes": Case(
        "a.tsv",
        'text\tlabel\n"good"\t1\nthe 5" one\t0\n',
        [{"text": "good", "label": "1"}, {"text": 'the 5" one', "label": "0"}],
        says="separated by tabs, cells in quotes (--quotes), header",
        options={"quotes": True},
    ),
    "commas without quoting": Case(
        "a.csv",
        'text,label\n"good" it was,1\n"bad,0\n',
        [{"text": '"good" it was', "label": "1"}, {"text": '"bad', "label": "0"}],
        says="separated by commas, quotes are text (--no-quotes), header",
        options={"quotes": False},
    ),
    "tabs in a .csv": Case("a.csv", "text\tlabel\ngood\t1\nbad\t0\n", HEADER_AND_ROWS, says="separated by tabs"),
    "commas in a .tsv": Case("a.tsv", "text,label\ngood,1\nbad,0\n", HEADER_AND_ROWS, says="separated by commas"),
    "two delimiters": Case(
        "a.csv",
        "a;b|c\nd;e|f\n",
        error="{file}: its cells may be separated by semicolons or by pipes. Choose with --delimiter semicolon or "
        "--delimiter pipe",
    ),
    "two delimiters and a flag": Case(
        "a.csv", "a;b|c\nd;e|f\n", [{"a;b": "d;e", "c": "f"}], options={"delimiter": "pipe", "header": True}
    ),
    "pandas to_json, records": Case(
        "a.json",
        json.dumps([{"text": "gut [so]", "label": 1}, {"text": 'ö "]', "label": None}]),
        [{"text": "gut [so]", "label": 1}, {"text": 'ö "]', "label": None}],
        says="a JSON list",
    ),
    "a JSON list over many lines": Case(
        "a.json",
        json.dumps([{"text": "좋아요", "label": [1]}, {"text": "b"}], indent=2, ensure_ascii=False),
        [{"text": "좋아요", "label": [1]}, {"text": "b"}],
    ),
    "a JSON list cut off": Case(
        "a.json",
        '[\n{"text": "a"},\n{"text": "b"}\n',
        error="{file} ends inside its list: expected a ] at the end. Is the file complete?",
    ),
    "JSON lines of Windows": Case(
        "a.jsonl",
        '\ufeff{"text": "a", "label": null}\r\n\r\n{"label": 2}\r\n',
        [{"text": "a", "label": None}, {"label": 2}],
    ),
    "JSON over many lines": Case(
        "a.json",
        '{\n  "data": []\n}\n',
        error="{file}, line 1 is not JSON (Expecting property name enclosed in double quotes: line 2 column 1 (char 2))"
        ": '{'. Expected one object per line, as in "
        '{"text": "...", "label": "..."}, or one list of objects',
    ),
    "Parquet": Case(
        "a.parquet",
        parquet(text=["a", "b", None], label=[1, 2, 3], at=[datetime(2024, 1, 5), None, datetime(2024, 1, 6, 7)]),
        [
            {"text": "a", "label": 1, "at": datetime(2024, 1, 5)},
            {"text": "b", "label": 2, "at": None},
            {"text": None, "label": 3, "at": datetime(2024, 1, 6, 7)},
        ],
        says="Parquet",
    ),
    "Parquet with categories": Case(
        "a.parquet",
        parquet(label=pyarrow.array(["x", "y", "x"]).dictionary_encode()),
        [{"label": "x"}, {"label": "y"}, {"label": "x"}],
    ),
    "xlsx": Case(
        "a.xlsx",
        workbook(
            (
                "Reviews",
                [
                    ["text", "stars", "on", "share", "bought"],
                    ["good", 5, date(2024, 1, 5), 0.5, True],
                    [None, None, None, None, None],
                    ["bad", 1.0, datetime(2024, 1, 6, 7, 30), None, False],
                    [None],
                ],
            )
        ),
        [
            {"text": "good", "stars": "5", "on": "2024-01-05", "share": "0.5", "bought": "TRUE"},
            {"text": "bad", "stars": "1", "on": "2024-01-06 07:30:00", "share": "", "bought": "FALSE"},
        ],
        says="Excel sheet 'Reviews', header 'text | stars | on | share | bought'",
    ),
    "xlsx that begins further down": Case(
        "a.xlsx",
        workbook(("A", [[], [], [None, "text", "label"], [None, "good", 1], [None, "bad", 0]])),
        [{"": "", "text": "good", "label": "1"}, {"": "", "text": "bad", "label": "0"}],
    ),
    "xlsx, another sheet": Case(
        "a.xlsx",
        workbook(("About", [["hello"]]), ("Data", [["text"], ["good"]])),
        [{"text": "good"}],
        options={"sheet": "Data"},
        says="sheet 'Data', one of 2",
    ),
    "xlsx, no such sheet": Case(
        "a.xlsx",
        workbook(("About", [["hello"]]), ("Data", [["text"]])),
        options={"sheet": "data"},
        error="--sheet data: {file} has no such sheet: did you mean 'Data'?",
    ),
    "xlsx with a title": Case(
        "a.xlsx",
        workbook(("A", [["Reviews of 2024"], ["text", "label"], ["a", 1], ["b", 0], ["c", 1]])),
        error=TITLE.replace("line", "row"),
    ),
    "xlsx without cells": Case(
        "a.xlsx", workbook(("A", [])), error="{file} is empty: expected a table with at least one row"
    ),
    "xlsx cut off": Case(
        "a.xlsx",
        workbook(("A", [["text"]]))[:900],
        error="{file} cannot be read as an Excel workbook (File is not a zip file). Open it in Excel and "
        "save it as .csv",
    ),
    "xlsx by another name": Case(
        "a.csv",
        workbook(("A", [["text"]])),
        error="{file} is a zip archive, like .xlsx and .docx files. Give it the right extension, or save it as .csv",
    ),
    "gzip by another name": Case(
        "a.csv", gzip.compress(b"text\n"), error="{file} is packed with gzip. Rename it to end in .gz"
    ),
    "a packed xlsx, gzip": Case(
        "a.xlsx.gz",
        gzip.compress(b"PK"),
        error="{file}: a .xlsx file is already compressed. Unpack it first, with gunzip",
    ),
    "old Excel": Case(
        "a.xls",
        b"\xd0\xcf\x11\xe0",
        error="{file} is an old Excel workbook. Save it as .xlsx or .csv: in Excel, File > Save As",
    ),
    "LibreOffice": Case(
        "a.ods",
        b"PK\x03\x04",
        error="{file} is a LibreOffice spreadsheet. Save it as .xlsx or .csv: in LibreOffice, File > Save As",
    ),
    "Numbers": Case(
        "a.numbers",
        b"PK\x03\x04",
        error="{file} is a Numbers spreadsheet. Export it as CSV: in Numbers, File > Export To > CSV",
    ),
    "Word": Case(
        "a.docx",
        b"PK\x03\x04",
        error="{file} is a Word document. Save it as plain text (.txt): in Word, File > Save As",
    ),
    "PDF": Case("a.pdf", b"%PDF-1.7", error="{file} is a PDF. Extract its text first, for instance with `pdftotext`"),
    "zip": Case("a.zip", b"PK\x03\x04", error="{file} is a zip archive. Unpack it first"),
    "a web page": Case(
        "a.csv", "<!DOCTYPE html>\n<html>", error="{file} is a web page, not a table. Download the file itself"
    ),
    "one byte is broken": Case(
        "a.csv",
        "text,label\n좋아요,1\n".encode() + b"\xb5,0\n",
        error="{file}, line 3: byte 0xb5 is not UTF-8, but 3 other characters are. Repair the line, or give the "
        "encoding of the file with --encoding",
    ),
    "Windows in Russia": Case(
        "a.csv",
        "text,label\nхороший фильм,1\n",
        encoding="cp1251",
        error="{file}, line 2: byte 0xf5 is not UTF-8, and no other encoding is certain. Give its encoding, such as "
        "--encoding cp949 (Korean) or --encoding cp1252 (Western European)",
    ),
    "Windows in Russia, named": Case(
        "a.csv",
        "text,label\nхороший фильм,1\n",
        [{"text": "хороший фильм", "label": "1"}],
        encoding="cp1251",
        options={"encoding": "cp1251"},
        says="cp1251 (--encoding), separated by commas",
    ),
    "Windows in Japan": Case(
        "a.csv",
        "text,label\n良い映画でした,1\n",
        encoding="shift_jis",
        error="{file}, line 2: byte 0x97 is not UTF-8, and no other encoding is certain. Give its encoding, such as "
        "--encoding cp949 (Korean) or --encoding cp1252 (Western European)",
    ),
    "UTF-16 without its mark": Case(
        "a.csv",
        "text,label\ngood,1\n",
        encoding="utf-16-le",
        error="{file} has zero bytes, so it is not text, or UTF-16 without a byte order mark. If it is text, use "
        "--encoding utf-16-le or --encoding utf-16-be",
    ),
    "UTF-16 without its mark, named": Case(
        "a.csv", "text,label\ngood,1\nbad,0\n", HEADER_AND_ROWS, encoding="utf-16-le", options={"encoding": "utf-16-le"}
    ),
    "an encoding that contradicts the file": Case(
        "a.csv",
        "text,label\ngood,1\n",
        encoding="utf-8-sig",
        options={"encoding": "cp949"},
        error="{file} begins with the byte order mark of UTF-8: leave --encoding cp949 out",
    ),
    "an encoding that there is not": Case(
        "a.csv",
        "text,label\ngood,1\n",
        options={"encoding": "korean-8"},
        error="--encoding korean-8: there is no such text encoding. Use utf-8, utf-16, cp949, euc-kr, cp1252, "
        "latin-1, shift_jis, gbk, big5 or another encoding of Python",
    ),
}


@each(TABLES)
def test_tables(case: Case, packed: bool, tmp_path: Path) -> None:
    def read(path: Path, options: TableOptions) -> tuple[Any, str]:
        table = read_table(path, options)
        return [row.cells for row in table.rows], str(table.form)

    check(case, tmp_path, read, packed)


MANY = "".join(f"film number {i},{'pos' if i % 2 else 'neg'}\n" for i in range(20))
LABELED = {
    "other columns do no harm": Case(
        "a.csv", "id,label,note,text,note\n1,x,,good,\n2,y,,bad,z\n", [("good", "x", 2), ("bad", "y", 3)]
    ),
    "names with capitals, given": Case(
        "a.csv",
        "Text,Label\ngood,1\nbad,0\n",
        [("good", "1", 2), ("bad", "0", 3)],
        flags={"text_columns": ["Text"], "label_column": "Label"},
    ),
    "no header": Case(
        "a.csv",
        "I loved it,pos\n" + MANY,
        error="{file} has no header, so its columns are called 1, 2. Give the columns of the text and the label, as in "
        "--text-columns 1 --label-column 2. Use --header if it holds the column names",
    ),
    "no header, columns by number": Case(
        "a.csv",
        "I loved it,pos\nnot me,neg\n" + MANY,
        [("I loved it", "pos", 1), ("not me", "neg", 2)]
        + [(f"film number {i}", "pos" if i % 2 else "neg", i + 3) for i in range(20)],
        flags={"text_columns": ["1"], "label_column": "2"},
        says="no header: the first row is 'I loved it | pos'; --header if it names the columns",
    ),
    "no header, by a flag": Case(
        "a.tsv",
        "text\tlabel\ngood\t1\n",
        [("text", "label", 1), ("good", "1", 2)],
        options={"header": False},
        flags={"text_columns": ["1"], "label_column": "2"},
        says="no header (--no-header)",
    ),
    "names that nobody knows": Case(
        "a.csv",
        "v1,v2\nham,Go until jurong point\nspam,Free entry in 2\n",
        error="{file} has the columns v1, v2: expected one of text, sentence1 and sentence2, sentence, document. "
        "Choose the text column with --text-columns. Use --no-header if the first row is an example",
    ),
    "a line of totals": Case(
        "a.csv",
        "text,label\ngood,1\nbad,0\nTotal: 2,\n",
        error="{file}, line 4: the label is '', expected a class name or number",
    ),
    "a text without a value": Case(
        "a.jsonl",
        '{"text": "good", "label": 1}\n{"text": null, "label": 0}\n',
        error="{file}, line 2: text is empty (label 0). Fill it, or leave such rows out with --skip-empty",
    ),
    "texts without values, left out": Case(
        "a.parquet",
        parquet(text=["good", None, "bad"], label=[1.0, 2.0, 0.0]),
        [("good", "1", 1), ("bad", "0", 3)],
        flags={"skip_empty": True},
    ),
    "texts of xlsx that are numbers": Case(
        "a.xlsx",
        workbook(("A", [["text", "label"], [2012, "film"], ["Up", "film"]])),
        [("2012", "film", 2), ("Up", "film", 3)],
    ),
    "labels in Excel": Case(
        "a.xlsx", workbook(("A", [["text", "label"], ["good", 1], ["bad", 0]])), [("good", "1", 2), ("bad", "0", 3)]
    ),
    "a label column of another name": Case(
        "a.csv",
        "text,stars\ngood,5\nbad,1\n",
        error="{file} has the columns text, stars, but none called 'label'. Choose with --label-column",
    ),
}


@each(LABELED)
def test_labelled_texts(case: Case, packed: bool, tmp_path: Path) -> None:
    def read(path: Path, **flags: Any) -> tuple[Any, str]:
        found = read_labeled(path, **flags)
        examples = zip(found, found.lines, strict=True)
        rows = [(" | ".join(example.texts), " | ".join(example.labels), line) for example, line in examples]
        return rows, found.written

    check(case, tmp_path, read, packed)


TWO = [("one", "하나"), ("two", "둘")]
PAIRS = {
    "languages by code": Case("a.tsv", "en\tko\none\t하나\ntwo\t둘\n", TWO, says="header 'en | ko'; --no-header if"),
    "languages by name": Case("a.tsv", "English\tKorean\none\t하나\ntwo\t둘\n", TWO, says="header"),
    "languages in Korean": Case("a.tsv", "영어 문장\t한국어 문장\none\t하나\ntwo\t둘\n", TWO, says="header"),
    "languages with their scripts": Case("a.tsv", "eng_Latn\tkor_Hang\none\t하나\ntwo\t둘\n", TWO, says="header"),
    "names of a program": Case("a.tsv", "src_text\ttgt_text\none\t하나\ntwo\t둘\n", TWO, says="header"),
    "a header by a flag": Case(
        "a.tsv",
        "links\trechts\none\t하나\ntwo\t둘\n",
        TWO,
        options={"header": True},
        says="header 'links | rechts' (--header)",
    ),
    "a name above another script": Case(
        "a.tsv",
        "left\tright\n" + "one\t하나\n" * 9,
        [("one", "하나")] * 9,
        says="header 'left | right'; --no-header if",
    ),
    "names above long texts": Case(
        "a.tsv",
        "links\trechts\n" + f"{'a long text ' * 4}\t{'ein langer ' * 4}\n" * 12,
        [("a long text " * 4, "ein langer " * 4)] * 12,
        says="header 'links | rechts'; --no-header if",
    ),
    "no header": Case(
        "a.tsv", "one\t하나\ntwo\t둘\n", TWO, says="no header: the first row is 'one | 하나'; --header if"
    ),
    "a word list that begins with a language": Case(
        "a.tsv", "English\t영어\none\t하나\n", [("English", "영어"), ("one", "하나")], says="no header"
    ),
    "short texts first, as Tatoeba sorts them": Case(
        "a.tsv",
        "Go.\tGeh.\nHi!\tHallo!\n" + "I am here now.\tIch bin jetzt hier.\n" * 9,
        [("Go.", "Geh."), ("Hi!", "Hallo!"), *[("I am here now.", "Ich bin jetzt hier.")] * 9],
        says="no header",
    ),
    "a header that a flag denies": Case(
        "a.tsv", "en\tko\none\t하나\n", [("en", "ko"), ("one", "하나")], options={"header": False}
    ),
    "three columns": Case(
        "a.tsv",
        "Go.\tGeh.\tCC-BY 2.0\n",
        error="{file}, line 1: 3 columns, expected source<TAB>target: 'Go. | Geh. | CC-BY 2.0'. Choose two "
        "columns, as in --source-column 1 --target-column 2",
    ),
    "three columns, by number": Case(
        "a.tsv", "one\t하나\tx\ntwo\t둘\ty\n", TWO, flags={"source_column": "1", "target_column": "2"}
    ),
    "commas without a header": Case("a.csv", "one,하나\ntwo,둘\n", TWO, says="separated by commas, no header"),
    "two columns of another name": Case("a.csv", "en,ko\none,하나\ntwo,둘\n", TWO, says="header 'en | ko'"),
    "Excel": Case("a.xlsx", workbook(("A", [["English", "Korean"], *map(list, TWO)])), TWO),
    "Excel without a header": Case("a.xlsx", workbook(("A", [*map(list, TWO)])), TWO, says="no header"),
    "Parquet": Case("a.parquet", parquet(en=["one", "two"], ko=["하나", "둘"]), TWO),
    "a JSON list": Case(
        "a.json", json.dumps([{"source": "one", "target": "하나"}, {"source": "two", "target": "둘"}]), TWO
    ),
    "an empty line between": Case("a.tsv", "one\t하나\n\ntwo\t둘\n\n", TWO, says=", 1 blank row skipped"),
    "CP949": Case(
        "a.tsv", "one apple\t사과 하나\ntwo\t둘\n", [("one apple", "사과 하나"), ("two", "둘")], encoding="cp949"
    ),
    "no tab anywhere": Case(
        "a.txt",
        "one, two\nthree, four\n",
        error="{file}, line 1: 1 column, expected source<TAB>target: 'one, two'. Complete the line, or set "
        "another delimiter with --delimiter",
    ),
}


@each(PAIRS)
def test_pairs(case: Case, packed: bool, tmp_path: Path) -> None:
    def read(path: Path, **flags: Any) -> tuple[Any, str]:
        found = read_pairs(path, **flags)
        return [(pair.source, pair.target) for pair in found], found.written

    check(case, tmp_path, read, packed)


XY = [("x", (1.5, 2.0)), ("y", (0.5, 3.0))]
SERIES = {
    "the archive": Case("a.tsv", "x\t1.5\t2\ny\t5e-1\t3\n", XY, says="no header"),
    "decimal commas": Case(
        "a.csv",
        "label;t0;t1\nup;1,5;2\ndown;-0,25;1.234,5\n",
        [("up", (1.5, 2.0)), ("down", (-0.25, 1234.5))],
        says="separated by semicolons, decimal commas, header",
    ),
    "decimal commas without a header": Case("a.csv", "x;1,5;2,0\ny;0,5;3,0\n", XY),
    "decimal commas from Excel": Case("a.txt", "label\ta\tb\nx\t1,5\t2\ny\t0,5\t3\n", XY, encoding="utf-16"),
    "commas and points": Case(
        "a.csv",
        "label;t0\nup;1,5\ndown;1.5\n",
        error="{file}, line 2, column 't0': '1,5' is not a number. Fill it, or leave the row out",
    ),
    "a delimiter at the end": Case("a.csv", "x;1,5;2,0;\ny;0,5;3,0;\n", XY),
    "a header without the label": Case(
        "a.csv",
        "kind,t0,t1\nup,1,2\ndown,2,1\nup,2,3\n",
        error="{file} has a header, but no column called 'label'; choose from kind, t0, t1. Give the label "
        "column with --label-column. Use --no-header if the first row is an example",
    ),
    "Excel": Case("a.xlsx", workbook(("A", [["label", "a", "b"], ["x", 1.5, 2], ["y", 0.5, 3]])), XY),
    "Parquet": Case("a.parquet", parquet(a=[1.5, 0.5], label=["x", "y"], b=[2, 3]), XY),
    "Parquet from pandas, numbers beside a missing one": Case(
        "a.parquet",
        parquet(a=[1.5, 0.5], label=[1.0, None]),
        error="{file}, row 2: the label is empty, expected a class name or number",
    ),
    "JSON without a label": Case(
        "a.jsonl",
        '{"label": "x", "a": 1.5}\n{"label": null, "a": 0.5}\n',
        error="{file}, line 2: the label is empty, expected a class name or number",
    ),
}


@each(SERIES)
def test_labelled_series(case: Case, packed: bool, tmp_path: Path) -> None:
    def read(path: Path, **flags: Any) -> tuple[Any, str]:
        found = read_labeled_series(path, **flags)
        return [(example.labels[0], example.values) for example in found], found.written

    check(case, tmp_path, read, packed)


NOVEL = "« L’été, dit-il, c’était déjà fini. »\n"
TEXTS = {
    "Notepad, UTF-8": Case("a.txt", "\ufeff한 줄\r\n두 줄\r\n", "한 줄\r\n두 줄\r\n", says="UTF-8 text"),
    "Notepad, ANSI in Korea": Case("a.txt", "안녕하세요\n", "안녕하세요\n", encoding="cp949", says="CP949"),
    "Notepad, Unicode": Case("a.txt", "안녕하세요\r\n", "안녕하세요\r\n", encoding="utf-16", says="UTF-16 text"),
    "a French novel": Case("a.txt", NOVEL, NOVEL, encoding="cp1252", says="CP1252 (guessed from 'été'"),
    "an old Mac": Case("a.txt", "one\rtwo\r", "one\ntwo\n", says="old Mac line ends"),
    "Word": Case(
        "a.docx",
        b"PK\x03\x04",
        error="{file} is a Word document. Save it as plain text (.txt): in Word, File > Save As",
    ),
    "a column of a workbook": Case("a.xlsx", workbook(("A", [["id", "text"], [1, "one"], [2, "two"]])), "onetwo"),
    "no such column": Case(
        "a.csv",
        "id,body\n1,one\n",
        error="{file}, line 2 has the columns id, body, but none called 'text'. Choose with --text-column",
    ),
}


@each(TEXTS)
def test_running_text(case: Case, packed: bool, tmp_path: Path) -> None:
    def read(path: Path, options: TableOptions) -> tuple[Any, str]:
        form = document_format(path, options=options)
        return "".join(piece.text for piece in stream_documents(path, options=options)), form

    check(case, tmp_path, read, packed)


def test_a_folder_stands_for_the_texts_in_it(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", "deep/er/c.txt", "d.pdf", ".hidden.txt", ".git/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    files, others = text_files([tmp_path, Path("f.txt")])
    assert [str(file.relative_to(tmp_path)) if file.is_absolute() else str(file) for file in files] == [
        *("a.md", "b.txt", "deep/er/c.txt", "f.txt")
    ]
    assert [file.name for file in others] == ["d.pdf"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty is a folder without texts: expected files ending in \.txt or \.md"):
        text_files([tmp_path / "empty"])


def test_labels_that_may_be_meant_as_one() -> None:
    assert label_hints(["Positive"] * 3 + ["positive"] * 2) == [
        "'Positive' and 'positive' differ only by case or spaces, and count as 2 classes. If they are "
        "one class, write them the same way"
    ]
    assert len(label_hints(["Positive", "positive", "neg ative", "negative"])) == 2
    assert label_hints(["a", "b"] * 5) == []
    (missing,) = label_hints(["a", "b", "nan"])
    assert missing.startswith("1 example has the label 'nan'")
    (imbalance,) = label_hints(["ham"] * 50 + ["spam"] * 5)
    assert imbalance.startswith("strong imbalance: 50 of 'ham' and 5 of 'spam'. Judge by macro F1")
