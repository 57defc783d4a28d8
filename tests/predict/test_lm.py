"""Continuing texts: greedy, with beams, with sampling, and in a chat."""

from pathlib import Path
from typing import Any

import pytest
from helpers.command import lines, run
from helpers.head_checkpoints import (
    CHATML,
    TEXTS,
    llama,
    make,
    theirs,
)

import glassformer as gf


def test_texts_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llama(tmp_path)
    model, tokenizer = theirs(folder, "LlamaForCausalLM")
    predict = gf.pipeline(folder)
    for choices in ({"max_new_tokens": 9}, {"max_new_tokens": 9, "num_beams": 3}):
        for text, answer in zip(TEXTS, predict(TEXTS, **choices), strict=True):
            batch = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
            ids = model.generate(**batch, do_sample=False, **choices)[0]
            assert text + answer == tokenizer.decode(ids, skip_special_tokens=True)
    drawn = predict(TEXTS, max_new_tokens=9, do_sample=True, temperature=2.0, seed=3)
    assert drawn == predict(TEXTS, max_new_tokens=9, do_sample=True, temperature=2.0, seed=3)
    assert drawn != predict(TEXTS, max_new_tokens=9, do_sample=True, temperature=2.0, seed=4)
    flags = ["--max-new-tokens=9", "--do-sample", "--temperature=2", "--seed=3", "--json"]
    assert run("predict", folder, *TEXTS, *flags) == 0
    assert [row["output"] for row in lines(capsys)] == drawn
    assert predict([]) == []
    assert isinstance(predict([""], max_new_tokens=2)[0], str)


def test_the_length_when_nobody_says(tmp_path: Path) -> None:
    """256 new tokens, or as many as the learned positions allow, unless generation_config.json sets a limit."""
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
    shape = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 40}
    folder = make(tmp_path, "GPT2LMHeadModel", "decoder", **shape, **ids)
    predict = gf.pipeline(folder)
    seen: list[int] = []
    original = predict.tokenizer.decode

    def decode(ids: Any, **options: Any) -> str:
        seen.append(len(ids))
        return original(ids, **options)

    predict.tokenizer.decode = decode
    predict(["Hello"])
    assert max(seen) == 40
    (folder / "generation_config.json").write_text('{"max_new_tokens": 3}', encoding="utf-8")
    seen.clear()
    predict = gf.pipeline(folder)
    predict.tokenizer.decode = decode
    predict(["Hello"])
    assert max(seen) == len(predict.tokenizer.ids("Hello")) + 3


def test_greedy_where_the_model_prefers_to_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llama(tmp_path)
    plain = gf.pipeline(folder)(TEXTS, max_new_tokens=9)
    (folder / "generation_config.json").write_text('{"do_sample": true, "temperature": 3.0}', encoding="utf-8")
    assert gf.pipeline(folder)(TEXTS, max_new_tokens=9, seed=0) != plain
    assert run("predict", folder, *TEXTS, "--max-new-tokens=9", "--greedy", "--json") == 0
    assert [row["output"] for row in lines(capsys)] == plain


def test_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = llama(tmp_path, tokenizer={"chat_template": CHATML})
    model, tokenizer = theirs(folder, "LlamaForCausalLM")
    assert run("predict", folder, *TEXTS, "--chat", "--json", "--max-new-tokens=9") == 0
    for text, row in zip(TEXTS, lines(capsys), strict=True):
        prompt = f"<|user|>{text}</s><|assistant|>"
        batch = tokenizer(prompt, return_tensors="pt", add_special_tokens=False, return_token_type_ids=False)
        ids = model.generate(**batch, do_sample=False, max_new_tokens=9)[0, batch["input_ids"].shape[1] :]
        assert row == {"input": text, "output": tokenizer.decode(ids, skip_special_tokens=True).strip()}


def test_chat_without_a_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("predict", llama(tmp_path), "hi", "--chat") == 2
    shown = capsys.readouterr().err
    assert "has no chat template: its folder needs a chat_template.jinja. Give a plain text instead" in shown
    assert shown.count("\n") == 1
