"""BART (Lewis et al., 2020): the original encoder-decoder, post-norm, with learned positions and GELU. mBART, Marian
and M2M100 differ in norms and positions and reuse this page."""

from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, leading

model_types = ("bart",)
prefix = "model."
ignored = (
    "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "encoder.version", "decoder.version", "shared.weight",
)  # fmt: skip


def config(hf: Keys) -> TransformerConfig:
    hf.expect("normalize_before", False)
    hf.expect("normalize_embedding", True)
    positions = {"positions": "learned", "position_offset": 2}
    return model_config(hf, embed_norm=True, stack={"norm_order": "post", **positions})


def model_config(hf: Keys, *, stack: dict[str, Any], **choices: Any) -> TransformerConfig:
    """The config of a BART-like family; `stack` and `choices` hold its differences."""
    hf.ignore("num_hidden_layers", "classif_dropout", "extra_pos_embeddings", "save_step", "add_bias_logits")
    hf.ignore("add_final_layer_norm", "static_position_embeddings", "normalize_before", "normalize_embedding")
    both = {
        "d_model": hf.take("d_model"),
        "max_len": hf.take("max_position_embeddings"),
        "activation": hf.activation("activation_function", "gelu"),
        "dropout": hf.take("dropout", 0.1),
        "attention_dropout": hf.take("attention_dropout", 0.0),
        "ffn_dropout": hf.take("activation_dropout", 0.0),
        **stack,
    }
    encoder, decoder = (
        StackConfig(
            num_layers=hf.take(f"{side}_layers"),
            num_heads=hf.take(f"{side}_attention_heads"),
            d_ff=hf.take(f"{side}_ffn_dim"),
            **both,
        )
        for side in ("encoder", "decoder")
    )
    common = {
        "vocab_size": hf.take("vocab_size"),
        "scale_embeddings": hf.take("scale_embedding", False),
        "head_dropout": hf.take("classifier_dropout", 0.0),
    }
    return TransformerConfig(**{**hf.common(), **common, "encoder": encoder, "decoder": decoder, **choices})


def stack_weights(stack: str) -> dict[str, str]:
    """The weight names of one stack; only the decoder has cross-attention."""
    theirs, ours = stack + ".layers.{i}.", stack + ".blocks.{i}."
    table: dict[str, str] = {}
    for name, part in (("self_attn", "attn"), ("encoder_attn", "cross")):
        if stack == "decoder" or part == "attn":
            table |= {f"{theirs}{name}.{p}_proj.*": f"{ours}{part}.{p}.*" for p in "qkv"}
            table[f"{theirs}{name}.out_proj.*"] = f"{ours}{part}.out.*"
            table[f"{theirs}{name}_layer_norm.*"] = f"{ours}{part}_norm.*"
    return {
        f"{stack}.embed_positions.weight": f"{stack}.embed.positions.weight",
        f"{stack}.layernorm_embedding.*": f"{stack}.embed.norm.*",
        **table,
        f"{theirs}fc1.*": f"{ours}ffn.up.*",
        f"{theirs}fc2.*": f"{ours}ffn.down.*",
        f"{theirs}final_layer_norm.*": f"{ours}ffn_norm.*",
        f"{stack}.layer_norm.*": f"{stack}.norm.*",
    }


weights: NameTable = {
    "shared.weight": "encoder.embed.tokens.weight",
    **stack_weights("encoder"),
    **stack_weights("decoder"),
}
LANGUAGE: NameTable = {
    "lm_head.weight": "head.out.weight",
    "final_logits_bias": leading("head.out.bias", zero_if_absent=True),
}


def heads_of(name: str) -> dict[str, TransformersHead]:
    dense: NameTable = {"classification_head.dense.*": "head.project.*", "classification_head.out_proj.*": "head.out.*"}
    return {
        "none": TransformersHead(f"{name}Model"),
        "language": TransformersHead(f"{name}ForConditionalGeneration", LANGUAGE, {"head_bias": True}),
        "class": TransformersHead(
            f"{name}ForSequenceClassification", dense, {"pooling": "end", "head_activation": "tanh"}
        ),
        "span": TransformersHead(f"{name}ForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
    }


heads = heads_of("Bart")
