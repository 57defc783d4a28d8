"""GIT (Wang et al., 2022): the vectors of CLIP's image encoder are a prefix to the tokens of a causal BERT."""

from typing import Any

from glassformer.config import ImageConfig, TransformerConfig
from glassformer.families import bert, clip_vision
from glassformer.families.clip_text import described, stack
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, prefixed

model_types = ("git",)
prefix = "git."
ignored = ("embeddings.position_ids", "image_encoder.vision_model.embeddings.position_ids")


def config(hf: Keys) -> TransformerConfig:
    hf.expect("num_image_with_embedding")  # video: one embedding per frame
    image = hf.part("vision_config")
    image.ignore("dropout", "projection_dim")
    activation = hf.activation("hidden_act", "gelu")
    hf.ignore("classifier_dropout")
    whole = TransformerConfig(
        **hf.common(tied=False, language={"head_bias": True}),
        vocab_size=hf.take("vocab_size"),
        embed_norm=True,
        memory="prefix",
        memory_project="linear_norm",
        image=ImageConfig(
            size=image.square("image_size", 224),
            patch=image.square("patch_size", 16),
            channels=image.take("num_channels", 3),
            patch_bias=False,
            embed_norm=True,
        ),
        encoder=stack(image, width=768, layers=12, heads=12),
        decoder=bert.stack(hf, activation=activation),
    )
    image.finish()
    return whole


weights: NameTable = {
    **prefixed("image_encoder.vision_model.", {**clip_vision.weights, "post_layernorm.*": "encoder.norm.*"}),
    "visual_projection.visual_projection.0.*": "memory.project.*",
    "visual_projection.visual_projection.1.*": "memory.norm.*",
    **prefixed("", bert.weights, stack="decoder"),
}
heads = {
    "none": TransformersHead("GitModel"),
    "language": TransformersHead("GitForCausalLM", {"output.*": "head.out.*"}),
}


def resembles(config: TransformerConfig) -> bool:
    return config.image is not None and config.prefix


def describe(config: TransformerConfig) -> dict[str, Any]:
    image, encoder = config.image, config.encoder
    assert image is not None
    assert encoder is not None
    seen = described(TransformerConfig(image=image, encoder=encoder, head="none"))
    return {
        **bert.described(config),
        "vision_config": {
            "model_type": "git_vision_model",
            **{key: value for key, value in seen.items() if key != "projection_dim"},
            "image_size": image.size,
            "patch_size": image.patch,
            "num_channels": image.channels,
        },
    }
