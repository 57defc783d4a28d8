"""BLIP (Li et al., 2022) for captions: a ViT with a fused q, k, v matrix, and a BERT decoder with cross-attention."""

from typing import Any

from glassformer.config import ImageConfig, TransformerConfig
from glassformer.families import bert
from glassformer.families.clip_text import blocks, described, stack
from glassformer.families.keys import TOKEN_ID_KEYS, Keys, token_ids
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, leading, prefixed, split

model_types = ("blip",)
ignored = (
    "vision_model.embeddings.position_ids", "text_decoder.bert.embeddings.position_ids",
    "text_decoder.cls.predictions.decoder.bias",
)  # fmt: skip
fixed_tokens = ("eos_token_id", "decoder_start_token_id")  # a caption starts with bos and ends with sep
PROJECTIONS = ("projection_dim", "logit_scale_init_value", "image_text_hidden_size", "label_smoothing")


def config(hf: Keys) -> TransformerConfig:
    hf.ignore(*PROJECTIONS, "tie_word_embeddings", *TOKEN_ID_KEYS)
    image = hf.part("vision_config")
    text = hf.part("text_config", head=hf.head, choices=bert.heads["language"].choices, without=("is_decoder",))
    for part in (image, text):
        part.ignore(*PROJECTIONS, "dropout", "encoder_hidden_size")
    activation = text.activation("hidden_act", "gelu")
    common = text.common(language={"head_activation": activation})
    end = token_ids(text.values.get("sep_token_id", 102), text.values)  # the last token of a caption
    first = common["bos_token_id"]
    whole = TransformerConfig(
        **{**common, "eos_token_id": end, "decoder_start_token_id": first},
        vocab_size=text.take("vocab_size"),
        embed_norm=True,
        image=ImageConfig(
            size=image.square("image_size", 384),
            patch=image.square("patch_size", 16),
            channels=image.take("num_channels", 3),
        ),
        encoder=stack(image, width=768, layers=12, heads=12, activation="gelu"),
        decoder=bert.stack(text, activation=activation),
    )
    for part in (image, text):
        part.finish()
    return whole


def weights(config: TransformerConfig) -> NameTable:
    own = {name: place for name, place in blocks("encoder").items() if "_proj" not in name}
    image: NameTable = {
        "embeddings.class_embedding": "encoder.embed.class_token",
        "embeddings.patch_embedding.*": "encoder.embed.patches.*",
        "embeddings.position_embedding": leading("encoder.embed.positions.weight"),
        **own,
        "encoder.layers.{i}.self_attn.qkv.*": split("encoder.blocks.{i}.attn.{q,k,v}.*"),
        "encoder.layers.{i}.self_attn.projection.*": "encoder.blocks.{i}.attn.out.*",
        "post_layernorm.*": "encoder.norm.*",
    }
    text = prefixed("text_decoder.bert.", {**bert.weights, **bert.cross}, stack="decoder")
    return {**prefixed("vision_model.", image), **text}


def language(config: TransformerConfig) -> NameTable:
    return prefixed("text_decoder.", bert.heads["language"].table(config))


heads = {"language": TransformersHead("BlipForConditionalGeneration", language)}


def resembles(config: TransformerConfig) -> bool:
    return config.image is not None and config.cross and config.head_activation is not None and not config.num_segments


def describe(config: TransformerConfig) -> dict[str, Any]:
    tokens = {"bos_token_id": config.decoder_start_token_id, "sep_token_id": config.eos_token_id}
    image, encoder = config.image, config.encoder
    assert image is not None
    assert encoder is not None
    return {
        "text_config": {
            "model_type": "blip_text_model",
            **bert.described(config),
            **tokens,
            "pad_token_id": config.pad_token_id,
            "encoder_hidden_size": encoder.d_model,
            "tie_word_embeddings": config.tie_embeddings,
            "is_decoder": True,
        },
        "vision_config": {
            "model_type": "blip_vision_model",
            **described(TransformerConfig(image=image, encoder=encoder, head="none")),
            "image_size": image.size,
            "patch_size": image.patch,
        },
    }
