"""CLIP (Radford et al., 2021): a text and an image model that share an embedding space, and the scale of their scores.

The page of a pair. Its `config.json` contains one config per side; its weight files hold the tensors of both sides
under the names they have in single-side files with a projection (`clip_text.py`, `clip_vision.py`).
"""

from typing import Any

from glassformer.families import clip_text, clip_vision
from glassformer.families.keys import Keys
from glassformer.families.page import Sides

model_type, architecture, scale = "clip", "CLIPModel", "logit_scale"
SIDE_FAMILIES = {"text_config": clip_text, "vision_config": clip_vision}


def sides(hf: Keys) -> Sides:
    """The `config.json` of each side, and the initial scale."""
    width = hf.take("projection_dim", 512)
    text, image = (
        {
            **hf.take(part, {}),
            **hf.take(f"{part}_dict", {}),  # the older key, which takes precedence
            "model_type": page.model_types[0],
            "architectures": [page.heads["pool_projected"].architecture],
            "projection_dim": width,
        }
        for part, page in SIDE_FAMILIES.items()
    )
    return Sides(text, image, hf.take("logit_scale_init_value", 2.6592))


def describe(given: Sides) -> dict[str, Any]:
    """The inverse of `sides`."""
    parts = {
        part: {key: value for key, value in values.items() if key not in ("architectures", "dtype")}
        for part, values in zip(SIDE_FAMILIES, (given.text, given.image), strict=True)
    }
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "projection_dim": given.text["projection_dim"],
        "logit_scale_init_value": given.scale,
        **parts,
    }
