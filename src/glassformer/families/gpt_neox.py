"""GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023): attention and feed-forward in parallel, each
with its own norm; rotary positions on a quarter of every head."""

from glassformer.config import LayerKind, StackConfig, TransformerConfig
from glassformer.errors import InputError
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead
from glassformer.families.table import split

model_types = ("gpt_neox",)
prefix = "gpt_neox."
ignored = ("layers.*.attention.rotary_emb.inv_freq", "layers.*.attention.bias", "layers.*.attention.masked_bias")


def config(hf: Keys) -> TransformerConfig:
    biased = hf.take("attention_bias", True)
    parallel, turning = hf.take("use_parallel_residual", True), hf.rotary_fraction(0.25)
    turning_dims = int(hf.take("hidden_size") // hf.take("num_attention_heads") * turning)
    if turning_dims % 2:
        raise InputError(
            f"rotary_pct is {turning}, which rotates {turning_dims} dimensions of a head: expected an even number"
        )
    return TransformerConfig(
        **hf.common(tied=False),
        vocab_size=hf.take("vocab_size"),
        head_dropout=hf.take("classifier_dropout", 0.1),
        decoder=StackConfig(
            d_model=hf.take("hidden_size"),
            num_layers=hf.take("num_hidden_layers"),
            num_heads=hf.take("num_attention_heads"),
            d_ff=hf.take("intermediate_size"),
            max_len=hf.take("max_position_embeddings"),
            block="parallel_two_norms" if parallel else "serial",
            positions="rotary",
            rotary_fraction=turning,
            layer_kinds=(LayerKind(**hf.rotary()),),
            norm_eps=hf.take("layer_norm_eps", 1e-5),
            activation=hf.activation("hidden_act", "gelu"),
            qkv_bias=biased,
            out_bias=biased,
            dropout=hf.take("hidden_dropout", 0.0),
            attention_dropout=hf.take("attention_dropout", 0.0),
            ffn_dropout=0.0,
        ),
    )


weights = {
    "embed_in.weight": "decoder.embed.tokens.weight",
    "layers.{i}.input_layernorm.*": "decoder.blocks.{i}.attn_norm.*",
    "layers.{i}.attention.query_key_value.*": split("decoder.blocks.{i}.attn.{q,k,v}.*", by_group=True),
    "layers.{i}.attention.dense.*": "decoder.blocks.{i}.attn.out.*",
    "layers.{i}.post_attention_layernorm.*": "decoder.blocks.{i}.ffn_norm.*",
    "layers.{i}.mlp.dense_h_to_4h.*": "decoder.blocks.{i}.ffn.up.*",
    "layers.{i}.mlp.dense_4h_to_h.*": "decoder.blocks.{i}.ffn.down.*",
    "final_layer_norm.*": "decoder.norm.*",
}
heads = {
    "none": TransformersHead("GPTNeoXModel"),
    "language": TransformersHead("GPTNeoXForCausalLM", {"embed_out.weight": "head.out.weight"}),
    "class": TransformersHead(
        "GPTNeoXForSequenceClassification", {"score.weight": "head.out.weight"}, {"head_bias": False, "pooling": "last"}
    ),
    "token": TransformersHead("GPTNeoXForTokenClassification", {"classifier.*": "head.out.*"}),
    "span": TransformersHead("GPTNeoXForQuestionAnswering", {"qa_outputs.*": "head.out.*"}),
}
