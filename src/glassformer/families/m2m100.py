"""M2M100 and NLLB (Fan et al., 2021; NLLB Team, 2022): translation between a hundred languages or more, pre-norm, with
sinusoids in halves whose last angle is pos / 10000."""

from glassformer.config import TransformerConfig
from glassformer.families import bart
from glassformer.families.keys import Keys
from glassformer.families.page import TransformersHead

model_types = ("m2m_100",)
prefix, weights, translates = bart.prefix, bart.weights, True
ignored = (*bart.ignored, "encoder.embed_positions.weights", "decoder.embed_positions.weights")
heads = {
    "none": TransformersHead("M2M100Model"),
    "language": TransformersHead("M2M100ForConditionalGeneration", {"lm_head.weight": "head.out.weight"}),
}


def config(hf: Keys) -> TransformerConfig:
    offset = hf.take("pad_token_id", 1) + 1
    positions = {"positions": "sinusoidal", "sinusoids": "closed_halves", "position_offset": offset}
    activation, scaled = hf.activation("activation_function", "relu"), hf.take("scale_embedding", True)
    return bart.model_config(
        hf, scale_embeddings=scaled, stack={"norm_order": "pre", "activation": activation, **positions}
    )
