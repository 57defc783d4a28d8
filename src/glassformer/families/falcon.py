"""Falcon (Almazrouei et al., 2023): attention and feed-forward in parallel; query heads share keys and values. Falcon
7B has one norm and one k/v head; the newer layout has one k/v head per group of query heads, and one norm or two."""

from glassformer.config import LayerKind, StackConfig, TransformerConfig
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead
from glassformer.families.table import NameTable, split

model_types = ("falcon",)
prefix = "transformer."
ignored = ("h.*.self_attention.rotary_emb.inv_freq", "h.*.self_attention.maybe_rotary.inv_freq")


def config(hf: Keys) -> TransformerConfig:
    hf.expect("apply_residual_connection_post_layernorm", False)
    hf.expect("alibi", False)  # Falcon adds the ALiBi bias before it scales the scores
    new, biased = hf.take("new_decoder_architecture", False), hf.take("bias", False)
    one_pair, parallel = hf.take("multi_query", True), hf.take("parallel_attn", True)
    num_heads, d_model = hf.take("num_attention_heads", also=("n_head",)), hf.take("hidden_size")
    norms = hf.take("num_ln_in_parallel_attn", 2 if new else 1)
    pairs = hf.take("num_kv_heads", num_heads)
    return TransformerConfig(
        **hf.common(),
        vocab_size=hf.take("vocab_size"),
        decoder=StackConfig(
            d_model=d_model,
            num_layers=hf.take("num_hidden_layers", also=("n_layer",)),
            num_heads=num_heads,
            num_kv_heads=pairs if new else 1 if one_pair else num_heads,
            d_ff=hf.take("ffn_hidden_size", 4 * d_model),
            max_len=hf.take("max_position_embeddings", 2048),
            block="serial" if not (new or parallel) else "parallel_two_norms" if new and norms == 2 else "parallel",
            positions="rotary",
            layer_kinds=(LayerKind(**hf.rotary()),),
            norm_eps=hf.take("layer_norm_epsilon", 1e-5),
            activation=hf.activation("activation", "gelu"),
            qkv_bias=biased,
            out_bias=biased,
            ffn_bias=biased,
            dropout=hf.take("hidden_dropout", 0.0),
            attention_dropout=hf.take("attention_dropout", 0.0),
            ffn_dropout=0.0,
        ),
    )


def weights(config: TransformerConfig) -> NameTable:
    two_norms = config.last_stack.block == "parallel_two_norms"
    attn_norm, ffn_norm = ("ln_attn", "ln_mlp") if two_norms else ("input_layernorm", "post_attention_layernorm")
    return {
        "word_embeddings.weight": "decoder.embed.tokens.weight",
        f"h.{{i}}.{attn_norm}.*": "decoder.blocks.{i}.attn_norm.*",
        f"h.{{i}}.{ffn_norm}.*": "decoder.blocks.{i}.ffn_norm.*",
        "h.{i}.self_attention.query_key_value.*": split("decoder.blocks.{i}.attn.{q,k,v}.*", by_group=True),
        "h.{i}.self_attention.dense.*": "decoder.blocks.{i}.attn.out.*",
        "h.{i}.mlp.dense_h_to_4h.*": "decoder.blocks.{i}.ffn.up.*",
        "h.{i}.mlp.dense_4h_to_h.*": "decoder.blocks.{i}.ffn.down.*",
        "ln_f.*": "decoder.norm.*",
    }


heads = {
    "none": TransformersHead("FalconModel"),
    "language": TransformersHead("FalconForCausalLM", {"lm_head.weight": "head.out.weight"}),
    "class": TransformersHead(
        "FalconForSequenceClassification", {"score.weight": "head.out.weight"}, {"head_bias": False, "pooling": "last"}
    ),
    "token": TransformersHead("FalconForTokenClassification", {"classifier.*": "head.out.*"}),
    "span": TransformersHead("FalconForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
}
