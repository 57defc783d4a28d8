"""Configs as a user would write them, by the class of transformers that opens the saved model."""

from typing import Any

import torch
from torch import nn

import glassformer as gf

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


def captioner(
    decoder: dict[str, Any], *, width: int | None = None, image: dict[str, Any] | None = None, **choices: Any
) -> gf.TransformerConfig:
    encoder = stack(VIT | {"final_norm": True}, **{"d_model": width} if width else {})
    pixels = gf.ImageConfig(**{"size": 12, "patch": 4} | (image or {}))
    return text(encoder=encoder, decoder=stack(decoder), image=pixels, **{"decoder_start_token_id": 1} | choices)


CLASSES = {"head": "class", "num_classes": 5}
EXPORTED = {
    "LlamaForCausalLM": text(decoder=stack(LLAMA), tie_embeddings=False),
    "LlamaForCausalLM tied": text(decoder=stack(LLAMA, head_dim=10, layer_kinds=(FAR,)), eos_token_id=(2, 3)),
    "LlamaForCausalLM biased": text(decoder=stack(LLAMA, qkv_bias=True, out_bias=True, ffn_bias=True)),
    "Qwen3ForCausalLM": text(decoder=stack(LLAMA, qk_norm=True)),
    "VisionEncoderDecoderModel": captioner(GPT2),
    "VisionEncoderDecoderModel projected": captioner(GPT2, width=32, memory_project="linear", tie_embeddings=False),
    "VisionEncoderDecoderModel bert": captioner(BERT, num_segments=2, **MASKED),
    "VisionEncoderDecoderModel trocr": captioner(
        BERT | {"position_offset": 2}, width=32, embed_norm=True, image={"distillation_token": True}
    ),
    "BlipForConditionalGeneration": captioner(BERT, width=32, bos_token_id=1, **MASKED),
    "GitForCausalLM": captioner(
        BERT,
        width=32,
        memory="prefix",
        memory_project="linear_norm",
        embed_norm=True,
        head_bias=True,
        image={"patch_bias": False, "embed_norm": True},
        tie_embeddings=False,
        decoder_start_token_id=None,
    ),
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
    """A model with random weights, none at its initial value."""
    torch.manual_seed(0)
    model = gf.Transformer(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    return model
