"""Filling in masked words gives the same results as transformers."""

import json
from pathlib import Path

import pytest
import torch
from helpers.command import lines, run
from helpers.head_checkpoints import (
    bert,
    theirs,
)

import glassformer as gf


@torch.no_grad()
def test_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "ForMaskedLM")
    model, tokenizer = theirs(folder, "BertForMaskedLM")
    texts = ["The quick [MASK] fox", "[MASK] world [MASK]", "how [MASK]"]
    found = gf.pipeline(folder)(texts, guesses=4)
    for text, masks in zip(texts, found, strict=True):
        batch = tokenizer(text, return_tensors="pt")
        logits = model(**batch).logits[batch["input_ids"] == tokenizer.mask_token_id]
        best = logits.softmax(dim=1).topk(4, dim=1)
        assert len(masks) == len(logits)
        for guesses, ids, scores in zip(masks, best.indices, best.values, strict=True):
            assert [guess.score for guess in guesses] == pytest.approx(scores.tolist(), abs=1e-5)
            assert [guess.token for guess in guesses] == [tokenizer.decode([i]).strip() or "▁" for i in ids]
    assert run("predict", folder, texts[1], "--guesses", "2") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == texts[1]
    assert [line.split()[:2] for line in shown[1:]] == [["mask", "1"]] * 2 + [["mask", "2"]] * 2
    assert run("predict", folder, texts[0], "--json") == 0
    assert len(lines(capsys)[0]["masks"][0]) == 5
    assert run("predict", folder, "no mask here") == 2
    assert "'no mask here' has no [MASK]: put it in place of" in capsys.readouterr().err


def test_a_key_of_the_oldest_config_files_is_understood(tmp_path: Path) -> None:
    folder = bert(tmp_path, "ForMaskedLM")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_ids": 0}), encoding="utf-8")
    assert gf.pipeline(folder).task == "mlm"
