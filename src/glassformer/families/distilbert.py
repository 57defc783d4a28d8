"""DistilBERT (Sanh et al., 2019): BERT with half the layers and no segments."""

from glassformer.config import StackConfig, TransformerConfig
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead

model_types = ("distilbert",)
prefix = "distilbert."
ignored = ("embeddings.position_ids",)


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("sinusoidal_pos_embds", "tie_weights_", "qa_dropout")  # initial values and training only
    activation = hf.activation("activation", "gelu")
    return TransformerConfig(
        **hf.common(language={"head_activation": activation}),
        vocab_size=hf.take("vocab_size"),
        embed_norm=True,
        head_dropout=hf.take("seq_classif_dropout", 0.2),
        encoder=StackConfig(
            d_model=hf.take("dim"),
            num_layers=hf.take("n_layers"),
            num_heads=hf.take("n_heads"),
            d_ff=hf.take("hidden_dim"),
            max_len=hf.take("max_position_embeddings"),
            positions="learned",
            norm_order="post",
            norm_eps=1e-12,
            activation=activation,
            dropout=hf.take("dropout", 0.1),
            attention_dropout=hf.take("attention_dropout", 0.1),
            ffn_dropout=0.0,
        ),
    )


weights = {
    "embeddings.word_embeddings.weight": "encoder.embed.tokens.weight",
    "embeddings.position_embeddings.weight": "encoder.embed.positions.weight",
    "embeddings.LayerNorm.*": "encoder.embed.norm.*",
    "transformer.layer.{i}.attention.q_lin.*": "encoder.blocks.{i}.attn.q.*",
    "transformer.layer.{i}.attention.k_lin.*": "encoder.blocks.{i}.attn.k.*",
    "transformer.layer.{i}.attention.v_lin.*": "encoder.blocks.{i}.attn.v.*",
    "transformer.layer.{i}.attention.out_lin.*": "encoder.blocks.{i}.attn.out.*",
    "transformer.layer.{i}.sa_layer_norm.*": "encoder.blocks.{i}.attn_norm.*",
    "transformer.layer.{i}.ffn.lin1.*": "encoder.blocks.{i}.ffn.up.*",
    "transformer.layer.{i}.ffn.lin2.*": "encoder.blocks.{i}.ffn.down.*",
    "transformer.layer.{i}.output_layer_norm.*": "encoder.blocks.{i}.ffn_norm.*",
}
heads = {
    "none": TransformersHead("DistilBertModel"),
    "language": TransformersHead(
        "DistilBertForMaskedLM",
        {
            "vocab_transform.*": "head.project.*",
            "vocab_layer_norm.*": "head.norm.*",
            "vocab_projector.*": "head.out.*",
        },
        {"head_norm": True, "head_bias": True},
    ),
    "class": TransformersHead(
        "DistilBertForSequenceClassification",
        {"pre_classifier.*": "head.project.*", "classifier.*": "head.out.*"},
        {"pooling": "first", "head_activation": "relu"},
    ),
    "token": TransformersHead("DistilBertForTokenClassification", {"classifier.*": "head.out.*"}),
    "span": TransformersHead("DistilBertForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
}
