"""ViT (Dosovitskiy et al., 2021): a pre-norm encoder of an image as a sequence of patches."""

from typing import Any

from glassformer.config import ImageConfig, StackConfig, TransformerConfig
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead
from glassformer.families.table import leading

model_types = ("vit",)
prefix = "vit."
ignored = ("pooler.dense.*",)


def config(hf: Keys, **image: Any) -> TransformerConfig:
    hf.ignore("encoder_stride")
    if hf.head == "pool":
        hf.expect("pooler_output_size", hf.take("hidden_size"))
    hf.ignore("pooler_output_size")
    return TransformerConfig(
        **hf.common(pool={"head_activation": hf.activation("pooler_act", "tanh")}),
        pooling="first",
        image=ImageConfig(
            size=hf.square("image_size"), patch=hf.square("patch_size"), channels=hf.take("num_channels", 3), **image
        ),
        encoder=StackConfig(
            d_model=hf.take("hidden_size"),
            num_layers=hf.take("num_hidden_layers"),
            num_heads=hf.take("num_attention_heads"),
            d_ff=hf.take("intermediate_size"),
            positions="learned",
            norm_eps=hf.take("layer_norm_eps", 1e-12),
            activation=hf.activation("hidden_act", "gelu"),
            qkv_bias=hf.take("qkv_bias", True),
            dropout=hf.take("hidden_dropout_prob", 0.0),
            attention_dropout=hf.take("attention_probs_dropout_prob", 0.0),
            ffn_dropout=0.0,
        ),
    )


weights = {
    "embeddings.cls_token": "encoder.embed.class_token",
    "embeddings.patch_embeddings.projection.*": "encoder.embed.patches.*",
    "embeddings.position_embeddings": leading("encoder.embed.positions.weight"),
    "encoder.layer.{i}.layernorm_before.*": "encoder.blocks.{i}.attn_norm.*",
    "encoder.layer.{i}.attention.attention.query.*": "encoder.blocks.{i}.attn.q.*",
    "encoder.layer.{i}.attention.attention.key.*": "encoder.blocks.{i}.attn.k.*",
    "encoder.layer.{i}.attention.attention.value.*": "encoder.blocks.{i}.attn.v.*",
    "encoder.layer.{i}.attention.output.dense.*": "encoder.blocks.{i}.attn.out.*",
    "encoder.layer.{i}.layernorm_after.*": "encoder.blocks.{i}.ffn_norm.*",
    "encoder.layer.{i}.intermediate.dense.*": "encoder.blocks.{i}.ffn.up.*",
    "encoder.layer.{i}.output.dense.*": "encoder.blocks.{i}.ffn.down.*",
    "layernorm.*": "encoder.norm.*",
}
heads = {
    "pool": TransformersHead("ViTModel", {"^pooler.dense.*": "head.project.*"}),
    "class": TransformersHead("ViTForImageClassification", {"classifier.*": "head.out.*"}),
}


def resembles(config: TransformerConfig) -> bool:
    return config.image is not None and config.decoder is None and not config.image.embed_norm


def describe(config: TransformerConfig) -> dict[str, Any]:
    stack, image = config.last_stack, config.image
    assert image is not None
    return {
        "image_size": image.size,
        "patch_size": image.patch,
        "num_channels": image.channels,
        "hidden_size": stack.d_model,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "intermediate_size": stack.d_ff,
        "hidden_act": activation_name(stack.activation),
        "layer_norm_eps": stack.norm_eps,
        "qkv_bias": stack.qkv_bias,
        "pooler_act": activation_name(config.head_activation or "tanh"),
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": stack.attention_dropout,
    }
