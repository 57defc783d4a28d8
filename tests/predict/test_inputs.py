"""Lines, files and columns become inputs of a model, and inputs are printed."""

import json
import os
from pathlib import Path
from threading import Thread

import pytest

from glassformer.data.formats.table import TableOptions, TrainingFlags
from glassformer.errors import InputError
from glassformer.io import checksum, write_json
from glassformer.predict.bulk.rows import checksum_of
from glassformer.predict.inputs import RememberedFormat, check_source, remembered_format, stream_inputs
from glassformer.predict.show import as_text


def test_nothing_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(InputError, match=r'no text given\. Put it after the run: glassformer predict RUN "'):
        check_source([], None, [])


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match=r"empty\.txt is empty: expected one example per line"):
        list(stream_inputs("lm", file=tmp_path / "empty.txt"))


def test_two_columns_of_texts_for_a_model_that_reads_one(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2\na,b\n", encoding="utf-8")
    assert list(stream_inputs("classify", file=tmp_path / "pairs.csv")) == [("a", "b")]
    with pytest.raises(InputError, match="has the text columns sentence1 and sentence2, and this model reads one"):
        list(stream_inputs("lm", file=tmp_path / "pairs.csv"))


def test_an_input_as_it_stands_beside_its_answer() -> None:
    assert as_text(("one", "two")) == "one | two"
    assert as_text([1.0, 2.5]) == "1, 2.5"
    assert as_text("one") == "one"


def inputs_of(
    task: str, file: Path, *columns: str, memory: RememberedFormat | None = None
) -> tuple[list[object], list[str]]:
    told: list[str] = []
    found = list(
        stream_inputs(task, file=file, text_columns=columns, memory=memory or RememberedFormat(), tell=told.append)
    )
    return found, told


def test_a_file_with_tabs_is_a_table_if_it_has_a_header(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("id\tdocument\tlabel\n1\tgood\t1\n2\tbad\t0\n", encoding="utf-8")
    assert inputs_of("classify", file) == (["good", "bad"], [])
    file.write_text("It rains\tIt is wet\n", encoding="utf-8")
    assert inputs_of("classify", file) == ([("It rains", "It is wet")], []), "two texts in a line"
    assert inputs_of("classify", file, memory=RememberedFormat(TableOptions(header=False)))[0] == [
        ("It rains", "It is wet")
    ]
    (found, (said,)) = inputs_of("translate", file)
    assert found == ["It rains"], "of pairs, the source"
    assert said.endswith("--header if it names the columns, texts from '1'")
    (tmp_path / "a.txt").write_text("Text\nmore, of it\n", encoding="utf-8")
    assert inputs_of("lm", tmp_path / "a.txt") == (["Text", "more, of it"], []), "lines are lines"


def test_what_was_guessed_of_a_table_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("text;id\n정말 좋아요;1\n".encode("cp949"))
    found, (said,) = inputs_of("classify", file)
    assert found == ["정말 좋아요"]
    assert said == (
        f"{file} was read as CP949 (guessed from '정말'; choose another with --encoding), separated by semicolons, "
        "header 'text | id', texts from 'text'"
    )
    file.write_text("good film\nbad film\n", encoding="utf-8")
    with pytest.raises(InputError, match="Use --no-header if the first row is an example"):
        inputs_of("classify", file)
    assert inputs_of("classify", file, memory=RememberedFormat(TableOptions(header=False)))[0] == [
        "good film",
        "bad film",
    ]


def test_series_of_a_table_are_read_as_in_training(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t0;kind;t1\n1,5;up;2\n-0,5;down;3\n", encoding="utf-8")
    assert inputs_of("series", file, memory=RememberedFormat(label_column="kind"))[0] == [[1.5, 2.0], [-0.5, 3.0]]
    file.write_text("1.5, 2\n-0.5, 3\n", encoding="utf-8")
    assert inputs_of("series", file)[0] == [[1.5, 2.0], [-0.5, 3.0]]
    tabs = tmp_path / "a.tsv"
    tabs.write_text("label\tt0\tt1\nup\t1,5\t2\n", encoding="utf-8")
    assert inputs_of("series", tabs)[0] == [[1.5, 2.0]]
    tabs.write_text("1.5 2\n", encoding="utf-8")
    assert inputs_of("series", tabs)[0] == [[1.5, 2.0]], "a line with spaces"
    file.write_text("1.5, two\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.csv, line 1: ' ?two' is not a number"):
        inputs_of("series", file)


def test_a_pipe_is_read_once_and_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_text("one\ntwo\n" * 1000, encoding="utf-8"))
    writer.start()
    assert inputs_of("lm", pipe)[0] == ["one", "two"] * 1000
    writer.join()


def test_the_limit_of_a_line_is_that_of_the_training_unless_a_flag_says_another(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"task": "classify", "settings": {"max_line_mb": 50, "header": False}})
    assert remembered_format(tmp_path, TableOptions()).options.max_line_mb == 50
    assert remembered_format(tmp_path, TableOptions(max_line_mb=3)).options.max_line_mb == 3
    write_json(tmp_path / "run.json", {"task": "classify", "settings": {}})
    assert remembered_format(tmp_path, TableOptions()).options.longest == 16_000_000
    (tmp_path / "long.txt").write_bytes(b"x" * 2_000_000)
    with pytest.raises(InputError, match=r"line 1: a line of 2 MB, expected at most 1 MB.* --max-line-mb 4"):
        list(stream_inputs("lm", file=tmp_path / "long.txt", memory=RememberedFormat(TableOptions(max_line_mb=1))))


def test_the_checksum_of_a_pipe_is_that_of_what_came_through_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "same.csv").write_text("text\none\n", encoding="utf-8")
    writer = Thread(target=lambda: (tmp_path / "pipe.csv").write_text("text\none\n", encoding="utf-8"))
    writer.start()
    assert list(stream_inputs("lm", file=tmp_path / "pipe.csv")) == ["one"]
    writer.join()
    assert checksum_of(tmp_path / "pipe.csv") == checksum(tmp_path / "same.csv")


def test_images_of_a_table_are_found_as_in_training(tmp_path: Path) -> None:
    """The column of the training wins over a usual name, and paths may have the backslashes of Windows."""
    (tmp_path / "crops").mkdir()
    (tmp_path / "crops" / "1.png").touch()
    table = tmp_path / "a.csv"
    table.write_text("image,crop\nwhole.png,crops\\1.png\n", encoding="utf-8")
    assert inputs_of("images", table, memory=RememberedFormat(columns=("crop",)))[0] == [
        str(tmp_path / "crops" / "1.png")
    ]
    assert inputs_of("images", table)[0] == [str(tmp_path / "whole.png")]


def test_a_run_remembers_its_column_of_images_and_its_flags(tmp_path: Path) -> None:
    settings = {"data": "/a.tsv", "image_column": "crop", "header": False, "quotes": False, "encoding": "cp949"}
    (tmp_path / "run.json").write_text(json.dumps({"task": "images", "settings": settings}), encoding="utf-8")
    memory = remembered_format(tmp_path, TableOptions())
    assert memory.columns == ("crop",)
    assert memory.options.header is False
    assert memory.options.trained == TrainingFlags(quotes=False, encoding="cp949", kinds=("tsv",))
