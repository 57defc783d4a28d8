"""The image side of CLIP (Radford et al., 2021): a ViT with a norm before its blocks, pooled at its class token.

Read next: `clip.py`, the pair it belongs to.
"""

from typing import Any

from glassformer.config import ImageConfig, TransformerConfig
from glassformer.families.clip_text import blocks, described, stack
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, squeezed

model_types = ("clip_vision_model",)
prefix = "vision_model."
ignored = ("embeddings.position_ids",)


def config(hf: Keys) -> TransformerConfig:
    hf.ignore("dropout")
    pooled_dim = hf.take("projection_dim", 512)
    return TransformerConfig(
        **hf.common(pool={"head_norm": True}),  # normalises only the class token, not the patches
        pooling="first",
        pooled_dim=pooled_dim if "head_bias" in hf.choices else None,
        image=ImageConfig(
            size=hf.square("image_size", 224),
            patch=hf.square("patch_size", 32),
            channels=hf.take("num_channels", 3),
            patch_bias=False,
            embed_norm=True,
        ),
        encoder=stack(hf, width=768, layers=12, heads=12, final_norm=False),
    )


weights: NameTable = {
    "embeddings.class_embedding": squeezed("encoder.embed.class_token"),
    "embeddings.patch_embedding.weight": "encoder.embed.patches.weight",
    "embeddings.position_embedding.weight": "encoder.embed.positions.weight",
    "pre_layrnorm.*": "encoder.embed.norm.*",
    **blocks("encoder"),
}
POOLED = {"^post_layernorm.*": "head.norm.*"}
heads = {
    "pool": TransformersHead("CLIPVisionModel", POOLED),
    "pool_projected": TransformersHead(
        "CLIPVisionModelWithProjection", {**POOLED, "visual_projection.weight": "head.out.weight"}, {"head_bias": False}
    ),
}


def resembles(config: TransformerConfig) -> bool:
    return config.image is not None and config.decoder is None and config.image.embed_norm


def describe(config: TransformerConfig) -> dict[str, Any]:
    assert config.image is not None
    return {
        **described(config),
        "architectures": [heads["pool_projected" if config.pooled_dim else "pool"].architecture],
        "image_size": config.image.size,
        "patch_size": config.image.patch,
        "num_channels": config.image.channels,
    }
