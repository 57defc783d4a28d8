"""DeiT (Touvron et al., 2021): ViT with a second token and a second classifier, trained on a teacher's predictions."""

from glassformer.config import TransformerConfig
from glassformer.families import vit
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead

model_types = ("deit",)
prefix = "deit."
ignored = vit.ignored


def config(hf: Keys) -> TransformerConfig:
    return vit.config(hf, distillation_token=True)


weights = {**vit.weights, "embeddings.distillation_token": "encoder.embed.distillation_token"}
heads = {
    "pool": TransformersHead("DeiTModel", {"^pooler.dense.*": "head.project.*"}),
    "class": TransformersHead("DeiTForImageClassification", {"classifier.*": "head.out.*"}),
    "class_distilled": TransformersHead(
        "DeiTForImageClassificationWithTeacher",
        {"cls_classifier.*": "head.out.*", "distillation_classifier.*": "head.second.*"},
        {"two_classifiers": True},
    ),
}
