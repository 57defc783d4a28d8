"""mBART (Liu et al., 2020; Tang et al., 2020): pre-norm BART for many languages; a target starts with the last
token of its labels, the language code."""

from glassformer.config import TransformerConfig
from glassformer.families import bart
from glassformer.families.keys import Keys

model_types = ("mbart",)
prefix, ignored, weights = bart.prefix, bart.ignored, bart.weights
heads = bart.heads_of("MBart")


def config(hf: Keys) -> TransformerConfig:
    hf.expect("normalize_before", True)
    positions = {"positions": "learned", "position_offset": 2}
    return bart.model_config(hf, embed_norm=True, label_shift="last", stack={"norm_order": "pre", **positions})
