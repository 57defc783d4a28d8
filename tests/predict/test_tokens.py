"""Token classification, and extractive question answering."""

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
from glassformer.errors import InputError


@torch.no_grad()
def test_labels_of_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForTokenClassification", id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
    model, tokenizer = theirs(folder, "BertForTokenClassification")
    assert run("predict", folder, *TEXTS, "--json") == 0
    for text, row in zip(TEXTS, lines(capsys), strict=True):
        batch = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping")[0].tolist()
        best = model(**batch).logits[0].softmax(dim=1).max(dim=1)
        expected = [LABELS[int(i)] for i in best.indices[1:-1]]
        assert [token["label"] for token in row["tokens"]] == expected
        assert [token["score"] for token in row["tokens"]] == pytest.approx(best.values[1:-1].tolist(), abs=1e-5)
        assert [[token["start"], token["end"]] for token in row["tokens"]] == offsets[1:-1]
        assert all(token["text"] == text[token["start"] : token["end"]] for token in row["tokens"])
    assert run("predict", folder, "Hello world") == 0
    assert capsys.readouterr().out.splitlines()[0] == "Hello world"


@torch.no_grad()
def test_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForQuestionAnswering")
    model, tokenizer = theirs(folder, "BertForQuestionAnswering")
    question = "how are you?"
    found = gf.pipeline(folder)(TEXTS, question=question)
    for text, answer in zip(TEXTS, found, strict=True):
        batch = tokenizer(question, text, return_tensors="pt", return_offsets_mapping=True, return_token_type_ids=True)
        offsets, inside = batch.pop("offset_mapping")[0], torch.tensor([part == 1 for part in batch.sequence_ids(0)])
        output = model(**batch)
        start, end = (x[0].masked_fill(~inside, -1e9).softmax(dim=0) for x in (output.start_logits, output.end_logits))
        score, a, b = max(
            (float(start[i] * end[j]), i, j) for i in range(len(start)) for j in range(i, min(len(end), i + 30))
        )
        assert answer.score == pytest.approx(score, abs=1e-5)
        assert answer.answer == text[offsets[a][0] : offsets[b][1]].strip()
        assert answer.answer == text[answer.start : answer.end].strip()
    assert run("predict", folder, TEXTS[0], "--question", question) == 0
    assert capsys.readouterr().out.startswith(found[0].answer)
    assert run("predict", folder, TEXTS[0]) == 2
    assert "Give the question with --question" in capsys.readouterr().err
    with pytest.raises(InputError, match="input 1 is empty: expected at least a word"):
        gf.pipeline(folder)([""], question=question)
