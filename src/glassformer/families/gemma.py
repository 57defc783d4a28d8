"""Gemma (Gemma Team, 2024): LLaMA with norms that multiply by 1 + w, scaled embeddings, and wide heads."""

from typing import Any

from glassformer.config import LayerKind, StackConfig, TransformerConfig
from glassformer.families import llama
from glassformer.families.keys import Keys

model_types = ("gemma",)
prefix, ignored, weights = llama.prefix, llama.ignored, llama.weights
heads = {kind: head for kind, head in llama.heads_of("Gemma").items() if kind != "span"}


def config(hf: Keys) -> TransformerConfig:
    hf.expect("use_bidirectional_attention", False)
    key = "hidden_activation" if hf.take("hidden_activation", None) else "hidden_act"
    activation = hf.activation(key, "gelu_pytorch_tanh")
    meant = "gelu_tanh" if activation == "gelu" else activation  # the first files say "gelu" but mean the tanh form
    hf.ignore("hidden_act")
    return TransformerConfig(
        **hf.common(),
        vocab_size=hf.take("vocab_size"),
        scale_embeddings=True,
        decoder=stack(hf, layer_kinds=(LayerKind(**hf.rotary()),), activation=meant),
    )


def stack(hf: Keys, **choices: Any) -> StackConfig:
    """The settings that all three Gemma families share."""
    biased = hf.take("attention_bias", False)
    common = {"head_dim": hf.take("head_dim", 256), "norm": "rms_offset", "qkv_bias": biased, "out_bias": biased}
    return llama.stack(hf, **common, **choices)
