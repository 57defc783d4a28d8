"""Gemma 2 (Gemma Team, 2024): Gemma with norms around each branch, soft-caps, and a window in every other layer."""

from glassformer.config import LayerKind, TransformerConfig
from glassformer.families import gemma, llama
from glassformer.families.keys import Keys

model_types = ("gemma2",)
prefix, ignored = llama.prefix, llama.ignored
heads = {kind: head for kind, head in llama.heads_of("Gemma2").items() if kind != "span"}


def config(hf: Keys) -> TransformerConfig:
    hf.expect("use_bidirectional_attention", False)
    hf.ignore("cache_implementation", "hidden_act")
    kinds = {
        "full_attention": LayerKind(**hf.rotary()),
        "sliding_attention": LayerKind(window=hf.take("sliding_window", 4096), **hf.rotary()),
    }
    return TransformerConfig(
        **hf.common(),
        vocab_size=hf.take("vocab_size"),
        scale_embeddings=True,
        logit_cap=hf.nullable("final_logit_softcapping", 30.0),
        decoder=gemma.stack(
            hf,
            norm_order="sandwich",
            activation=hf.activation("hidden_activation", "gelu_pytorch_tanh"),
            attention_scale=hf.take("query_pre_attn_scalar", 256.0, least=1) ** -0.5,
            score_cap=hf.nullable("attn_logit_softcapping", 50.0),
            layer_kinds=hf.layer_kinds(
                hf.take("num_hidden_layers"),
                kinds,
                lambda layer: "full_attention" if layer % 2 else "sliding_attention",
            ),
        ),
    )


weights = {
    **llama.weights,
    "layers.{i}.post_attention_layernorm.weight": "decoder.blocks.{i}.attn_post_norm.weight",
    "layers.{i}.pre_feedforward_layernorm.weight": "decoder.blocks.{i}.ffn_norm.weight",
    "layers.{i}.post_feedforward_layernorm.weight": "decoder.blocks.{i}.ffn_post_norm.weight",
}
