"""RoBERTa and XLM-RoBERTa (Liu et al., 2019; Conneau et al., 2020): BERT trained longer, with one segment,
and with positions that start after the padding id."""

from glassformer.config import TransformerConfig
from glassformer.families import bert
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead

model_types = ("roberta", "xlm-roberta")
prefix = "roberta."
ignored = (*bert.ignored, "lm_head.decoder.bias")
weights = bert.weights


def config(hf: Keys) -> TransformerConfig:
    offset = hf.take("pad_token_id", 1) + 1
    return TransformerConfig(
        **hf.common(),
        **bert.embedding(hf),
        head_dropout=hf.take("classifier_dropout", hf.take("hidden_dropout_prob", 0.1)),
        encoder=bert.stack(
            hf,
            activation=hf.activation("hidden_act", "gelu"),
            position_offset=offset,
            max_len=hf.take("max_position_embeddings") - offset,
        ),
    )


def heads_of(name: str) -> dict[str, TransformersHead]:
    return {
        "pool": TransformersHead(f"{name}Model", bert.POOLER, bert.POOLED),
        "language": TransformersHead(
            f"{name}ForMaskedLM",
            bert.masked_lm("lm_head.", norm="layer_norm"),
            {"head_activation": "gelu", "head_norm": True, "head_bias": True},
        ),
        "class": TransformersHead(
            f"{name}ForSequenceClassification",
            {"classifier.dense.*": "head.project.*", "classifier.out_proj.*": "head.out.*"},
            bert.POOLED,
        ),
        "token": TransformersHead(f"{name}ForTokenClassification", {"classifier.*": "head.out.*"}),
        "span": TransformersHead(f"{name}ForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
    }


heads = {"roberta": heads_of("Roberta"), "xlm-roberta": heads_of("XLMRoberta")}
