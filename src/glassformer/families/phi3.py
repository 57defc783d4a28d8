"""Phi-3 (Abdin et al., 2024): LLaMA with q, k and v stored as one matrix, and longrope for long texts."""

from glassformer.config import LayerKind, TransformerConfig
from glassformer.families import llama
from glassformer.families.keys import Keys
from glassformer.families.table import split

model_types = ("phi3",)
prefix, ignored = llama.prefix, llama.ignored
heads = {kind: head for kind, head in llama.heads_of("Phi3").items() if kind != "span"}


def config(hf: Keys) -> TransformerConfig:
    hf.expect("attention_bias", False)
    hf.ignore("original_max_position_embeddings", "full_attn_mod")
    kind = LayerKind(window=hf.take("sliding_window", None), **hf.rotary())
    return TransformerConfig(
        **hf.common(tied=False),
        vocab_size=hf.take("vocab_size"),
        decoder=llama.stack(
            hf,
            layer_kinds=(kind,),
            norm_eps=hf.take("rms_norm_eps", 1e-5),
            rotary_fraction=hf.rotary_fraction(),
            dropout=hf.take("resid_pdrop", 0.0),
            embed_dropout=hf.take("embd_pdrop", 0.0),
            ffn_dropout=0.0,
        ),
    )


weights = {
    **{name: place for name, place in llama.weights.items() if "_proj" not in name},
    "layers.{i}.self_attn.qkv_proj.weight": split("decoder.blocks.{i}.attn.{q,k,v}.weight"),
    "layers.{i}.self_attn.o_proj.weight": "decoder.blocks.{i}.attn.out.weight",
    "layers.{i}.mlp.gate_up_proj.weight": split("decoder.blocks.{i}.ffn.{gate,up}.weight"),
    "layers.{i}.mlp.down_proj.weight": "decoder.blocks.{i}.ffn.down.weight",
}
