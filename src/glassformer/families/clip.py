"""CLIP (Radford et al., 2021): a text and an image model that meet in one space, in one file with the scale.

The page of a pair: its `config.json` holds one for each side, and its files the tensors of both sides as they are
called in files of one side with its projection (`clip_text.py`, `clip_vision.py`).
"""

from typing import Any

from glassformer.families import clip_text, clip_vision
from glassformer.families.keys import Keys
from glassformer.families.page import Sides

model_type, architecture, scale = "clip", "CLIPModel", "logit_scale"
PARTS = {"text_config": clip_text, "vision_config": clip_vision}


def sides(hf: Keys) -> Sides:
    """The `config.json` of either side, and where the scale started."""
    width = hf.take("projection_dim", 512)
    text, image = (
        {
            **hf.take(part, {}),
            **hf.take(f"{part}_dict", {}),  # older, and where both say something, this counts
            "model_type": page.model_types[0],
            "architectures": [page.heads["pool_projected"].architecture],
            "projection_dim": width,
        }
        for part, page in PARTS.items()
    )
    return Sides(text, image, hf.take("logit_scale_init_value", 2.6592))


def describe(given: Sides) -> dict[str, Any]:
    """The inverse of `sides`."""
    parts = {
        part: {key: value for key, value in values.items() if key not in ("architectures", "dtype")}
        for part, values in zip(PARTS, (given.text, given.image), strict=True)
    }
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "projection_dim": given.text["projection_dim"],
        "logit_scale_init_value": given.scale,
        **parts,
    }
