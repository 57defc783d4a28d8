"""Qwen3 (Yang et al., 2025): Qwen2 without biases, and with a norm on every head's q and k."""

from typing import Any

from glassformer.config import TransformerConfig
from glassformer.families import llama, qwen2
from glassformer.families.keys import Keys

model_types = ("qwen3",)
prefix, ignored = llama.prefix, llama.ignored
heads = llama.heads_of("Qwen3")


def config(hf: Keys) -> TransformerConfig:
    biased = hf.take("attention_bias", False)
    return TransformerConfig(
        **hf.common(tied=False),
        vocab_size=hf.take("vocab_size"),
        decoder=qwen2.stack(hf, head_dim=hf.take("head_dim", 128), qk_norm=True, qkv_bias=biased, out_bias=biased),
    )


weights = {
    **llama.weights,
    "layers.{i}.self_attn.q_norm.weight": "decoder.blocks.{i}.attn.q_norm.weight",
    "layers.{i}.self_attn.k_norm.weight": "decoder.blocks.{i}.attn.k_norm.weight",
}


def resembles(config: TransformerConfig) -> bool:
    return llama.is_modern(config) and config.last_stack.qk_norm


def describe(config: TransformerConfig) -> dict[str, Any]:
    common = {key: value for key, value in llama.describe(config).items() if key != "mlp_bias"}
    return {**common, "use_sliding_window": False}
