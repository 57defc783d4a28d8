"""Pairs from every kind of file."""

import gzip
from pathlib import Path

import pytest
from helpers.shared import shared

from glassformer.data.pairs import TextPair, read_pairs
from glassformer.errors import InputError

EXPECTED = [TextPair("one", "eins"), TextPair("two", "zwei")]


def test_every_kind_of_file_gives_the_same_pairs(tmp_path: Path) -> None:
    files = {
        "a.csv": "source,target\none,eins\ntwo,zwei\n",
        "b.csv": "id,document,summary\n1,one,eins\n2,two,zwei\n",
        "c.jsonl": '{"source": "one", "target": "eins"}\n{"source": "two", "target": "zwei"}\n',
        "d.jsonl": '{"translation": {"en": "one", "de": "eins"}}\n{"translation": {"de": "zwei", "en": "two"}}\n',
        "e.tsv": "one\teins\ntwo\tzwei\n",
        "f.txt": "one\teins\ntwo\tzwei\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        assert list(read_pairs(tmp_path / name)) == list(read_pairs(tmp_path / f"{name}.gz")) == EXPECTED, name
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    (tmp_path / "a.de").write_bytes(b"eins\nzwei\n")
    assert list(read_pairs(tmp_path / "a.en.gz", tmp_path / "a.de")) == EXPECTED


def test_columns_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\ten\tde\n1\tone\teins\n2\ttwo\tzwei\n", encoding="utf-8")
    assert list(read_pairs(tmp_path / "a.tsv", source_column="en", target_column="de")) == EXPECTED
    (tmp_path / "a.jsonl").write_text(
        '{"translation": {"fr": "un", "de": "eins", "en": "one"}}\n{"translation": {"de": "zwei", "en": "two"}}\n',
        encoding="utf-8",
    )
    assert list(read_pairs(tmp_path / "a.jsonl", source_column="en", target_column="de")) == EXPECTED
    with pytest.raises(InputError, match=r"line 2 has the columns de, en, but none called 'fr'"):
        read_pairs(tmp_path / "a.jsonl", source_column="en", target_column="fr")
    with pytest.raises(InputError, match=r"line 1: translation has the languages fr, de, en\. Choose two"):
        read_pairs(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="Give both or neither"):
        read_pairs(tmp_path / "a.tsv", source_column="en")
    with pytest.raises(
        InputError, match=r"a\.tsv has the columns id, en, de, but none called 'dee': did you mean 'de'"
    ):
        read_pairs(tmp_path / "a.tsv", source_column="en", target_column="dee")
    (tmp_path / "b.csv").write_text("id,en,de\n1,one,eins\n2,two,zwei\n3,three,drei\n", encoding="utf-8")
    with pytest.raises(
        InputError,
        match=r"b\.csv has the columns id, en, de: expected source and target, or document and summary. Choose two "
        "with --source-column and --target-column",
    ):
        read_pairs(tmp_path / "b.csv")


def test_an_empty_side_is_named_or_counted(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\n \ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\nleer\nzwei\n\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.en, line 2: the source is empty \(paired with 'leer'\)"):
        read_pairs(tmp_path / "a.en", tmp_path / "a.de")
    pairs = read_pairs(tmp_path / "a.en", tmp_path / "a.de", skip_empty=True)
    assert (list(pairs), pairs.lines, pairs.left_out) == (EXPECTED, [1, 3], [2, 4])
    (tmp_path / "b.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "b.de").write_text("eins\n\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.de, line 2: the target is empty"):
        read_pairs(tmp_path / "b.en", tmp_path / "b.de")
    (tmp_path / "c.tsv").write_text("\t\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"c\.tsv is empty: expected a table with at least one row"):
        read_pairs(tmp_path / "c.tsv", skip_empty=True)
    (tmp_path / "d.tsv").write_text("one\t\n\teins\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"d\.tsv: all 2 examples are empty"):
        read_pairs(tmp_path / "d.tsv", skip_empty=True)


def test_multi30k() -> None:
    pairs = read_pairs(shared("multi30k/val.en"), shared("multi30k/val.de"))
    assert len(pairs) == 1014
    assert pairs[0].source == "A group of men are loading cotton onto a truck"


def test_pairs_from_one_file_and_from_two(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("one\t하나\ntwo\t둘\n", encoding="utf-8")
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "a.ko").write_text("하나\n둘\n", encoding="utf-8")
    expected = [TextPair("one", "하나"), TextPair("two", "둘")]
    assert list(read_pairs(tmp_path / "pairs.tsv")) == expected
    assert list(read_pairs(tmp_path / "a.en", tmp_path / "a.ko")) == expected


def test_files_that_cannot_be_used_are_named_with_line_and_value(tmp_path: Path) -> None:
    (tmp_path / "three.tsv").write_text("one\t하나\nno tab here\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"three\.tsv, line 2: 1 column, expected source<TAB>target: 'no tab here'"):
        read_pairs(tmp_path / "three.tsv")
    (tmp_path / "korean.tsv").write_bytes(b"one\thana\n" + "둘\ttwo".encode("cp949"))
    with pytest.raises(InputError, match=r"korean\.tsv, line 2: byte 0xb5 is not UTF-8"):
        read_pairs(tmp_path / "korean.tsv")
    (tmp_path / "empty.tsv").touch()
    with pytest.raises(InputError, match=r"empty\.tsv is empty"):
        read_pairs(tmp_path / "empty.tsv")
    with pytest.raises(InputError, match=r"nowhere\.tsv: there is no such file"):
        read_pairs(tmp_path / "nowhere.tsv")
    (tmp_path / "long.en").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "short.ko").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"long\.en has 2 lines, but .*short\.ko has 1: they must be aligned"):
        read_pairs(tmp_path / "long.en", tmp_path / "short.ko")
    with pytest.raises(InputError, match="is a folder"):
        read_pairs(tmp_path)
