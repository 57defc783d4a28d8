"""GPT-2 (Radford et al., 2019): a pre-norm decoder with learned positions and tied embeddings."""

from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.families.keys import Keys, activation_name
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, split, transposed
from glassformer.schema import OPEN

model_types = ("gpt2",)
prefix = "transformer."
ignored = ("h.*.attn.bias", "h.*.attn.masked_bias")  # the causal mask, stored in older files


def config(hf: Keys) -> TransformerConfig:
    hf.expect("scale_attn_by_inverse_layer_idx", False)
    hf.expect("add_cross_attention", False)
    hf.ignore("reorder_and_upcast_attn", "n_ctx")
    hf.ignore(
        "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"
    )
    return TransformerConfig(
        **hf.common(),
        vocab_size=hf.take("vocab_size"),
        decoder=StackConfig(
            d_model=hf.take("n_embd"),
            num_layers=hf.take("n_layer"),
            num_heads=hf.take("n_head"),
            d_ff=hf.take("n_inner", 4 * hf.take("n_embd")),
            max_len=hf.take("n_positions"),
            positions="learned",
            norm_eps=hf.take("layer_norm_epsilon", 1e-5),
            activation=hf.activation("activation_function", "gelu_new"),
            attention_scale=OPEN if hf.take("scale_attn_weights", True) else 1.0,
            dropout=hf.take("resid_pdrop", 0.1),
            attention_dropout=hf.take("attn_pdrop", 0.1),
            embed_dropout=hf.take("embd_pdrop", 0.1),
            ffn_dropout=0.0,
        ),
    )


weights: NameTable = {
    "wte.weight": "decoder.embed.tokens.weight",
    "wpe.weight": "decoder.embed.positions.weight",
    "h.{i}.ln_1.*": "decoder.blocks.{i}.attn_norm.*",
    "h.{i}.attn.c_attn.*": split("decoder.blocks.{i}.attn.{q,k,v}.*", transposed=True),
    "h.{i}.attn.c_proj.*": transposed("decoder.blocks.{i}.attn.out.*"),
    "h.{i}.ln_2.*": "decoder.blocks.{i}.ffn_norm.*",
    "h.{i}.mlp.c_fc.*": transposed("decoder.blocks.{i}.ffn.up.*"),
    "h.{i}.mlp.c_proj.*": transposed("decoder.blocks.{i}.ffn.down.*"),
    "ln_f.*": "decoder.norm.*",
}
# Cross-attention, where GPT-2 is the decoder: see `vision_encoder_decoder.py`.
cross: NameTable = {
    "h.{i}.ln_cross_attn.*": "decoder.blocks.{i}.cross_norm.*",
    "h.{i}.crossattention.q_attn.*": transposed("decoder.blocks.{i}.cross.q.*"),
    "h.{i}.crossattention.c_attn.*": split("decoder.blocks.{i}.cross.{k,v}.*", transposed=True),
    "h.{i}.crossattention.c_proj.*": transposed("decoder.blocks.{i}.cross.out.*"),
}
heads = {
    "none": TransformersHead("GPT2Model"),
    "language": TransformersHead("GPT2LMHeadModel", {"lm_head.weight": "head.out.weight"}),
    "class": TransformersHead(
        "GPT2ForSequenceClassification", {"score.weight": "head.out.weight"}, {"head_bias": False, "pooling": "last"}
    ),
    "token": TransformersHead("GPT2ForTokenClassification", {"classifier.*": "head.out.*"}),
    "span": TransformersHead("GPT2ForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
}


def resembles(config: TransformerConfig) -> bool:
    stack = config.decoder
    plain = stack is not None and stack.positions != "rotary" and stack.norm == "layer"
    return plain and config.encoder is None and config.head != "pool"


def describe(config: TransformerConfig) -> dict[str, Any]:
    stack = config.last_stack
    return {
        "vocab_size": config.vocab_size,
        "n_embd": stack.d_model,
        "n_layer": stack.num_layers,
        "n_head": stack.num_heads,
        "n_inner": stack.d_ff,
        "n_positions": stack.max_len,
        "layer_norm_epsilon": stack.norm_eps,
        "activation_function": activation_name(stack.activation),
        "scale_attn_weights": stack.attention_scale != 1.0,
        "resid_pdrop": stack.dropout,
        "attn_pdrop": stack.attention_dropout,
        "embd_pdrop": stack.embed_dropout,
    }
