"""Labelled texts from tables."""

from pathlib import Path

import pytest
from helpers.shared import shared

from glassformer.data.texts import LabeledText, check_labels, label_names, read_labeled
from glassformer.errors import InputError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_usual_columns_are_found(tmp_path: Path) -> None:
    one = [LabeledText(("good",), ("1",)), LabeledText(("bad",), ("0",))]
    assert list(read_labeled(write(tmp_path / "a.csv", "text,label\ngood,1\nbad,0\n"))) == one
    assert list(read_labeled(write(tmp_path / "a.tsv", "label\tsentence\n1\tgood\n0\tbad\n"))) == one
    assert list(read_labeled(write(tmp_path / "b.tsv", "id\tdocument\tlabel\n9\tgood\t1\n8\tbad\t0\n"))) == one
    assert list(read_labeled(write(tmp_path / "a.jsonl", '{"text":"good","label":1}\n{"text":"bad","label":0}'))) == one
    assert (
        list(
            read_labeled(
                write(tmp_path / "c.csv", "review,stars\ngood,1\nbad,0\n"),
                text_columns=["review"],
                label_column="stars",
            )
        )
        == one
    )
    two = read_labeled(write(tmp_path / "d.csv", "sentence1,sentence2,label\nIt rains,It is wet,yes\n"))
    assert list(two) == [LabeledText(("It rains", "It is wet"), ("yes",))]


def test_several_labels(tmp_path: Path) -> None:
    cut = read_labeled(write(tmp_path / "a.csv", 'text,label\na,"x, y"\nb,\nc,y\n'), label_separator=",")
    assert [example.labels for example in cut] == [("x", "y"), (), ("y",)]
    listed = read_labeled(write(tmp_path / "a.jsonl", '{"text":"a","label":["x",2]}\n{"text":"b","label":[]}\n'))
    assert [example.labels for example in listed] == [("x", "2"), ()]
    with pytest.raises(InputError, match=r"b\.csv, line 2: the label 'x,x' names one class twice"):
        read_labeled(write(tmp_path / "b.csv", 'text,label\na,"x,x"\n'), label_separator=",")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,label\ngood,1\n,0\n", r"a\.csv, line 3: text is empty \(label '0'\)"),
        ("a.csv", "text,label\ngood,\n", r"a\.csv, line 2: the label is '', expected a class name"),
        ("a.jsonl", '{"text":"a","label":null}\n', r"a\.jsonl, line 1: the label is None, expected a class name"),
        ("a.jsonl", '{"text":"a","label":0.5}\n', r"a\.jsonl, line 1: the label is 0\.5, expected a class name"),
        ("a.csv", "text,lable\ngood,1\n", r"a\.csv has the columns text, lable, but none called 'label': did you mean"),
        (
            "a.csv",
            "review,label\ngood,1\n",
            r"a\.csv has the columns review, label: expected one of text, sentence1 and",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_labeled(write(tmp_path / name, text))


def test_names_are_sorted_as_numbers_or_as_words() -> None:
    def examples(*labels: str) -> list[LabeledText]:
        return [LabeledText(("a",), (label,)) for label in labels]

    assert label_names(examples("10", "9", "-1", "9")) == ["-1", "9", "10"]
    assert label_names(examples("10", "9", "x")) == ["10", "9", "x"]


def test_a_label_that_training_never_saw_is_named(tmp_path: Path) -> None:
    test = read_labeled(
        write(tmp_path / "test.csv", "text,label\n,positive\ngood,positive\nbad,negativ\n"), skip_empty=True
    )
    check_labels(test, ["negativ", "positive"])
    with pytest.raises(InputError, match=r"test\.csv, line 4: .* the label 'negativ': did you mean 'negative'\?"):
        check_labels(test, ["negative", "positive"])


def test_nsmc_without_its_empty_reviews() -> None:
    path = shared("nsmc/test.tsv.gz")
    with pytest.raises(InputError, match=r"test\.tsv\.gz, line \d+: document is empty"):
        read_labeled(path)
    examples = read_labeled(path, skip_empty=True)
    assert (len(examples), len(examples.left_out)) == (49_997, 3)
    assert label_names(examples) == ["0", "1"]
