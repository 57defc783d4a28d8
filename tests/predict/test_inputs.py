"""Lines, files and columns become inputs of a model, and inputs are shown again."""

from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.predict.inputs import check_source, stream_inputs
from glassformer.predict.show import as_text


def test_nothing_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(InputError, match='no text was given: write it behind the run, as in glassformer predict RUN "'):
        check_source([], None, [])


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match=r"empty\.txt is empty: expected one example per line"):
        list(stream_inputs("lm", file=tmp_path / "empty.txt"))


def test_two_columns_of_texts_for_a_model_that_reads_one(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2\na,b\n", encoding="utf-8")
    assert list(stream_inputs("classify", file=tmp_path / "pairs.csv")) == [("a", "b")]
    with pytest.raises(InputError, match="has the texts sentence1 and sentence2, and this model reads one"):
        list(stream_inputs("lm", file=tmp_path / "pairs.csv"))


def test_an_input_as_it_stands_beside_its_answer() -> None:
    assert as_text(("one", "two")) == "one | two"
    assert as_text([1.0, 2.5]) == "1, 2.5"
    assert as_text("one") == "one"
