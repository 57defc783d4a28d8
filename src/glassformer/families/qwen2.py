"""Qwen2 (Yang et al., 2024): LLaMA with biases on q, k and v; its upper layers may have a window."""

from typing import Any

from glassformer.config import LayerKind, StackConfig, TransformerConfig
from glassformer.families import llama
from glassformer.families.keys import Keys

model_types = ("qwen2",)
prefix, ignored, weights = llama.prefix, llama.ignored, llama.weights
heads = llama.heads_of("Qwen2")


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("use_mrope")
    return TransformerConfig(
        **hf.common(tied=False), vocab_size=hf.take("vocab_size"), decoder=stack(hf, qkv_bias=True)
    )


def stack(hf: Keys, **choices: Any) -> StackConfig:
    window, first = hf.take("sliding_window", None), hf.take("max_window_layers", 28)
    if not hf.take("use_sliding_window", False):
        window = None
    kinds = {
        "full_attention": LayerKind(**hf.rotary()),
        "sliding_attention": LayerKind(window=window, **hf.rotary()),
    }
    layers = hf.layer_kinds(
        hf.take("num_hidden_layers"),
        kinds,
        lambda layer: "sliding_attention" if window is not None and layer >= first else "full_attention",
    )
    return llama.stack(hf, layer_kinds=layers, **choices)
