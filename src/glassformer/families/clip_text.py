"""The text side of CLIP (Radford et al., 2021): a causal stack, pooled at the first end token.

Stable Diffusion encodes its prompts with it. Read next: `clip.py`, the pair it belongs to.
"""

from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead

model_types = ("clip_text_model",)
prefix = "text_model."
ignored = ("embeddings.position_ids",)
OLD_END = 2  # wrong end id in configs from before transformers 4.31; the end token is then the highest id in a text


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("dropout")
    pooled_dim = hf.take("projection_dim", 512)
    common = {**hf.common(), "eos_token_id": hf.take("eos_token_id", 49407)}
    return TransformerConfig(
        **common,
        vocab_size=hf.take("vocab_size", 49408),
        pooling="highest_id" if common["eos_token_id"] == OLD_END else "first_end",
        pooled_dim=pooled_dim if "head_bias" in hf.choices else None,
        decoder=stack(hf, width=512, layers=12, heads=8, max_len=hf.take("max_position_embeddings", 77)),
    )


def stack(
    hf: Keys, *, width: int, layers: int, heads: int, activation: str = "quick_gelu", **other: Any
) -> StackConfig:
    """The stack of either side. A pair's config.json may omit values that are the same as in the first CLIP."""
    return StackConfig(
        d_model=hf.take("hidden_size", width),
        num_layers=hf.take("num_hidden_layers", layers),
        num_heads=hf.take("num_attention_heads", heads),
        d_ff=hf.take("intermediate_size", 4 * width),
        positions="learned",
        norm_eps=hf.take("layer_norm_eps", 1e-5),
        activation=hf.activation("hidden_act", activation),
        attention_dropout=hf.take("attention_dropout", 0.0),
        **other,
    )


def blocks(ours: str) -> dict[str, str]:
    return {
        "encoder.layers.{i}.layer_norm1.*": f"{ours}.blocks.{{i}}.attn_norm.*",
        "encoder.layers.{i}.self_attn.q_proj.*": f"{ours}.blocks.{{i}}.attn.q.*",
        "encoder.layers.{i}.self_attn.k_proj.*": f"{ours}.blocks.{{i}}.attn.k.*",
        "encoder.layers.{i}.self_attn.v_proj.*": f"{ours}.blocks.{{i}}.attn.v.*",
        "encoder.layers.{i}.self_attn.out_proj.*": f"{ours}.blocks.{{i}}.attn.out.*",
        "encoder.layers.{i}.layer_norm2.*": f"{ours}.blocks.{{i}}.ffn_norm.*",
        "encoder.layers.{i}.mlp.fc1.*": f"{ours}.blocks.{{i}}.ffn.up.*",
        "encoder.layers.{i}.mlp.fc2.*": f"{ours}.blocks.{{i}}.ffn.down.*",
    }


weights = {
    "embeddings.token_embedding.weight": "decoder.embed.tokens.weight",
    "embeddings.position_embedding.weight": "decoder.embed.positions.weight",
    **blocks("decoder"),
    "final_layer_norm.*": "decoder.norm.*",
}
heads = {
    "pool": TransformersHead("CLIPTextModel"),
    "pool_projected": TransformersHead(
        "CLIPTextModelWithProjection", {"text_projection.weight": "head.out.weight"}, {"head_bias": False}
    ),
}


def resembles(config: TransformerConfig) -> bool:
    stack = config.decoder
    return config.encoder is None and stack is not None and stack.positions != "rotary" and config.head == "pool"


def describe(config: TransformerConfig) -> dict[str, Any]:
    return {
        **described(config),
        "architectures": [heads["pool_projected" if config.pooled_dim else "pool"].architecture],
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.last_stack.max_len,
    }


def described(config: TransformerConfig) -> dict[str, Any]:
    """The keys that both sides share."""
    stack = config.last_stack
    return {
        "hidden_size": stack.d_model,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "intermediate_size": stack.d_ff,
        "projection_dim": config.pooled_dim or stack.d_model,
        "hidden_act": activation_name(stack.activation),
        "layer_norm_eps": stack.norm_eps,
        "attention_dropout": stack.attention_dropout,
    }
