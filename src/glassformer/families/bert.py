"""BERT (Devlin et al., 2019): a post-norm encoder with learned positions and two segments. RoBERTa and ELECTRA
have the same architecture and share this page's table."""

from collections.abc import Callable
from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, fixed

model_types = ("bert",)
prefix = "bert."
# A pooler that the head does not use, and the next-sentence head.
ignored = ("embeddings.position_ids", "pooler.dense.*", "cls.seq_relationship.*", "cls.predictions.decoder.bias")
reads = {"BertForPreTraining": "language"}


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers")
    hf.ignore("pooler_size_per_head", "pooler_type")
    activation = hf.activation("hidden_act", "gelu")
    return TransformerConfig(
        **hf.common(language={"head_activation": activation}),
        **embedding(hf),
        head_dropout=hf.take("classifier_dropout", hf.take("hidden_dropout_prob", 0.1)),
        encoder=stack(hf, activation=activation),
    )


def embedding(hf: Keys) -> dict[str, Any]:
    return {
        "vocab_size": hf.take("vocab_size"),
        "embed_norm": True,
        "num_segments": hf.take("type_vocab_size", 2),
    }


def stack(hf: Keys, **choices: Any) -> StackConfig:
    hf.expect("position_embedding_type", "absolute")
    common = {
        "d_model": hf.take("hidden_size"),
        "num_layers": hf.take("num_hidden_layers"),
        "num_heads": hf.take("num_attention_heads"),
        "d_ff": hf.take("intermediate_size"),
        "max_len": hf.take("max_position_embeddings"),
        "positions": "learned",
        "norm_order": "post",
        "norm_eps": hf.take("layer_norm_eps", 1e-12),
        "dropout": hf.take("hidden_dropout_prob", 0.1),
        "attention_dropout": hf.take("attention_probs_dropout_prob", 0.1),
        "ffn_dropout": 0.0,
    }
    return StackConfig(**{**common, **choices})


def attention(theirs: str, ours: str) -> dict[str, str]:
    return {
        f"encoder.layer.{{i}}.{theirs}.self.query.*": f"encoder.blocks.{{i}}.{ours}.q.*",
        f"encoder.layer.{{i}}.{theirs}.self.key.*": f"encoder.blocks.{{i}}.{ours}.k.*",
        f"encoder.layer.{{i}}.{theirs}.self.value.*": f"encoder.blocks.{{i}}.{ours}.v.*",
        f"encoder.layer.{{i}}.{theirs}.output.dense.*": f"encoder.blocks.{{i}}.{ours}.out.*",
        f"encoder.layer.{{i}}.{theirs}.output.LayerNorm.*": f"encoder.blocks.{{i}}.{ours}_norm.*",
    }


weights = {
    "embeddings.word_embeddings.weight": "encoder.embed.tokens.weight",
    "embeddings.position_embeddings.weight": "encoder.embed.positions.weight",
    "embeddings.token_type_embeddings.weight": "encoder.embed.segments.weight",
    "embeddings.LayerNorm.*": "encoder.embed.norm.*",
    **attention("attention", "attn"),
    "encoder.layer.{i}.intermediate.dense.*": "encoder.blocks.{i}.ffn.up.*",
    "encoder.layer.{i}.output.dense.*": "encoder.blocks.{i}.ffn.down.*",
    "encoder.layer.{i}.output.LayerNorm.*": "encoder.blocks.{i}.ffn_norm.*",
}

# Cross-attention, where BERT is a decoder: see `vision_encoder_decoder.py`.
cross = attention("crossattention", "cross")


def masked_lm(stem: str, *, dense: str = "dense", norm: str = "LayerNorm") -> Callable[[TransformerConfig], NameTable]:
    """The masked language head. Its bias has two names in files: a tied head stores one of them, an untied one both."""

    def table(config: TransformerConfig) -> NameTable:
        first: NameTable = {f"{stem}{dense}.*": "head.project.*", f"{stem}{norm}.*": "head.norm.*"}
        if config.tie_embeddings:
            return {**first, f"{stem}decoder.weight": "head.out.weight", f"{stem}bias": "head.out.bias"}
        return {**first, f"{stem}decoder.*": "head.out.*", f"{stem}bias": fixed("head.out.bias")}

    return table


POOLER = {"^pooler.dense.*": "head.project.*"}
POOLED = {"pooling": "first", "head_activation": "tanh"}
heads = {
    "pool": TransformersHead("BertModel", POOLER, POOLED),
    "language": TransformersHead(
        "BertForMaskedLM",
        masked_lm("cls.predictions.", dense="transform.dense", norm="transform.LayerNorm"),
        {"head_norm": True, "head_bias": True},
    ),
    "class": TransformersHead("BertForSequenceClassification", {**POOLER, "classifier.*": "head.out.*"}, POOLED),
    "token": TransformersHead("BertForTokenClassification", {"classifier.*": "head.out.*"}),
    "span": TransformersHead("BertForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
}


def resembles(config: TransformerConfig) -> bool:
    return reads_text_alone(config) and config.last_stack.norm_order == "post"


def reads_text_alone(config: TransformerConfig) -> bool:
    """Whether a model is an encoder-only text model."""
    return config.decoder is None and config.patches is None


def describe(config: TransformerConfig) -> dict[str, Any]:
    return {
        **described(config),
        "type_vocab_size": max(1, config.num_segments),  # BERT always adds row 0
        "classifier_dropout": config.head_dropout,
    }


def described(config: TransformerConfig) -> dict[str, Any]:
    """The keys that all BERT-like families share."""
    stack = config.last_stack
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": stack.d_model,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "intermediate_size": stack.d_ff,
        "max_position_embeddings": stack.max_len,
        "hidden_act": activation_name(stack.activation),
        "layer_norm_eps": stack.norm_eps,
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": stack.attention_dropout,
    }
