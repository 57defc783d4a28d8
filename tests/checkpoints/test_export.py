"""What is trained here opens elsewhere: saved as the family it is built like, the tensors and answers of transformers.

A config is written as a user would write it; transformers opens the folder, and so do we.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open
from torch import Tensor, nn

import glassformer as gf
from glassformer.checkpoints.example import make_example
from glassformer.checkpoints.layout import layout_for

SIZES = {"d_model": 24, "num_layers": 3, "num_heads": 4, "d_ff": 40, "max_len": 48, "dropout": 0.1}
TOKENS = {"vocab_size": 61, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {"positions": "rotary", "norm": "rms", "activation": "silu", "gated": True, "num_kv_heads": 2} | dict.fromkeys(
    ("qkv_bias", "out_bias", "ffn_bias"), False
)
GPT2 = {"positions": "learned", "activation": "gelu_tanh"}
BERT = {"positions": "learned", "norm_order": "post", "activation": "gelu"}
NEAR, FAR = gf.LayerKind(window=6), gf.LayerKind(rotary_base=160_000.0)
MODERN = {"positions": "rotary", "first_norm": False, "norm_bias": False, "gated": True} | dict.fromkeys(
    ("qkv_bias", "out_bias", "ffn_bias"), False
)
VIT = {"positions": "learned", "activation": "gelu", "drop_path": 0.2}
PATCHTST = {"positions": "learned", "activation": "gelu", "final_norm": False}
MASKED = {"embed_norm": True, "head_norm": True, "head_activation": "gelu", "head_bias": True}


def stack(choices: dict[str, Any], **other: Any) -> gf.StackConfig:
    return gf.StackConfig(**SIZES | choices | other)


def text(**choices: Any) -> gf.TransformerConfig:
    return gf.TransformerConfig(**TOKENS | choices)


def picture(size: int, patch: int, channels: int, **choices: Any) -> gf.TransformerConfig:
    image = gf.ImageConfig(size=size, patch=patch, channels=channels)
    choices = {"head": "class", "num_classes": 5, "pooling": "first"} | choices
    return gf.TransformerConfig(encoder=stack(VIT), image=image, **choices)


def forecast(choices: dict[str, Any] | None = None, **series: Any) -> gf.TransformerConfig:
    window = gf.SeriesConfig(**{"length": 30, "patch": 7, "stride": 4, "horizon": 5, "channels": 3} | series)
    return gf.TransformerConfig(encoder=stack(PATCHTST, **choices or {}), series=window, head="forecast")


CLASSES = {"head": "class", "num_classes": 5}
EXPORTED = {
    "LlamaForCausalLM": text(decoder=stack(LLAMA), tie_embeddings=False),
    "LlamaForCausalLM tied": text(decoder=stack(LLAMA, head_dim=10, layer_kinds=(FAR,)), eos_token_id=(2, 3)),
    "LlamaForCausalLM biased": text(decoder=stack(LLAMA, qkv_bias=True, out_bias=True, ffn_bias=True)),
    "Qwen3ForCausalLM": text(decoder=stack(LLAMA, qk_norm=True)),
    "GPT2LMHeadModel": text(decoder=stack(GPT2)),
    "GPT2LMHeadModel untied": text(decoder=stack(GPT2, activation="relu"), tie_embeddings=False, pad_token_id=None),
    "BertForMaskedLM": text(encoder=stack(BERT), num_segments=2, **MASKED),
    "BertForMaskedLM untied": text(encoder=stack(BERT), num_segments=1, tie_embeddings=False, **MASKED),
    "BertForSequenceClassification": text(
        encoder=stack(BERT), num_segments=2, embed_norm=True, pooling="first", head_activation="tanh", **CLASSES
    ),
    "ModernBertForMaskedLM": text(
        encoder=stack(MODERN, activation="gelu", layer_kinds=(FAR, NEAR)), head_dense_bias=False, **MASKED
    ),
    "ModernBertForSequenceClassification": text(
        encoder=stack(MODERN, activation="gelu"), **{**MASKED, "head_dense_bias": False, **CLASSES}
    ),
    "ViTForImageClassification": picture(12, 4, 3),
    "ViTForImageClassification grey": picture(28, 7, 1, num_classes=10),
    "PatchTSTForPrediction": forecast(instance_norm=True),
    "PatchTSTForPrediction post": forecast({"norm_order": "post", "ffn_bias": False}, stride=7, channels=1),
    "MarianMTModel": text(
        encoder=stack({"norm_order": "post"}), decoder=stack({"norm_order": "post"}), decoder_start_token_id=0
    ),
}


def made(config: gf.TransformerConfig) -> gf.Transformer:
    """A model as if trained: no weight is where it began."""
    torch.manual_seed(0)
    model = gf.Transformer(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    return model


def names_and_shapes(file: Path) -> dict[str, list[int]]:
    with safe_open(file, "pt") as tensors:
        return {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118


@torch.no_grad()
def answer(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    output = model(**inputs)
    logits: Tensor = getattr(output, "prediction_outputs", None)
    logits = output.logits if logits is None else logits
    keep = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    return logits[keep.bool()] if keep is not None and logits.ndim == 3 else logits


@pytest.mark.parametrize("name", EXPORTED)
def test_transformers_opens_what_was_made_here(name: str, tmp_path: Path) -> None:
    model, architecture = made(EXPORTED[name]), name.partition(" ")[0]
    gf.save(model, tmp_path / "ours")

    theirs, report = getattr(transformers, architecture).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    inputs = make_example(model.config)
    torch.testing.assert_close(answer(theirs.eval(), inputs), answer(model, inputs), atol=1e-5, rtol=1e-5)
    theirs.save_pretrained(tmp_path / "theirs")
    stored = names_and_shapes(tmp_path / "theirs" / "model.safetensors")
    assert names_and_shapes(tmp_path / "ours" / "model.safetensors") == stored


@pytest.mark.parametrize("name", [name for name in EXPORTED if not name.startswith("Marian")])
def test_what_was_made_here_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = made(EXPORTED[name])
    gf.save(model, tmp_path)
    again = gf.load(tmp_path)
    assert dict(again.named_parameters()).keys() == dict(model.named_parameters()).keys()
    for parameter, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(parameter, other)
    inputs = make_example(model.config)
    assert torch.equal(answer(again, inputs), answer(model, inputs))
    gf.save(again, tmp_path / "again")
    assert layout_for(again).family is layout_for(model).family


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (text(decoder=stack(LLAMA, gated=False)), "decoder.gated is False, where a llama model has True"),
        (text(decoder=stack(LLAMA, layer_kinds=(NEAR,))), r"decoder.layer_kinds is \[.*6.*\], where a llama model has"),
        (text(decoder=stack(LLAMA, out_bias=True)), "decoder.out_bias is True, where a llama model has False"),
        (
            text(decoder=stack(GPT2, positions="alibi")),
            "decoder.positions is 'alibi', where a gpt2 model has 'learned'",
        ),
        (text(encoder=stack(BERT), **MASKED), "num_segments is 0, where a bert model has 1"),
        (
            text(encoder=stack(MODERN, first_norm=True), **MASKED),
            "encoder.first_norm is True, where a modernbert model has False",
        ),
        (picture(12, 4, 3, pooling="mean"), "pooling is 'mean', where a vit model has 'first'"),
        (forecast(channels=None), "series.channels is None, where a patchtst model has 1"),
        (forecast({"final_norm": True}), "encoder.final_norm is True, where a patchtst model has False"),
        (forecast(patch=30), "patch_length is 30: expected less than context_length = 30"),
    ],
)
def test_what_a_family_cannot_express_is_named(config: gf.TransformerConfig, reason: str, tmp_path: Path) -> None:
    model = made(config)
    layout = layout_for(model)
    assert layout.family is None
    assert re.search(reason, layout.reason), layout.reason
    gf.save(model, tmp_path)
    assert gf.load(tmp_path).config == config
