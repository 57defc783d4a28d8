"""The verb `predict`: options, tables and columns, early answers, and progress on a terminal."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.command import lines, python, run
from helpers.head_checkpoints import (
    TEXTS,
    bert,
    llama,
)
from helpers.tiny_models import make

from glassformer.generation.kernels import load_kernels


def bad_options() -> dict[str, tuple[list[str], str]]:
    return {
        "chat": (["--chat"], "--chat needs a model that continues texts; this model classifies texts"),
        "question": (["--question", "why?"], "--question needs a model that answers questions"),
        "sampling": (["--top-k", "3"], "--top-k needs a model that translates texts, continues texts"),
        "language": (["--target-language", "ko"], "--target-language needs a model that translates texts"),
        "both": (["--do-sample", "--greedy"], "--do-sample and --greedy were both given: choose one"),
        "device": (["--device", "abacus"], "--device abacus cannot be used on this machine"),
        "long": (["word " * 100], "tokens: expected at most 64. Shorten it"),
    }


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert(tmp_path_factory.mktemp("classifier"), "ForSequenceClassification")


@pytest.mark.parametrize("name", bad_options())
def test_bad_input_is_one_clear_sentence(name: str, classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, message = bad_options()[name]
    assert run("predict", classifier, "hello", *flags) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_columns_of_a_table(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.csv").write_text('id,text,other\n1,"Hello, world",a\n2,how are you,b\n', encoding="utf-8")
    for flags, expected in (([], ["Hello, world", "how are you"]), (["--text-columns", "other"], ["a", "b"])):
        assert run("predict", classifier, "--file", tmp_path / "texts.csv", *flags, "--json") == 0
        assert [row["input"] for row in lines(capsys)] == expected
    (tmp_path / "table.tsv").write_text("text\tlabel\nHello\tx\n", encoding="utf-8")
    assert run("predict", classifier, "--file", tmp_path / "table.tsv", "--text-columns", "text", "--json") == 0
    assert [row["input"] for row in lines(capsys)] == ["Hello"]
    (tmp_path / "numbers.jsonl").write_text('{"text": "one"}\n{"text": 2}\n', encoding="utf-8")
    for flags, message in (
        ([tmp_path / "texts.csv", "--text-columns", "txt"], "none called 'txt': did you mean 'text'?"),
        ([tmp_path / "numbers.jsonl"], "numbers.jsonl, line 2: text is 2, expected a text in quotes"),
        ([tmp_path / "none.txt"], "none.txt: there is no such file"),
    ):
        assert run("predict", classifier, "--file", *flags) == 2
        assert message in capsys.readouterr().err
    assert run("predict", classifier, "a\tb\tc") == 2
    assert "input 1 has 2 tabs: expected a text, or two texts with one tab" in capsys.readouterr().err
    assert run("predict", classifier, "a", "--text-columns", "text") == 2
    assert "--text-columns names columns of a table" in capsys.readouterr().err
    assert run("predict", classifier, "a", "--picture", tmp_path / "out.png") == 2
    assert "--picture needs a model that forecasts series" in capsys.readouterr().err
    assert run("predict", classifier, "a", "b\tc") == 2
    assert "input 2 is ('b', 'c'), and the first is 'a'" in capsys.readouterr().err


def test_answers_come_early_in_order_and_in_bounded_memory(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.predict import judging
    from glassformer.verbs import predict

    sizes: list[int] = []
    original = judging.in_batches

    def in_batches(model: Any, texts: Any, *rest: Any) -> Any:
        sizes.append(len(texts))
        return original(model, texts, *rest)

    monkeypatch.setattr(judging, "in_batches", in_batches)
    monkeypatch.setattr(predict, "INPUT_CHUNK", 3)
    monkeypatch.setattr("glassformer.data.files.BLOCK", 64)  # errors in the first block are reported at once
    texts = [f"{'word ' * (7 - i)}{i}" for i in range(7)]
    (tmp_path / "many.txt").write_bytes("\r\n".join(texts).encode() + b"\r\n\xff\r\n")
    assert run("predict", classifier, "--file", tmp_path / "many.txt", "--json") == 2
    shown = capsys.readouterr()
    assert [json.loads(line)["input"] for line in shown.out.splitlines()] == texts[:6]
    assert "many.txt, line 8: byte 0xff is not UTF-8" in shown.err
    assert sizes == [3, 3]


def test_chunks_are_not_drawn_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.verbs import predict

    monkeypatch.setattr(predict, "INPUT_CHUNK", 1)
    flags = ["--max-new-tokens=9", "--do-sample", "--temperature=2", "--seed=3", "--json"]
    assert run("predict", llama(tmp_path), "Hello", "Hello", *flags) == 0
    first, second = (row["output"] for row in lines(capsys))
    assert first != second


def test_a_terminal_is_told_how_much_is_done_and_nothing_else_is(
    classifier: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from glassformer.verbs import predict

    assert run("predict", classifier, *TEXTS) == 0
    quiet = capsys.readouterr()
    assert not quiet.err
    terminal = io.StringIO()
    monkeypatch.setattr(predict, "Console", lambda **_: Console(file=terminal, force_terminal=True, width=80))
    assert run("predict", classifier, *TEXTS) == 0
    shown = capsys.readouterr()
    assert f"{len(TEXTS)} done" in terminal.getvalue()
    assert shown.out == quiet.out
    assert not shown.err


@pytest.fixture(scope="module")
def kernels() -> None:
    """Compiled before the tests that compare messages: compiling takes seconds, and that is announced."""
    load_kernels()


@pytest.mark.usefixtures("kernels")
def test_the_engine_is_named_and_the_answers_are_the_same(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("predict", classifier, *TEXTS, "--engine", "off") == 0
    plain = capsys.readouterr()
    assert not plain.err
    assert run("predict", classifier, *TEXTS, "--engine", "on") == 0
    shown = capsys.readouterr()
    assert shown.out == plain.out
    assert shown.err == "engine: compiled (float32)\n"
    assert run("predict", classifier, *TEXTS, "--engine", "on", "--json") == 0
    assert not capsys.readouterr().err
    assert run("predict", classifier, *TEXTS, "--engine", "fast") == 2
    assert "--engine fast: expected one of auto, off, on" in capsys.readouterr().err


@pytest.mark.usefixtures("kernels")
def test_a_forecast_by_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path / "model", "series")
    rows = [f"2026-01-01 {hour // 60:02}:{hour % 60:02},{hour % 7}" for hour in range(60)]
    (tmp_path / "load.csv").write_text("\n".join(["date,load", *rows]), encoding="utf-8")
    shown = {}
    for use in ("off", "on"):
        assert run("predict", folder, tmp_path / "load.csv", "--engine", use) == 0
        shown[use] = capsys.readouterr()
    off, on = ([line.split(",") for line in shown[use].out.splitlines()] for use in ("off", "on"))
    assert [row[0] for row in on] == [row[0] for row in off]
    assert [float(row[1]) for row in on[1:]] == pytest.approx([float(row[1]) for row in off[1:]], rel=1e-4)
    assert shown["on"].err == "engine: compiled (float32)\n"


@pytest.mark.slow
def test_a_text_by_the_compiled_engine(tmp_path: Path) -> None:
    import glassformer as gf
    from glassformer.generation.choose_engine import step_ready

    folder = make(tmp_path / "model", "decoder", d_ff=48)
    call = ["-m", "glassformer", "predict", folder, *TEXTS, "--greedy", "--max-new-tokens=20", "--engine"]
    errors = tmp_path / "errors.txt"
    with errors.open("w") as file:
        assert python(*call, "on", stderr=file) == python(*call, "off", stderr=file)
    assert errors.read_text().splitlines()[-1] == "engine: compiled (float32)"
    assert step_ready(gf.load(folder)), "the next call compiles nothing"
