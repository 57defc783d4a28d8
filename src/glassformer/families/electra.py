"""ELECTRA (Clark et al., 2020): BERT's encoder, trained to detect replaced tokens; its embeddings may be narrower."""

from glassformer.config import TransformerConfig
from glassformer.families import bert
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead

model_types = ("electra",)
prefix = "electra."
ignored = ("embeddings.position_ids", "discriminator_predictions.*")
reads = {"ElectraForPreTraining": "none"}


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("summary_activation", "summary_last_dropout", "summary_type", "summary_use_proj")
    width = hf.take("embedding_size", 128)
    return TransformerConfig(
        **hf.common(),
        **bert.embedding(hf),
        embed_dim=None if width == hf.take("hidden_size") else width,
        head_dropout=hf.take("classifier_dropout", hf.take("hidden_dropout_prob", 0.1)),
        encoder=bert.stack(hf, activation=hf.activation("hidden_act", "gelu")),
    )


weights = {**bert.weights, "embeddings_project.*": "encoder.embed.project.*"}
heads = {
    "none": TransformersHead("ElectraModel"),
    "language": TransformersHead(
        "ElectraForMaskedLM",
        {
            "generator_predictions.dense.*": "head.project.*",
            "generator_predictions.LayerNorm.*": "head.norm.*",
            "generator_lm_head.*": "head.out.*",
        },
        {"head_activation": "gelu", "head_norm": True, "head_bias": True},
    ),
    "class": TransformersHead(
        "ElectraForSequenceClassification",
        {"classifier.dense.*": "head.project.*", "classifier.out_proj.*": "head.out.*"},
        {"pooling": "first", "head_activation": "gelu"},
    ),
    "token": TransformersHead("ElectraForTokenClassification", {"classifier.*": "head.out.*"}),
    "span": TransformersHead("ElectraForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
}
