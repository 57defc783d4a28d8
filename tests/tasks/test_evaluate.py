"""`eval` and `gf.evaluate`: scores a run again, on its held-out data and on other files."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import tiny_models
from helpers.command import run
from helpers.head_checkpoints import BART, LABELS, TEXTS, bert, make, theirs

import glassformer as gf
from glassformer.errors import InputError
from glassformer.figures.png import as_png
from glassformer.generation import choose_engine
from glassformer.generation.engine import EngineReader
from glassformer.generation.engine import engine as make_engine

PAIRS = [f"the number {i}\tdie Zahl {i}" for i in range(60)]
TINY = ["--steps=3", "--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-tokens=256", "--vocab-size=300"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "train.tsv").write_text("\n".join(PAIRS[:50]), encoding="utf-8")
    (folder / "test.tsv").write_text("\n".join(PAIRS[50:]), encoding="utf-8")
    (folder / "columns.csv").write_text("en,de\none,eins\ntwo,zwei\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "numbers"
    data = ["--data", files / "train.tsv", "--test", files / "test.tsv", "--valid-fraction=0.2"]
    assert run("train", "translate", "--out", out, *TINY, "--dropout=0.2", *data) == 0
    return out


def scores_of(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, object]:
    capsys.readouterr()
    assert run("eval", *words, "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    return dict(json.loads(line))


def test_a_run_gets_the_scores_it_had(trained: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = json.loads((trained / "run.json").read_text(encoding="utf-8"))["results"]
    before = {name: value for name, value in results.items() if name not in ("count", "train_seconds")}
    scored = scores_of(capsys, trained)
    assert scored["count"] == results["count"] == 10
    assert scored["metrics"] == pytest.approx(before, rel=1e-5)
    assert scored["unit"] == "pairs"
    again = scores_of(capsys, trained, "--data", files / "test.tsv")
    assert again["metrics"] == scored["metrics"]
    assert again["data"] == [str(files / "test.tsv")]


def test_the_split_is_the_one_of_the_training(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    valid = scores_of(capsys, trained, "--split", "valid")
    assert valid["count"] == 10
    entries = [json.loads(line) for line in (trained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    kept = min(entry["valid_perplexity"] for entry in entries if "valid_perplexity" in entry)
    assert valid["metrics"]["perplexity"] == pytest.approx(kept, rel=1e-5)  # type: ignore[index]
    test = scores_of(capsys, trained, "--split", "test")
    assert test["metrics"] != valid["metrics"]
    assert test["metrics"] == scores_of(capsys, trained)["metrics"]


def test_the_engine_gives_the_same_scores(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = scores_of(capsys, trained)
    assert plain["engine"] is None, "ten pairs are not worth it"
    steps, step = list[int](), EngineReader.step

    def count(self: EngineReader, token: torch.Tensor) -> torch.Tensor:
        steps.append(len(token))
        return step(self, token)

    monkeypatch.setattr(EngineReader, "step", count)
    monkeypatch.setattr(choose_engine, "make_engine", partial(make_engine, backend="eager"))  # compiling takes seconds
    fast = scores_of(capsys, trained, "--engine", "on")
    assert fast["engine"] == "compiled (float32)"
    assert fast["metrics"] == pytest.approx(plain["metrics"], rel=1e-5)
    assert steps, "it has written the translations"
    assert run("eval", trained, "--engine", "on") == 0
    shown = capsys.readouterr()
    assert shown.err == "engine: compiled (float32)\n"
    assert "scored on 10 pairs" in shown.out
    monkeypatch.setattr(choose_engine, "READS", 1.0)  # a very slow machine
    assert scores_of(capsys, trained)["engine"] == "compiled (float32)"
    assert scores_of(capsys, trained, "--engine", "off")["engine"] is None
    assert run("eval", trained, "--engine", "fast") == 2


@pytest.mark.parametrize("kind", ["classify", "series", "mlm", "lm", "images", "forecast"])
def test_every_task_is_scored_by_the_engine(kind: str, folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    models = {"classify": "encoder", "series": "judge", "mlm": "fill", "lm": "decoder", "images": "image"}
    folder = folder_of(models[kind]) if kind in models else tiny_models.make(tmp_path / "model", "series")
    text = "\n".join(tiny_models.LINES * 3)
    numbers, names = list(map(str, range(48))), ["calm", "glad"]
    files = {
        "classify": ["text,label", *(f"{name} as ever,{name}" for name in names)],
        "series": [",".join(["label", *numbers]), *(",".join([name, *numbers]) for name in names)],
        "forecast": ["date,load", *(f"2026-01-01 {i // 60:02}:{i % 60:02},{i % 7}" for i in range(99))],
    }
    file = tmp_path / ("text.txt" if kind in ("mlm", "lm") else "rows.csv")
    file.write_text("\n".join(files.get(kind, [text])), encoding="utf-8")
    if kind == "images":
        file = tmp_path / "images"
        for i in range(10):
            (file / f"LABEL_{i}").mkdir(parents=True)
            pixels = np.random.default_rng(i).integers(0, 256, (8, 8), dtype=np.uint8)
            (file / f"LABEL_{i}" / "one.png").write_bytes(as_png(pixels))
    if kind == "forecast":
        scale = {"names": ["load"], "mean": [3.0], "deviation": [2.0]}
        (folder / "series.json").write_text(json.dumps(scale), encoding="utf-8")
    task = "classify" if kind == "series" else kind
    changes: dict[str, Any] = {
        "series": {"reads": "series"},
        "forecast": {"length": 48, "horizon": 12},
        "lm": {"context": 64},
        "mlm": {"context": 64},
    }
    plain, fast = (
        gf.evaluate(folder, [file], task=task, engine=use, **changes.get(kind, {}))  # type: ignore[arg-type]
        for use in ("off", "on")
    )
    assert fast.metrics == pytest.approx(plain.metrics, rel=1e-4)
    assert (fast.count, fast.examples) == (plain.count, plain.examples)
    assert (plain.engine, fast.engine) == (None, "compiled (float32)")


def test_the_table(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("eval", trained) == 0
    shown = capsys.readouterr().out
    assert "scored on 10 pairs" in shown
    assert "this model bleu" in " ".join(shown.split())


def test_other_columns_and_beams(trained: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.predict import writing

    seen: list[int] = []
    original = writing.generate

    def generate(model: gf.Transformer, *inputs: object, **options: object) -> object:
        seen.append(model.config.generation.num_beams)
        return original(model, *inputs, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(writing, "generate", generate)
    flags = {"source_column": "en", "target_column": "de"}
    assert gf.evaluate(trained, [files / "columns.csv"], num_beams=3, **flags).count == 2
    assert seen == [3]
    scores = gf.evaluate(trained, [files / "columns.csv"])
    assert (scores.count, scores.notes[0]) == (
        2,
        f"{files / 'columns.csv'} was read as UTF-8, separated by commas, header 'en | de'; --no-header if it is an "
        "example; source is 'en', target 'de'",
    )
    assert gf.evaluate(trained, [files / "columns.csv"], header=False).count == 3
    with pytest.raises(InputError, match="num_beams is 0: expected at least 1"):
        gf.evaluate(trained, num_beams=0)


def test_a_model_of_another_library(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path, "BartForConditionalGeneration", "both", **BART)
    assert run("eval", folder, "--data", files / "test.tsv") == 2
    assert "has no run.json, so it is not a run of glassformer train" in capsys.readouterr().err
    assert run("eval", folder, "--task", "translate") == 2
    assert "Give files to score with --data" in capsys.readouterr().err
    scored = scores_of(capsys, folder, "--task", "translate", "--data", files / "test.tsv")
    assert scored["count"] == 10
    assert run("eval", folder, "--task", "lm", "--data", files / "test.tsv", "--num-beams=2") == 2
    assert "--num-beams is for tasks that generate text, not for lm" in capsys.readouterr().err


def bad_calls(trained: Path, files: Path) -> dict[str, tuple[list[str | Path], str]]:
    test = files / "test.tsv"
    return {
        "no folder": ([trained / "none"], "there is no such folder"),
        "another task": ([trained, "--task", "lm"], "was trained for translate. Leave --task out"),
        "split and files": ([trained, "--data", test, "--split", "test"], "Choose one"),
        "no such file": ([trained, "--data", files / "none.tsv"], "none.tsv: there is no such file"),
        "another format": ([trained, "--data", trained / "config.json"], "config.json, line 1 is not JSON"),
        "another task's flag": ([trained, "--label-column", "label"], "--label-column is not a setting of translate"),
        "device": ([trained, "--device", "abacus"], "--device abacus cannot be used on this machine"),
    }


@pytest.mark.parametrize("name", list(bad_calls(Path(), Path())))
def test_bad_input_is_one_clear_sentence(
    name: str, trained: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = bad_calls(trained, files)[name]
    capsys.readouterr()
    assert run("eval", *words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_a_run_that_is_not_whole(trained: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(trained, moved)
    record = json.loads((moved / "run.json").read_text(encoding="utf-8"))
    record["settings"]["test"] = ["gone.tsv"]
    (moved / "run.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(InputError, match=r"gone.tsv, the --test of .*moved, does not exist"):
        gf.evaluate(moved)
    record["settings"]["test"] = []
    (moved / "run.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(InputError, match=r"has no test set\. Leave --split out"):
        gf.evaluate(moved, split="test")
    (moved / "model.safetensors").unlink()
    with pytest.raises(InputError, match="is not finished, so there is no model to score yet"):
        gf.evaluate(moved)
    with pytest.raises(InputError, match=r"data is 'test.tsv': expected a list of files"):
        gf.evaluate(moved, "test.tsv")  # type: ignore[arg-type]


def test_baselines_stand_beside_the_scores_on_its_own_data_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"number {i} is {'high' if i % 2 else 'low'},{'up' if i % 2 else 'down'}" for i in range(60)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    out = tmp_path / "run"
    assert run("train", "classify", "--data", tmp_path / "texts.csv", "--out", out, "--max-len=64", *TINY) == 0
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    own = scores_of(capsys, out)
    assert own["baselines"] == record["baselines"]
    assert own["metrics"] == pytest.approx(
        {name: record["results"][name] for name in ("accuracy", "macro_f1")}, abs=1e-5
    )
    assert not scores_of(capsys, out, "--data", tmp_path / "texts.csv")["baselines"]
    assert run("eval", out) == 0
    assert "always the most frequent class" in capsys.readouterr().out
    (tmp_path / "other.csv").write_text("text,label\nhello,up\nbye,sideways\n", encoding="utf-8")
    assert run("eval", out, "--data", tmp_path / "other.csv") == 2
    assert "other.csv, line 3: no training example has the label 'sideways'" in capsys.readouterr().err


@torch.no_grad()
def test_a_classifier_of_another_library(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    folder = bert(tmp_path / "model", "ForSequenceClassification", id2label=LABELS)
    model, tokenizer = theirs(folder, "BertForSequenceClassification")
    texts = [f"{text} {i}" for text in TEXTS for i in range(5)]
    guesses = [int(model(**tokenizer(text, return_tensors="pt")).logits.argmax()) for text in texts]
    truths = [guess if i % 4 else (guess + 1) % 3 for i, guess in enumerate(guesses)]
    rows = [json.dumps({"words": text, "kind": LABELS[truth]}) for text, truth in zip(texts, truths, strict=True)]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows), encoding="utf-8")
    scores = gf.evaluate(
        folder, [tmp_path / "texts.jsonl"], task="classify", text_columns=("words",), label_column="kind"
    )
    assert scores.metrics["accuracy"] == pytest.approx(0.75)
    assert scores.classes == list(LABELS.values())


def test_a_split_is_the_one_that_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also on built-in data, which has its own test set."""
    out = tmp_path / "digits"
    small = ["--steps=3", "--d-model=16", "--num-layers=1", "--num-heads=2"]
    assert run("train", "images", "--out", out, *small) == 0
    capsys.readouterr()
    assert scores_of(capsys, out)["count"] == scores_of(capsys, out, "--split", "test")["count"] == 364
    assert scores_of(capsys, out, "--split", "valid")["count"] == 143


def test_tasks_and_splits_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="task is 'translation': expected one of translate, "):
        gf.evaluate(tmp_path, task="translation")
    with pytest.raises(InputError, match="split is 'train': expected 'valid' or 'test'"):
        gf.evaluate(tmp_path, split="train")  # type: ignore[arg-type]
    (tmp_path / "run.json").write_text('{"task": "paint", "settings": {}}', encoding="utf-8")
    with pytest.raises(InputError, match=r"run\.json: the task is 'paint', expected one of translate, "):
        gf.evaluate(tmp_path)
