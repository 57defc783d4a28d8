"""PatchTST (Nie et al., 2023): a series as a sequence of patches, each channel on its own, with LayerNorm.

Not supported: batch norm over all windows (the published default), and the classifier, which combines channels.
"""

from typing import Any

from glassformer.config import SeriesConfig, StackConfig, TransformerConfig
from glassformer.errors import InputError
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead

model_types = ("patchtst",)
prefix = "model."


def config(hf: Keys) -> TransformerConfig:
    for key, allowed in (("channel_attention", False), ("use_cls_token", False), ("share_embedding", True)):
        hf.expect(key, allowed)
    hf.expect("do_mask_input", False)
    hf.ignore("mask_type", "random_mask_ratio", "num_forecast_mask_patches", "channel_consistent_masking")
    hf.ignore("unmasked_channel_indices", "mask_value", "num_parallel_samples", "distribution_output", "output_range")
    hf.ignore("num_targets", "pooling_type", "loss", "share_projection")
    hf.ignore("positional_encoding_type")  # how the stored table was initialised
    expect_or_absent(hf, "norm_type", "batchnorm", "layernorm")
    scaling = expect_or_absent(hf, "scaling", "std", "std", None, False)
    if hf.head == "forecast":
        hf.expect("loss", "mse")
        hf.expect("share_projection", True)
        expect_or_absent(hf, "pooling_type", "mean", None)
    length, patch = hf.take("context_length", 32), hf.take("patch_length", 1)
    if patch >= length:
        raise InputError(f"{hf.name}: patch_length is {patch}: expected less than context_length = {length}")
    return TransformerConfig(
        **hf.common(),
        head_dropout=hf.take("head_dropout", 0.0),
        series=SeriesConfig(
            length=length,
            patch=patch,
            stride=hf.take("patch_stride", 1),
            horizon=hf.take("prediction_length", 24),
            channels=hf.take("num_input_channels", 1),
            instance_norm=scaling == "std",
        ),
        encoder=StackConfig(
            d_model=hf.take("d_model", 128, also=("hidden_size",)),
            num_layers=hf.take("num_hidden_layers", 3),
            num_heads=hf.take("num_attention_heads", 4),
            d_ff=hf.take("ffn_dim", 512),
            positions="learned",
            norm_order="pre" if hf.take("pre_norm", True) else "post",
            norm_eps=hf.take("norm_eps", 1e-5),
            final_norm=False,
            activation=hf.activation("activation_function", "gelu"),
            ffn_bias=hf.take("bias", True),
            dropout=hf.take("path_dropout", 0.0),
            attention_dropout=hf.take("attention_dropout", 0.0),
            ffn_dropout=hf.take("ff_dropout", 0.0),
            embed_dropout=hf.take("positional_dropout", 0.0),
        ),
    )


def expect_or_absent(hf: Keys, key: str, default: Any, *allowed: Any) -> Any:
    """`Keys.expect` for a key whose default or null is not always allowed."""
    hf.ignore(key)
    value = hf.values.get(key, default)
    if value not in allowed:
        wanted = " or ".join(repr(choice) for choice in allowed)
        raise InputError(f"{hf.name}: {key} is {value!r}, but only {wanted} is supported for this model")
    return value


weights = {
    "encoder.embedder.input_embedding.*": "encoder.embed.patches.*",
    "encoder.positional_encoder.position_enc": "encoder.embed.positions.weight",
    "encoder.layers.{i}.self_attn.q_proj.*": "encoder.blocks.{i}.attn.q.*",
    "encoder.layers.{i}.self_attn.k_proj.*": "encoder.blocks.{i}.attn.k.*",
    "encoder.layers.{i}.self_attn.v_proj.*": "encoder.blocks.{i}.attn.v.*",
    "encoder.layers.{i}.self_attn.out_proj.*": "encoder.blocks.{i}.attn.out.*",
    "encoder.layers.{i}.norm_sublayer1.*": "encoder.blocks.{i}.attn_norm.*",
    "encoder.layers.{i}.ff.0.*": "encoder.blocks.{i}.ffn.up.*",
    "encoder.layers.{i}.ff.3.*": "encoder.blocks.{i}.ffn.down.*",
    "encoder.layers.{i}.norm_sublayer3.*": "encoder.blocks.{i}.ffn_norm.*",
}
heads = {
    "none": TransformersHead("PatchTSTModel"),
    "forecast": TransformersHead("PatchTSTForPrediction", {"head.projection.*": "head.out.*"}),
}


def resembles(config: TransformerConfig) -> bool:
    return config.series is not None and config.decoder is None


def describe(config: TransformerConfig) -> dict[str, Any]:
    stack, series = config.last_stack, config.series
    assert series is not None
    return {
        "context_length": series.length,
        "patch_length": series.patch,
        "patch_stride": series.stride,
        "prediction_length": series.horizon,
        "num_input_channels": series.channels or 1,
        "scaling": "std" if series.instance_norm else None,
        "d_model": stack.d_model,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "ffn_dim": stack.d_ff,
        "norm_type": "layernorm",
        "pre_norm": stack.norm_order != "post",
        "norm_eps": stack.norm_eps,
        "activation_function": activation_name(stack.activation),
        "bias": stack.ffn_bias,
        "positional_encoding_type": "random",
        "pooling_type": None,
        "loss": "mse",
        "path_dropout": stack.dropout,
        "attention_dropout": stack.attention_dropout,
        "ff_dropout": stack.ffn_dropout,
        "positional_dropout": stack.embed_dropout,
        "head_dropout": config.head_dropout,
    }
