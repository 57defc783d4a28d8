"""Mistral (Jiang et al., 2023): LLaMA with a window of the last W tokens in every layer."""

from glassformer.config import LayerKind, TransformerConfig
from glassformer.families import llama
from glassformer.families.keys import Keys

model_types = ("mistral",)
prefix, ignored, weights = llama.prefix, llama.ignored, llama.weights
heads = llama.heads_of("Mistral", span_prefix="model.")


def config(hf: Keys) -> TransformerConfig:
    kind = LayerKind(window=hf.take("sliding_window", None), **hf.rotary())
    return TransformerConfig(
        **hf.common(tied=False),
        vocab_size=hf.take("vocab_size"),
        decoder=llama.stack(hf, layer_kinds=(kind,)),
    )
