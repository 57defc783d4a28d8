"""ModernBERT (Warner et al., 2024): a pre-norm encoder with rotary positions and a gated feed-forward; two layers in
three see a window, and the embedding norm replaces the first block's norm."""

from typing import Any

from glassformer.config import LayerKind, StackConfig, TransformerConfig
from glassformer.families import bert
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead
from glassformer.families.table import split

model_types = ("modernbert",)
prefix = "model."


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("layer_norm_eps", "position_embedding_type")  # in the first files, but unused
    activation = hf.activation("classifier_activation", "gelu")
    pooling, decoder_bias = hf.take("classifier_pooling", "cls"), hf.take("decoder_bias", True)
    biased, every = hf.take("attention_bias", False), hf.take("global_attn_every_n_layers", 3, least=1)
    far = hf.rotary(layer_type="full_attention", base=160_000.0, base_key="global_rope_theta")
    near = hf.rotary(layer_type="sliding_attention", base_key="local_rope_theta")
    kinds = {
        "full_attention": LayerKind(**far),
        "sliding_attention": LayerKind(window=hf.take("local_attention", 128), **near),
    }
    return TransformerConfig(
        **hf.common(),
        head_activation=activation if hf.head != "none" else None,
        vocab_size=hf.take("vocab_size"),
        embed_norm=True,
        pooling="mean" if pooling == "mean" else "first",
        head_bias=decoder_bias if hf.head == "language" else True,
        head_dense_bias=hf.take("classifier_bias", False),
        head_dropout=hf.take("classifier_dropout", 0.0),
        encoder=StackConfig(
            d_model=hf.take("hidden_size"),
            num_layers=hf.take("num_hidden_layers"),
            num_heads=hf.take("num_attention_heads"),
            d_ff=hf.take("intermediate_size"),
            max_len=hf.take("max_position_embeddings"),
            positions="rotary",
            layer_kinds=hf.layer_kinds(
                hf.take("num_hidden_layers"),
                kinds,
                lambda layer: "sliding_attention" if layer % every else "full_attention",
            ),
            first_norm=False,
            norm_eps=hf.take("norm_eps", 1e-5),
            norm_bias=hf.take("norm_bias", False),
            activation=hf.activation("hidden_activation", "gelu"),
            gated=True,
            qkv_bias=biased,
            out_bias=biased,
            ffn_bias=hf.take("mlp_bias", False),
            dropout=hf.take("attention_dropout", 0.0),
            ffn_dropout=hf.take("mlp_dropout", 0.0),
            embed_dropout=hf.take("embedding_dropout", 0.0),
        ),
    )


weights = {
    "embeddings.tok_embeddings.weight": "encoder.embed.tokens.weight",
    "embeddings.norm.*": "encoder.embed.norm.*",
    "layers.{i}.attn_norm.*": "encoder.blocks.{i}.attn_norm.*",
    "layers.{i}.attn.Wqkv.*": split("encoder.blocks.{i}.attn.{q,k,v}.*"),
    "layers.{i}.attn.Wo.*": "encoder.blocks.{i}.attn.out.*",
    "layers.{i}.mlp_norm.*": "encoder.blocks.{i}.ffn_norm.*",
    "layers.{i}.mlp.Wi.*": split("encoder.blocks.{i}.ffn.{gate,up}.*"),
    "layers.{i}.mlp.Wo.*": "encoder.blocks.{i}.ffn.down.*",
    "final_norm.*": "encoder.norm.*",
}
_DENSE = {"head.dense.*": "head.project.*", "head.norm.*": "head.norm.*"}
_CLASSES, _NORMED = {**_DENSE, "classifier.*": "head.out.*"}, {"head_norm": True}
heads = {
    "none": TransformersHead("ModernBertModel"),
    "language": TransformersHead("ModernBertForMaskedLM", {**_DENSE, "decoder.*": "head.out.*"}, _NORMED),
    "class": TransformersHead("ModernBertForSequenceClassification", _CLASSES, _NORMED),
    "token": TransformersHead("ModernBertForTokenClassification", _CLASSES, _NORMED),
    "span": TransformersHead("ModernBertForQuestionAnswering", _CLASSES, _NORMED),
}


def resembles(config: TransformerConfig) -> bool:
    return bert.reads_text_alone(config) and config.last_stack.norm_order != "post"


def describe(config: TransformerConfig) -> dict[str, Any]:
    stack = config.last_stack
    kinds = stack.every_kind
    near, far = (next((k for k in kinds if (k.window is None) is sees_all), kinds[0]) for sees_all in (False, True))
    ropes = {
        name: {"rope_type": "default", "rope_theta": kind.rotary_base}
        for name, kind in (("full_attention", far), ("sliding_attention", near))
    }
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": stack.d_model,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "intermediate_size": stack.d_ff,
        "max_position_embeddings": stack.max_len,
        "hidden_activation": activation_name(stack.activation),
        "norm_eps": stack.norm_eps,
        "norm_bias": stack.norm_bias,
        "attention_bias": stack.qkv_bias,
        "mlp_bias": stack.ffn_bias,
        "local_attention": near.window or 128,
        "layer_types": ["full_attention" if kind.window is None else "sliding_attention" for kind in kinds],
        "rope_parameters": ropes,
        "classifier_pooling": "mean" if config.pooling == "mean" else "cls",
        "classifier_activation": activation_name(config.head_activation or "gelu"),
        "classifier_bias": config.head_dense_bias,
        "classifier_dropout": config.head_dropout,
        "decoder_bias": config.head_bias,
        "attention_dropout": stack.dropout,
        "mlp_dropout": stack.ffn_dropout,
        "embedding_dropout": stack.embed_dropout,
    }
