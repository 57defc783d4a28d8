"""Marian (Junczys-Dowmunt et al., 2018), used by the OPUS-MT models: the original Transformer, post-norm, with
sinusoids in halves. An original Transformer trained here is therefore saved in this layout (`saved_form`)."""

from typing import Any

import torch
from torch import Tensor

from glassformer.config import StackConfig, TransformerConfig
from glassformer.families import bart
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, fixed

model_types = ("marian",)
prefix, translates = bart.prefix, True
ignored = (*bart.ignored, "encoder.embed_positions.weight", "decoder.embed_positions.weight")


def config(hf: Keys) -> TransformerConfig:
    hf.expect("normalize_before", False)
    hf.expect("normalize_embedding", False)
    shared, target = hf.take("share_encoder_decoder_embeddings", True), hf.take("decoder_vocab_size", None)
    hf.ignore("tokenizer_class")
    return bart.model_config(
        hf,
        target_vocab_size=None if shared else target or hf.take("vocab_size"),
        stack={"norm_order": "post", "positions": "sinusoidal", "sinusoids": "halves"},
    )


def weights(config: TransformerConfig) -> NameTable:
    table = {name: place for name, place in bart.weights.items() if "embed_positions" not in name}
    if config.target_vocab_size is None:
        return table
    names = {f"{stack}.embed_tokens.weight": f"{stack}.embed.tokens.weight" for stack in ("encoder", "decoder")}
    return {**{name: place for name, place in table.items() if name != "shared.weight"}, **names}


_POSITIONS = {f"^{s}.embed_positions.weight": fixed(f"{s}.embed.positions.table") for s in ("encoder", "decoder")}
heads = {
    "none": TransformersHead("MarianModel", _POSITIONS),
    "language": TransformersHead("MarianMTModel", bart.LANGUAGE, {"head_bias": True}),
}


def resembles(config: TransformerConfig) -> bool:
    return config.encoder is not None and config.decoder is not None and config.patches is None


def describe(config: TransformerConfig) -> dict[str, Any]:
    source, target = config.encoder or config.last_stack, config.decoder or config.last_stack
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "decoder_vocab_size": config.output_vocab_size,
        "share_encoder_decoder_embeddings": config.target_vocab_size is None,
        "tie_word_embeddings": config.tie_embeddings or config.target_vocab_size is None,  # one vocabulary: tied
        "d_model": target.d_model,
        "max_position_embeddings": target.max_len,
        **{f"{name}_layers": stack.num_layers for name, stack in (("encoder", source), ("decoder", target))},
        **{f"{name}_attention_heads": stack.num_heads for name, stack in (("encoder", source), ("decoder", target))},
        **{f"{name}_ffn_dim": stack.d_ff for name, stack in (("encoder", source), ("decoder", target))},
        "activation_function": activation_name(target.activation),
        "scale_embedding": config.scale_embeddings,
        "dropout": target.dropout,
        "attention_dropout": target.attention_dropout,
        "activation_dropout": target.ffn_dropout,
    }


def saved_form(config: TransformerConfig) -> TransformerConfig:
    """An original Transformer in Marian's form: sinusoids in halves, and a bias of zeros on the logits."""
    if config.head != "language":
        return config
    return config.replace(**(_in_halves(config) if _is_interleaved(config) else {}), head_bias=True)


def saved_weights(config: TransformerConfig, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Turns interleaved sinusoids into halves: permuting every d_model axis the same way keeps the output."""
    if _is_interleaved(config):
        width = config.last_stack.d_model
        order = torch.tensor([*range(0, width, 2), *range(1, width, 2)])
        weights = {name: _permuted(name, value, order) for name, value in weights.items()}
    first = next(iter(weights.values()))
    return {"head.out.bias": first.new_zeros(config.output_vocab_size), **weights}


def _is_interleaved(config: TransformerConfig) -> bool:
    return all(stack is not None and stack.sinusoids == "interleaved" for stack in (config.encoder, config.decoder))


def _in_halves(config: TransformerConfig) -> dict[str, StackConfig]:
    stacks = {"encoder": config.encoder, "decoder": config.decoder}
    return {name: stack.replace(sinusoids="halves") for name, stack in stacks.items() if stack is not None}


def _permuted(name: str, value: Tensor, order: Tensor) -> Tensor:
    """Permutes the d_model axis: columns of weights that read the residual stream, rows of those that write to it."""
    module, leaf = name.split(".")[-2:]
    if module in ("tokens", "q", "k", "v", "up") or name == "head.out.weight":
        return value[:, order] if leaf == "weight" and value.ndim == 2 else value
    return value if name == "head.out.bias" else value[order]
