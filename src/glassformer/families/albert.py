"""ALBERT (Lan et al., 2020): BERT with one shared block for all layers, and embeddings narrower than the stack."""

from glassformer.config import TransformerConfig
from glassformer.families import bert
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead

model_types = ("albert",)
prefix = "albert."
ignored = ("embeddings.position_ids", "pooler.*", "predictions.decoder.bias", "sop_classifier.*")
reads = {"AlbertForPreTraining": "language"}


def config(hf: Keys) -> TransformerConfig:
    hf.expect("inner_group_num", 1)
    hf.ignore("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor", "embedding_dropout_prob")
    activation = hf.activation("hidden_act", "gelu_new")
    return TransformerConfig(
        **hf.common(language={"head_activation": activation}),
        **bert.embedding(hf),
        embed_dim=hf.take("embedding_size", 128),
        head_dropout=hf.take("classifier_dropout_prob", 0.1),
        encoder=bert.stack(hf, activation=activation, num_blocks=hf.take("num_hidden_groups", 1)),
    )


_BLOCK = "encoder.albert_layer_groups.{i}.albert_layers.0."
weights = {
    **{name: place for name, place in bert.weights.items() if name.startswith("embeddings.")},
    "encoder.embedding_hidden_mapping_in.*": "encoder.embed.project.*",
    _BLOCK + "attention.query.*": "encoder.blocks.{i}.attn.q.*",
    _BLOCK + "attention.key.*": "encoder.blocks.{i}.attn.k.*",
    _BLOCK + "attention.value.*": "encoder.blocks.{i}.attn.v.*",
    _BLOCK + "attention.dense.*": "encoder.blocks.{i}.attn.out.*",
    _BLOCK + "attention.LayerNorm.*": "encoder.blocks.{i}.attn_norm.*",
    _BLOCK + "ffn.*": "encoder.blocks.{i}.ffn.up.*",
    _BLOCK + "ffn_output.*": "encoder.blocks.{i}.ffn.down.*",
    _BLOCK + "full_layer_layer_norm.*": "encoder.blocks.{i}.ffn_norm.*",
}
_POOLER = {"^pooler.*": "head.project.*"}
heads = {
    "pool": TransformersHead("AlbertModel", _POOLER, bert.POOLED),
    "language": TransformersHead(
        "AlbertForMaskedLM",
        bert.masked_lm("predictions."),
        {"head_norm": True, "head_bias": True},
    ),
    "class": TransformersHead(
        "AlbertForSequenceClassification", {**_POOLER, "classifier.*": "head.out.*"}, bert.POOLED
    ),
    "token": TransformersHead("AlbertForTokenClassification", {"classifier.*": "head.out.*"}),
    "span": TransformersHead("AlbertForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
}
