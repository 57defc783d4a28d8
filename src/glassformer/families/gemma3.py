"""Gemma 3, text (Gemma Team, 2025): Gemma 2 with norms on q and k instead of caps; five layers in six see a window
and use a smaller rotary base than the others."""

from glassformer.config import LayerKind, TransformerConfig
from glassformer.families import gemma, gemma2, llama
from glassformer.families.keys import Keys

model_types = ("gemma3_text",)
prefix, ignored = llama.prefix, llama.ignored
_named = {"none": "Gemma3TextModel", "class": "Gemma3TextForSequenceClassification"}
heads = {kind: head for kind, head in llama.heads_of("Gemma3", **_named).items() if kind not in ("token", "span")}


def config(hf: Keys) -> TransformerConfig:
    hf.expect("use_bidirectional_attention", False)
    hf.ignore("_sliding_window_pattern", "cache_implementation", "hidden_act")
    every = hf.take("sliding_window_pattern", 6, least=1)
    near = hf.rotary(layer_type="sliding_attention", base_key="rope_local_base_freq")
    far = hf.rotary(layer_type="full_attention", base=1_000_000.0)
    if "sliding_attention" not in (hf.take("rope_parameters", None) or {}):
        # Older files: the scaling applies only to full attention.
        near = {"rotary_base": float(hf.take("rope_local_base_freq", 10_000.0))}
    kinds = {
        "full_attention": LayerKind(**far),
        "sliding_attention": LayerKind(window=hf.take("sliding_window", 4096), **near),
    }
    return TransformerConfig(
        **hf.common(),
        vocab_size=hf.take("vocab_size"),
        scale_embeddings=True,
        logit_cap=hf.take("final_logit_softcapping", None),
        decoder=gemma.stack(
            hf,
            norm_order="sandwich",
            activation=hf.activation("hidden_activation", "gelu_pytorch_tanh"),
            qk_norm=True,
            attention_scale=hf.take("query_pre_attn_scalar", 256.0, least=1) ** -0.5,
            score_cap=hf.take("attn_logit_softcapping", None),
            layer_kinds=hf.layer_kinds(
                hf.take("num_hidden_layers"),
                kinds,
                lambda layer: "sliding_attention" if (layer + 1) % every else "full_attention",
            ),
        ),
    )


weights = {
    **gemma2.weights,
    "layers.{i}.self_attn.q_norm.weight": "decoder.blocks.{i}.attn.q_norm.weight",
    "layers.{i}.self_attn.k_norm.weight": "decoder.blocks.{i}.attn.k_norm.weight",
}
