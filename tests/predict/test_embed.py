"""Sentence vectors, pooled as the files of sentence-transformers say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.command import lines, run
from helpers.head_checkpoints import (
    TEXTS,
    bert,
    theirs,
)

import glassformer as gf
from glassformer.errors import InputError


def pooled_by(folder: Path, pooling: dict[str, Any] | None, modules: list[str] | None) -> None:
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    if modules is not None:
        paths = {"Transformer": "", "Pooling": "1_Pooling"}
        listed = [
            {
                "idx": i,
                "name": str(i),
                "path": paths.get(name, f"{i}_{name}"),
                "type": f"sentence_transformers.models.{name}",
            }
            for i, name in enumerate(modules)
        ]
        (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")


POOLINGS: dict[str, tuple[dict[str, Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "mean": ({"pooling_mode_mean_tokens": True}, lambda hidden: hidden.mean(dim=0)),
    "cls": ({"pooling_mode_cls_token": True}, lambda hidden: hidden[0]),
    "max": ({"pooling_mode_max_tokens": True}, lambda hidden: hidden.amax(dim=0)),
    "last": ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, lambda hidden: hidden[-1]),
    "root": ({"pooling_mode_mean_sqrt_len_tokens": True}, lambda hidden: hidden.sum(dim=0) / len(hidden) ** 0.5),
    "weighted": (
        {"pooling_mode_weightedmean_tokens": True},
        lambda hidden: torch.arange(1.0, len(hidden) + 1) @ hidden / sum(range(1, len(hidden) + 1)),
    ),
    "both": (
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        lambda hidden: torch.cat([hidden[0], hidden.mean(dim=0)]),
    ),
    "word": ({"pooling_mode": "cls"}, lambda hidden: hidden[0]),
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("name", POOLINGS)
def test_vectors(name: str, tmp_path: Path) -> None:
    folder = bert(tmp_path, "Model")
    values, expected = POOLINGS[name]
    pooled_by(folder, values, ["Transformer", "Pooling", "Normalize"])
    model, tokenizer = theirs(folder, "BertModel")
    predict = gf.pipeline(folder)
    vectors, raw = predict(TEXTS), predict(TEXTS, normalise=False)
    for text, vector, plain in zip(TEXTS, vectors, raw, strict=True):
        made = expected(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0])
        torch.testing.assert_close(plain, made, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(vector, made / made.norm(), atol=1e-5, rtol=1e-5)
    assert predict([]).shape == (0, vectors.shape[1])


def test_vectors_of_a_model_that_has_a_head_by_name_only(tmp_path: Path) -> None:
    """Many sentence transformers are declared as masked language models but have no such head."""
    folder = bert(tmp_path, "Model")
    expected = gf.pipeline(folder)(TEXTS)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}), encoding="utf-8")
    pooled_by(folder, {"pooling_mode_mean_tokens": True}, None)
    torch.testing.assert_close(gf.pipeline(folder)(TEXTS), expected)


def test_vectors_with_the_words_of_the_folder(tmp_path: Path) -> None:
    folder = bert(tmp_path, "Model")
    pooled_by(folder, {"pooling_mode_mean_tokens": True}, ["Transformer", "Pooling"])
    plain = gf.pipeline(folder)(["query: hello world", "query: how"])
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": true}', encoding="utf-8")
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")
    torch.testing.assert_close(gf.pipeline(folder)(["Hello World", "HOW"]), plain)


def test_vectors_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bert(tmp_path, "Model")
    vectors = gf.pipeline(folder)(TEXTS)
    assert run("predict", folder, *TEXTS) == 0
    shown = capsys.readouterr()
    assert "does not say how to pool: using the mean over the tokens" in shown.err
    table = [[float(x) for x in line.split()[-4:]] for line in shown.out.splitlines()[1:]]
    torch.testing.assert_close(torch.tensor(table), vectors @ vectors.T, atol=6e-4, rtol=0)
    many = [f"{text} {i}" for i in range(4) for text in TEXTS]
    assert run("predict", folder, *many) == 0
    assert all(" nearest " in line for line in capsys.readouterr().out.splitlines())
    assert run("predict", folder, TEXTS[0], "--json") == 0
    assert lines(capsys)[0]["vector"] == pytest.approx(vectors[0].tolist(), abs=1e-6)


def test_files_of_sentence_transformers_that_are_not_understood(tmp_path: Path) -> None:
    folder = bert(tmp_path, "Model")
    pooled_by(folder, {"pooling_mode_mean_tokens": True}, ["Transformer", "Pooling", "Dense"])
    with pytest.raises(InputError, match="lists a Dense module, which is not supported"):
        gf.pipeline(folder)
    (folder / "modules.json").unlink()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_guess_tokens": true}', encoding="utf-8")
    with pytest.raises(InputError, match=r"the pooling is \['guess'\]: expected one or more of cls, max"):
        gf.pipeline(folder)
    (folder / "1_Pooling" / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is not JSON"):
        gf.pipeline(folder)
