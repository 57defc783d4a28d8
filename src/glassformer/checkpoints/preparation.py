"""Reads and writes `preprocessor_config.json`: how images are prepared for a model.

It is the file of transformers' `ViTImageProcessor`, or for a pair of models `CLIPImageProcessor`, which prepare images
in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.checkpoints.folder import PREPARATION, PROCESSOR
from glassformer.checkpoints.run import is_run
from glassformer.config import TransformerConfig
from glassformer.errors import InputError
from glassformer.io import read_json, write_json

BILINEAR = 2  # Pillow's number for the filter
SIDES = ("height", "width")
# Defaults of transformers' `CLIPImageProcessor`, which differ from those of other processors.
CLIP_DEFAULTS: dict[str, Any] = {
    "size": {"shortest_edge": 224},
    "resample": 3,  # bicubic
    "do_center_crop": True,
    "crop_size": 224,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


@dataclass(frozen=True)
class Preparation:
    """The preparation of an image for the model: flatten, resize, crop, scale, normalise, in this order.

    Flattening (`data/pixels.py`) may rotate an image as its EXIF data say, and puts a background behind transparent
    pixels.
    """

    resize: tuple[int, int] | int | None  # (height, width), or the shorter side
    resample: int
    crop: tuple[int, int] | None
    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    upright: bool = True
    background: str | None = None


def read_preparation(folder: Path, config: TransformerConfig) -> Preparation:
    assert config.image is not None
    side, channels = config.image.size, config.image.channels
    file, values = found_values(folder)
    if "CLIP" in str(values.get("image_processor_type") or values.get("feature_extractor_type")):
        values = {**CLIP_DEFAULTS, **values}
    mean, deviation = (tuple(values.get(key) or [0.5] * channels) for key in ("image_mean", "image_std"))
    if not values.get("do_normalize", True):
        mean, deviation = (0.0,) * channels, (1.0,) * channels
    prepared = Preparation(
        resize=resized_size(values, "size", side) if values.get("do_resize", True) else None,
        resample=int(values.get("resample", BILINEAR)),
        crop=as_pair(resized_size(values, "crop_size", side)) if values.get("do_center_crop", False) else None,
        scale=float(values.get("rescale_factor", 1 / 255)) if values.get("do_rescale", True) else 1.0,
        mean=mean,
        deviation=deviation,
        # Runs of older versions used images as stored. Other libraries apply the EXIF rotation and drop transparency.
        upright=bool(values.get("exif_rotation", not is_run(folder))),
        background=values.get("background"),
    )
    check_image_size(prepared, config, str(file))
    return prepared


def found_values(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The image settings of a folder: from their own file, or from one shared with the tokenizer's settings."""
    for name in (PREPARATION, PROCESSOR):
        if (folder / name).is_file():
            values = read_json(folder / name)
            found = values.get("image_processor") if name == PROCESSOR else values
            if isinstance(found, dict):
                return folder / name, found
    raise InputError(
        f"{folder} has no {PREPARATION}, which says how its images are prepared: download it from the model's source"
    )


def write_preparation(preparation: Preparation, folder: Path, config: TransformerConfig) -> None:
    check_image_size(preparation, config, "the preparation")
    size = preparation.resize
    values: dict[str, Any] = {
        "image_processor_type": "CLIPImageProcessor" if is_pooled(config) else "ViTImageProcessor",
        "do_resize": size is not None,
        "resample": preparation.resample,
        "do_center_crop": preparation.crop is not None,
        "do_rescale": True,
        "rescale_factor": preparation.scale,
        "do_normalize": True,
        "image_mean": list(preparation.mean),
        "image_std": list(preparation.deviation),
        "exif_rotation": preparation.upright,
        "background": preparation.background,
    }
    if size is not None:
        values["size"] = {"shortest_edge": size} if isinstance(size, int) else dict(zip(SIDES, size, strict=True))
    if preparation.crop is not None:
        values["crop_size"] = dict(zip(SIDES, preparation.crop, strict=True))
    write_json(folder / PREPARATION, values)


def is_pooled(config: TransformerConfig) -> bool:
    """Whether a model embeds an image as one vector, in a space shared with texts."""
    return config.image is not None and config.pooled_dim is not None


def check_image_size(preparation: Preparation, config: TransformerConfig, name: str) -> None:
    """Raises if the prepared images would not have the size and channels that the model reads."""
    if config.image is None:
        raise InputError(f"{name} is for images, and this model does not read images: leave it out")
    side, channels = config.image.size, config.image.channels
    result = preparation.crop or preparation.resize
    if result is not None and result != (side, side):
        raise InputError(
            f"{name} makes images of size {result}, and the model reads {(side, side)}: use the model's own file"
        )
    for what, numbers in (("mean", preparation.mean), ("deviation", preparation.deviation)):
        if len(numbers) != channels:
            raise InputError(f"{name} has {len(numbers)} values for the {what}: expected {channels}, one per channel")


def resized_size(values: Mapping[str, Any], key: str, default: int) -> tuple[int, int] | int:
    size = values.get(key, default)
    kind = str(values.get("image_processor_type") or values.get("feature_extractor_type"))
    if key == "size" and isinstance(size, int) and kind.startswith("CLIP"):
        return size  # the shorter side, in older files of CLIP
    if isinstance(size, Mapping):
        if "shortest_edge" in size:
            return int(size["shortest_edge"])
        if "height" not in size or "width" not in size:
            raise InputError(f"{PREPARATION}: {key} is {dict(size)}: expected height and width, or shortest_edge")
        return int(size["height"]), int(size["width"])
    return as_pair(int(size))


def as_pair(size: tuple[int, int] | int) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)
