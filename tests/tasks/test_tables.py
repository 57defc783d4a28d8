"""User tables from training to eval and predict: the header, the description of the data, skipped rows."""

import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from helpers.command import run

from glassformer.tasks.classify import Classify
from glassformer.tasks.lm import LanguageModel
from glassformer.tasks.mlm import MaskedLanguageModel
from glassformer.tasks.settings import ClassifySettings, LmSettings, MlmSettings, TranslateSettings
from glassformer.tasks.translate import Translate

SIZES = {"d_model": 16, "num_layers": 1, "num_heads": 2}
TINY = ["--steps=2", "--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-tokens=256", "--vocab-size=100"]
PAIRS = [f"{n} apples\t사과 {n}개" for n in range(60)]


def write(file: Path, lines: list[str], encoding: str = "utf-8") -> Path:
    file.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return file


def classify(tmp_path: Path, data: Path, **changes: Any) -> Classify:
    values = {"out": str(tmp_path / "run"), "data": str(data), "vocab_size": 100, **SIZES, **changes}
    return Classify(ClassifySettings.from_dict(values))


def test_a_header_is_no_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = write(tmp_path / "pairs.tsv", ["en\tko", *PAIRS]), tmp_path / "run"
    assert run("train", "translate", "--data", data, "--out", out, *TINY) == 0
    said = capsys.readouterr().out
    assert "57 pairs to train on, 3 held out" in said
    assert "format  UTF-8, separated by tabs, header 'en | ko'; --no-header if it is an example; source is 'en'" in said
    assert json.loads((out / "run.json").read_text())["columns"] == ["en", "ko"]
    assert run("eval", out, "--data", data, "--json") == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["count"] == 60
    assert "was read as UTF-8, separated by tabs, header 'en | ko'" in scored["notes"][0]

    workbook = openpyxl.Workbook()
    for row in (["id", "ko", "en"], [1, "사과 3개", "3 apples"], [2, "사과 4개", "4 apples"]):
        workbook.active.append(row)
    workbook.save(tmp_path / "new.xlsx")
    for file in (write(tmp_path / "new.tsv", ["en\tko", "3 apples\t?", "4 apples\t?"]), tmp_path / "new.xlsx"):
        assert run("predict", out, "--file", file, "--json", "--max-new-tokens=2") == 0
        inputs = [json.loads(line)["input"] for line in capsys.readouterr().out.splitlines()]
        assert inputs == ["3 apples", "4 apples"], "the source, by its name in training"


def test_what_a_flag_says_of_the_header_is_remembered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = write(tmp_path / "pairs.tsv", ["en\tko", *PAIRS]), tmp_path / "run"
    assert run("train", "translate", "--data", data, "--no-header", "--out", out, *TINY) == 0
    said = capsys.readouterr().out
    assert "58 pairs to train on, 3 held out" in said
    assert "no header (--no-header)" in said
    assert json.loads((out / "run.json").read_text())["settings"]["header"] is False
    for words, count in (((), 61), (("--header",), 60)):
        assert run("eval", out, "--data", data, "--json", *words) == 0
        assert json.loads(capsys.readouterr().out)["count"] == count
        assert run("predict", out, "--file", data, "--json", "--max-new-tokens=2", *words) == (2 if words else 0)
        shown = capsys.readouterr()
        assert len(shown.out.splitlines()) == (0 if words else 61)
    assert "has the columns en, ko: expected one of text" in shown.err
    assert run("train", "translate", "--out", out, "--resume", "--steps=3") == 0


def test_an_encoding_is_of_a_file_and_not_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["text,label", *(f"хороший {i},{'да' if i % 2 else 'нет'}" for i in range(40))]
    data, out = write(tmp_path / "ru.csv", rows, "cp1251"), tmp_path / "run"
    assert run("train", "classify", "--data", data, "--out", out, *TINY) == 2
    assert "byte 0xf5 is not UTF-8, and no other encoding is certain" in capsys.readouterr().err
    assert run("train", "classify", "--data", data, "--out", out, "--encoding=cp1251", *TINY) == 0
    assert "format  cp1251 (--encoding), separated by commas, header 'text | label'" in capsys.readouterr().out
    assert run("eval", out) == 0
    capsys.readouterr()
    assert run("eval", out, "--data", write(tmp_path / "new.csv", rows), "--json") == 0, "in UTF-8"
    assert json.loads(capsys.readouterr().out)["count"] == 40
    assert run("eval", out, "--data", data, "--encoding=cp1251") == 0
    assert run("predict", out, "--file", data, "--encoding=cp1251") == 0
    assert "хороший 1" not in capsys.readouterr().err


