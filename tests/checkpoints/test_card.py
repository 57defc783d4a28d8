"""The model card: correct, readable by the hub, and never overwrites one that somebody else wrote."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from helpers.small_checkpoints import Made

import glassformer as gf
from glassformer.checkpoints.card import MARK

STACK = gf.StackConfig(d_model=12, num_layers=2, num_heads=3, d_ff=20)


def read(folder: Path) -> tuple[dict[str, Any], str]:
    """The front matter of a card, and its text."""
    empty, front, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(front), text


def code_of(text: str) -> list[str]:
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("BertForMaskedLM", "fill-mask"),
        ("BertModel", "feature-extraction"),
        ("BertForSequenceClassification", "text-classification"),
        ("BertForTokenClassification", "token-classification"),
        ("BertForQuestionAnswering", "question-answering"),
        ("GPT2LMHeadModel", "text-generation"),
        ("T5ForConditionalGeneration", "text2text-generation"),
        ("ViTForImageClassification", "image-classification"),
        ("ViTModel", "image-feature-extraction"),
    ],
)
def test_a_model_of_a_family(architecture: str, task: str, made: Made, tmp_path: Path) -> None:
    model = gf.load(made(architecture))
    gf.save(model, tmp_path / "out")
    front, text = read(tmp_path / "out")
    kind = model.about.settings["model_type"]
    assert front == {"library_name": "transformers", "pipeline_tag": task, "tags": ["glassformer", kind]}
    assert f"# A {kind} model" in text
    assert f"- parameters: {sum(p.numel() for p in model.parameters()):,}, as float32" in text
    ours, theirs = code_of(text)
    for program, expected in ((ours, gf.Transformer), (theirs, getattr(transformers, architecture))):
        names: dict[str, Any] = {}
        exec(program.replace("path/to/this/folder", str(tmp_path / "out")), names)
        assert isinstance(names["model"], expected)


def test_an_original_transformer_with_its_tokenizer(tmp_path: Path) -> None:
    tokenizer = gf.train_tokenizer(["one two three"] * 3, 100)
    stack = STACK.replace(norm_order="post")
    config = gf.TransformerConfig(
        encoder=stack, decoder=stack, vocab_size=len(tokenizer), pad_token_id=tokenizer.padding_id,
        decoder_start_token_id=tokenizer.padding_id,
    )  # fmt: skip
    gf.save(gf.Transformer(config), tmp_path, tokenizer=tokenizer)
    front, text = read(tmp_path)
    assert front["pipeline_tag"] == "translation"
    assert "- encoder: 2 layers, 3 heads, width 12, feed-forward 20" in text
    assert 'tokenizer = gf.load_tokenizer("path/to/this/folder")' in code_of(text)[0]
    assert "MarianMTModel.from_pretrained" in code_of(text)[1]


OWN = {
    "embed_norm is False, where a modernbert model has True": gf.TransformerConfig(
        encoder=STACK, vocab_size=30, head="class", num_classes=4
    ),
    "encoder.norm_order is 'pre', where a marian model has 'post'": gf.TransformerConfig(
        encoder=STACK, decoder=STACK, vocab_size=30
    ),
    "head is 'span', where a marian model has 'language'": gf.TransformerConfig(
        encoder=STACK, decoder=STACK, vocab_size=30, head="span"
    ),
    "pooling is 'mean', where a vit model has 'first'": gf.TransformerConfig(
        encoder=STACK, image=gf.ImageConfig(size=8, patch=4), head="class", num_classes=2
    ),
    "encoder.positions is 'sinusoidal', where a patchtst model has 'learned'": gf.TransformerConfig(
        encoder=STACK, series=gf.SeriesConfig(length=24, patch=8, horizon=6), head="forecast"
    ),
}


@pytest.mark.parametrize("reason", OWN)
def test_our_own_layout_says_what_forbids_another(reason: str, tmp_path: Path) -> None:
    gf.save(gf.Transformer(OWN[reason]), tmp_path)
    front, text = read(tmp_path)
    assert front["library_name"] == "glassformer"
    assert front["tags"] == ["glassformer"]
    assert f"It opens with Glassformer only: {reason}." in text
    assert "transformers import" not in text
    assert len(code_of(text)) == 1


def test_ones_own_words_stay(tmp_path: Path) -> None:
    model = gf.Transformer(OWN["embed_norm is False, where a modernbert model has True"])
    card = tmp_path / "README.md"
    card.write_text("# My thesis\n", encoding="utf-8")
    gf.save(model, tmp_path)
    assert card.read_text(encoding="utf-8") == "# My thesis\n"
    card.unlink()
    gf.save(model, tmp_path)
    card.write_text(card.read_text(encoding="utf-8") + "and more", encoding="utf-8")
    gf.save(model.to(torch.bfloat16), tmp_path)
    assert "as bfloat16" in card.read_text(encoding="utf-8"), "our own is written anew"
    mine = card.read_text(encoding="utf-8").replace(MARK, "---\n") + "and more"
    card.write_text(mine, encoding="utf-8")
    gf.save(model, tmp_path)
    assert card.read_text(encoding="utf-8") == mine, "the mark was taken out"
