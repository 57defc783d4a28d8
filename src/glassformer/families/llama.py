"""LLaMA 1 to 3 (Touvron et al., 2023; Dubey et al., 2024): a pre-norm decoder with RMSNorm, rotary positions, grouped
queries and a gated feed-forward. Many families change only a few settings and reuse this page."""

from typing import Any

from glassformer.config import LayerKind, StackConfig, TransformerConfig
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable

model_types = ("llama",)
prefix = "model."
ignored = ("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq")


reads = {"LLaMAForCausalLM": "language"}


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("original_max_position_embeddings")
    hf.expect("layer_types", ["full_attention"] * hf.take("num_hidden_layers"))
    biased, ffn_biased = hf.take("attention_bias", False), hf.take("mlp_bias", False)
    return TransformerConfig(
        **hf.common(tied=False),
        vocab_size=hf.take("vocab_size"),
        decoder=stack(
            hf,
            layer_kinds=(LayerKind(**hf.rotary()),),
            qkv_bias=biased,
            out_bias=biased,
            ffn_bias=ffn_biased,
        ),
    )


def stack(hf: Keys, **choices: Any) -> StackConfig:
    """The stack of a LLaMA-like family; `choices` holds its differences."""
    common = {
        "d_model": hf.take("hidden_size"),
        "num_layers": hf.take("num_hidden_layers"),
        "num_heads": hf.take("num_attention_heads"),
        "num_kv_heads": hf.take("num_key_value_heads", None),
        "head_dim": hf.take("head_dim", None),
        "d_ff": hf.take("intermediate_size"),
        "max_len": hf.take("max_position_embeddings"),
        "positions": "rotary",
        "norm": "rms",
        "norm_eps": hf.take("rms_norm_eps", 1e-6),
        "gated": True,
        "qkv_bias": False,
        "out_bias": False,
        "ffn_bias": False,
        "attention_dropout": hf.take("attention_dropout", 0.0),
    }
    if "activation" not in choices:
        common["activation"] = hf.activation("hidden_act", "silu")
    return StackConfig(**{**common, **choices})


weights = {
    "embed_tokens.weight": "decoder.embed.tokens.weight",
    "layers.{i}.input_layernorm.weight": "decoder.blocks.{i}.attn_norm.weight",
    "layers.{i}.self_attn.q_proj.*": "decoder.blocks.{i}.attn.q.*",
    "layers.{i}.self_attn.k_proj.*": "decoder.blocks.{i}.attn.k.*",
    "layers.{i}.self_attn.v_proj.*": "decoder.blocks.{i}.attn.v.*",
    "layers.{i}.self_attn.o_proj.*": "decoder.blocks.{i}.attn.out.*",
    "layers.{i}.post_attention_layernorm.weight": "decoder.blocks.{i}.ffn_norm.weight",
    "layers.{i}.mlp.gate_proj.*": "decoder.blocks.{i}.ffn.gate.*",
    "layers.{i}.mlp.up_proj.*": "decoder.blocks.{i}.ffn.up.*",
    "layers.{i}.mlp.down_proj.*": "decoder.blocks.{i}.ffn.down.*",
    "norm.weight": "decoder.norm.weight",
}


def heads_of(name: str, *, span_prefix: str = "transformer.", **architectures: str) -> dict[str, TransformersHead]:
    """The heads that transformers offers for every LLaMA-like decoder, under the family's name."""
    out: NameTable = {"score.*": "head.out.*"}
    return {
        "none": TransformersHead(architectures.get("none", f"{name}Model")),
        "language": TransformersHead(f"{name}ForCausalLM", {"lm_head.weight": "head.out.weight"}),
        "class": TransformersHead(
            architectures.get("class", f"{name}ForSequenceClassification"), out, {"head_bias": False, "pooling": "last"}
        ),
        "token": TransformersHead(f"{name}ForTokenClassification", out),
        "span": TransformersHead(f"{name}ForQuestionAnswering", {"qa_outputs.*": "head.out.*"}, prefix=span_prefix),
    }


heads = heads_of("Llama")


def is_modern(config: TransformerConfig) -> bool:
    """Whether a model is decoder-only, with rotary positions or without LayerNorm."""
    stack = config.decoder
    return config.encoder is None and stack is not None and (stack.positions == "rotary" or stack.norm != "layer")


def resembles(config: TransformerConfig) -> bool:
    return is_modern(config) and not config.last_stack.qk_norm


def describe(config: TransformerConfig) -> dict[str, Any]:
    stack = config.last_stack
    base = stack.layer_kinds[0].rotary_base
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": stack.d_model,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "num_key_value_heads": stack.num_kv_heads,
        "head_dim": stack.head_dim,
        "intermediate_size": stack.d_ff,
        "max_position_embeddings": stack.max_len,
        "hidden_act": activation_name(stack.activation),
        "rms_norm_eps": stack.norm_eps,
        "rope_theta": base,
        "rope_parameters": {"rope_type": "default", "rope_theta": base},
        "attention_bias": stack.qkv_bias,
        "mlp_bias": stack.ffn_bias,
        "attention_dropout": stack.attention_dropout,
    }