def test_examples_that_are_in_several_files_are_told(tmp_path: Path) -> None:
    rows = [f"word {i},{'x' if i % 2 else 'y'}" for i in range(40)]
    data = write(tmp_path / "data.csv", ["text,label", *rows])
    valid = write(tmp_path / "valid.csv", ["text,label", *rows[:3], "new one,x"])
    test = write(tmp_path / "test.csv", ["text,label", *rows[2:4], "newer one,y"])
    task = classify(tmp_path, data, valid=str(valid), test=str(test))
    shared = (
        "3 of the 4 validation examples are also in the training examples; 2 of the 3 test examples are also in the "
        "training examples; 1 of the 3 test examples are also in the validation examples"
    )
    assert task.describe()["data"].endswith(f"; {shared}")
    assert shared in task.evaluate().notes
    assert not classify(tmp_path, data).shared, "what was split off is on one side"
    pairs = write(tmp_path / "pairs.tsv", PAIRS)
    some = write(tmp_path / "some.tsv", [*PAIRS[:2], "3 pears\t배 3개"])
    settings = {"data": [str(pairs)], "test": [str(some)], "vocab_size": 100, "out": str(tmp_path / "run"), **SIZES}
    described = Translate(TranslateSettings.from_dict(settings)).describe()
    assert described["data"].endswith("; 2 of the 3 test sources are also in the training sources")


def test_labels_and_what_they_may_mean_are_told(tmp_path: Path) -> None:
    rows = [f"text {i},{'positive' if i % 20 else 'Positive'}" for i in range(60)]
    task = classify(tmp_path, write(tmp_path / "data.csv", ["text,label", *rows]))
    said = task.describe()["labels"]
    assert said.startswith("'positive' and 'Positive' differ only by case or spaces")
    assert "; strong imbalance: 5" in said
    assert "2 of 'Positive'. Judge by macro F1 rather than accuracy" in said
    even = [f"text {i},{'ab'[i % 2]}" for i in range(60)]
    assert "labels" not in classify(tmp_path, write(tmp_path / "data.csv", ["text,label", *even])).describe()


def test_a_baseline_that_is_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"text {i},{'ab'[i % 2]}" for i in range(60)]
    task = classify(tmp_path, write(tmp_path / "data.csv", ["text,label", *rows]))
    monkeypatch.setattr("glassformer.tasks.classify.MAX_BASELINE_EXAMPLES", 50)
    assert task.evaluate().notes == [
        "no bag-of-words baseline: 54 training examples are more than 50, which would take too long"
    ]
    several = [f"text {i},{'a|b' if i % 2 else 'a'}" for i in range(60)]
    task = classify(tmp_path, write(tmp_path / "data.csv", ["text,label", *several]), label_separator="|")
    assert "examples here have several labels" in task.evaluate().notes[0]
    text = write(tmp_path / "text.txt", [f"line {i} of a text that goes on" for i in range(99)])
    small = {"out": str(tmp_path / "lm"), "data": [str(text)], "vocab_size": 300, "context": 16, "sample": 0, **SIZES}
    model = LanguageModel(LmSettings.from_dict(small))
    monkeypatch.setattr("glassformer.tasks.lm.MAX_NGRAM_BYTES", 1000)
    scores = model.evaluate()
    assert not scores.baselines
    assert scores.notes[-1].startswith("no 5-gram baseline: 2,784 bytes")
    small = {name: value for name, value in small.items() if name != "sample"} | {"out": str(tmp_path / "mlm")}
    monkeypatch.setattr("glassformer.tasks.mlm.MAX_FREQUENCY_TOKENS", 100)
    filler = MaskedLanguageModel(MlmSettings.from_dict(small))
    assert filler.evaluate().notes[-1] == "token frequencies are counted on the first 100 training tokens"


def test_a_folder_of_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    for i in range(4):
        write(folder / f"{i}.txt", [f"This is the text number {i}, and it goes on for some words. " * 4])
    write(folder / "more" / "korean.md", ["안녕하세요, 세계. 좋은 아침입니다. " * 9], "cp949")
    write(folder / "notes.pdf", ["no text"])
    test = write(tmp_path / "test.txt", [f"This is the text number {3}, and it goes on for some words. " * 4])
    out = tmp_path / "run"
    words = ["--data", folder, "--test", test, "--context=16", "--vocab-size=300", "--out", out, "--sample=0"]
    assert run("train", "lm", *words, "--steps=2", "--d-model=16", "--num-layers=1", "--batch-tokens=64") == 0
    said = capsys.readouterr().out
    assert "; 1 other file in the folder not read; 1 of the 1 test documents are also in the training text" in said
    assert "format  0.txt, 1.txt, 2.txt, 2 more: UTF-8 text; korean.md: CP949 (guessed from '안녕하세요'" in said
    assert "packed from 5 documents" in said
    assert run("eval", out, "--data", folder, "--json") == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["count"] > 500
    assert any(note.startswith("read as 0.txt, 1.txt") and "CP949" in note for note in scored["notes"])
