"""Classifying texts and pairs of texts, multi-label classification, and regression."""

import json
from pathlib import Path

import pytest
import torch
from helpers.command import lines, run
from helpers.head_checkpoints import (
    LABELS,
    TEXTS,
    bert,
    theirs,
)

import glassformer as gf


@torch.no_grad()
def test_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForSequenceClassification", id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
    model, tokenizer = theirs(folder, "BertForSequenceClassification")
    assert run("predict", folder, *TEXTS, "--json") == 0
    rows = lines(capsys)
    assert run("predict", folder, *TEXTS) == 0
    plain = capsys.readouterr().out.splitlines()
    for text, row, line in zip(TEXTS, rows, plain, strict=True):
        expected = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(dim=0)
        assert row["input"] == text
        assert row["label"] == LABELS[int(expected.argmax())]
        assert row["score"] == pytest.approx(float(expected.max()), abs=1e-5)
        assert list(row["scores"].values()) == pytest.approx(expected.tolist(), abs=1e-5)
        assert line.split()[:3] == [row["label"], f"{row['score']:.3f}", text.split()[0]]


@torch.no_grad()
@pytest.mark.parametrize(("kind", "labels"), [("multi_label_classification", 3), (None, 1), ("regression", 1)])
def test_what_is_no_choice_among_classes(kind: str | None, labels: int, tmp_path: Path) -> None:
    folder = bert(tmp_path, "ForSequenceClassification", num_labels=labels, problem_type=kind)
    model, tokenizer = theirs(folder, "BertForSequenceClassification")
    logits = model(**tokenizer(TEXTS[:1], return_tensors="pt")).logits[0]
    expected = logits if kind == "regression" else logits.sigmoid()
    found = gf.pipeline(folder)(TEXTS[:1])[0]
    assert list(found.scores.values()) == pytest.approx(expected.tolist(), abs=1e-5)


@torch.no_grad()
def test_several_classes_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"id2label": LABELS, "label2id": {v: k for k, v in LABELS.items()}}
    folder = bert(tmp_path, "ForSequenceClassification", problem_type="multi_label_classification", **names)
    model, tokenizer = theirs(folder, "BertForSequenceClassification")
    assert run("predict", folder, *TEXTS, "--json") == 0
    rows = lines(capsys)
    assert run("predict", folder, *TEXTS) == 0
    sizes = set()
    for text, row, line in zip(TEXTS, rows, capsys.readouterr().out.splitlines(), strict=True):
        scores = model(**tokenizer(text, return_tensors="pt")).logits[0].sigmoid().tolist()
        expected = sorted(((score, LABELS[i]) for i, score in enumerate(scores) if score > 0.5), reverse=True)
        assert list(row["labels"]) == [name for _, name in expected]
        assert list(row["labels"].values()) == pytest.approx([score for score, _ in expected], abs=1e-5)
        assert list(row["scores"].values()) == pytest.approx(scores, abs=1e-5)
        assert line.startswith(", ".join(f"{name} {score:.3f}" for score, name in expected) or "none")
        sizes.add(len(expected))
    assert len(sizes) > 1


@pytest.fixture(scope="module")
def judge_of_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return bert(tmp_path_factory.mktemp("pairs"), "ForSequenceClassification", tokenizer=names, id2label=LABELS)


@torch.no_grad()
def test_pairs_of_texts(judge_of_pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokenizer = theirs(judge_of_pairs, "BertForSequenceClassification")
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3]), (TEXTS[1], TEXTS[0])]
    expected = []
    for pair in pairs:
        batch = tokenizer(*pair, return_tensors="pt", return_token_type_ids=True)
        expected.append(model(**batch).logits[0].softmax(dim=0).tolist())
    for pair, label, scores in zip(pairs, gf.pipeline(judge_of_pairs)(pairs, batch_size=2), expected, strict=True):
        assert list(label.scores.values()) == pytest.approx(scores, abs=1e-5)
        alone = gf.pipeline(judge_of_pairs)([" ".join(pair)])[0]
        assert list(alone.scores.values()) != pytest.approx(scores, abs=1e-5)
    (tmp_path / "pairs.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    rows = [{"sentence1": a, "sentence2": b, "label": 0} for a, b in pairs]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = "".join(f'"{a}",x,"{b}"\n' for a, b in pairs)
    (tmp_path / "pairs.csv").write_text(f"first,other,second\n{table}", encoding="utf-8")
    for flags in (
        ["--file", tmp_path / "pairs.txt"],
        ["--file", tmp_path / "pairs.jsonl"],
        ["--file", tmp_path / "pairs.csv", "--text-columns", "first", "second"],
        ["\t".join(pair) for pair in pairs],
    ):
        assert run("predict", judge_of_pairs, *flags, "--json") == 0
        for row, pair, scores in zip(lines(capsys), pairs, expected, strict=True):
            assert row["input"] == list(pair)
            assert list(row["scores"].values()) == pytest.approx(scores, abs=1e-5)
