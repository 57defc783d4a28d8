"""Images for a model that classifies them: files -> pixels, prepared as `preprocessor_config.json` says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoints.folder import read_json
from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.tasks.predictors import BATCH, Label, as_labels, in_batches

PREPARATION = "preprocessor_config.json"
BILINEAR = 2  # as pillow numbers its filters


@dataclass(frozen=True)
class Preparation:
    """What is done to an image before the model sees it, in this order: resize, crop, scale, normalise."""

    resize: tuple[int, int] | int | None  # (height, width), or the shorter side
    resample: int
    crop: tuple[int, int] | None
    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


def read_preparation(folder: Path, config: TransformerConfig) -> Preparation:
    assert config.image is not None
    file, side, channels = folder / PREPARATION, config.image.size, config.image.channels
    if not file.is_file():
        raise InputError(
            f"{folder} has no {PREPARATION}, which says how its images are prepared: fetch it from where the model is"
        )
    values = read_json(file)
    mean, deviation = (tuple(values.get(key) or [0.5] * channels) for key in ("image_mean", "image_std"))
    if not values.get("do_normalize", True):
        mean, deviation = (0.0,) * channels, (1.0,) * channels
    prepared = Preparation(
        resize=size_of(values, "size", side) if values.get("do_resize", True) else None,
        resample=int(values.get("resample", BILINEAR)),
        crop=as_pair(size_of(values, "crop_size", side)) if values.get("do_center_crop", False) else None,
        scale=float(values.get("rescale_factor", 1 / 255)) if values.get("do_rescale", True) else 1.0,
        mean=mean,
        deviation=deviation,
    )
    result = prepared.crop or prepared.resize
    if result is not None and result != (side, side):
        raise InputError(
            f"{file} makes images of {result}, and the model reads {(side, side)}: use the model's own file"
        )
    return prepared


def size_of(values: Mapping[str, Any], key: str, default: int) -> tuple[int, int] | int:
    size = values.get(key, default)
    if isinstance(size, Mapping):
        if "shortest_edge" in size:
            return int(size["shortest_edge"])
        if "height" not in size or "width" not in size:
            raise InputError(f"{PREPARATION}: {key} is {dict(size)}: expected height and width, or shortest_edge")
        return int(size["height"]), int(size["width"])
    return as_pair(int(size))


def as_pair(size: tuple[int, int] | int) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)


def classify_images(
    model: Transformer, preparation: Preparation, files: Sequence[str], *, batch_size: int = BATCH
) -> list[Label]:
    """The class of each image."""

    @torch.no_grad()
    def run(batch: Sequence[str]) -> list[Label]:
        pixels = torch.stack([read_pixels(Path(file), preparation) for file in batch])  # (B, C, Y, X)
        first = next(model.parameters())
        return as_labels(model, model(pixel_values=pixels.to(first.device, first.dtype)).logits.float().cpu())

    return in_batches(files, run, batch_size)


def read_pixels(file: Path, preparation: Preparation) -> Tensor:
    """An image file as the tensor (channels, height, width) that a model reads."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError("images are read with pillow, which is not here: pip install 'glassformer[vision]'") from None
    try:
        image = Image.open(file).convert("RGB" if len(preparation.mean) == 3 else "L")
    except FileNotFoundError:
        raise InputError(f"{file}: there is no such image file") from None
    except (UnidentifiedImageError, IsADirectoryError):
        raise InputError(f"{file} is no image that pillow reads: expected a file such as .png or .jpg") from None
    if preparation.resize is not None:
        size = preparation.resize
        if isinstance(size, int):  # the shorter side, the other in proportion
            short = min(image.size)
            size = (size * image.height // short, size * image.width // short)
        image = image.resize((size[1], size[0]), resample=preparation.resample)
    if preparation.crop is not None:
        height, width = preparation.crop
        top, left = (image.height - height) // 2, (image.width - width) // 2
        image = image.crop((left, top, left + width, top + height))
    pixels = torch.from_numpy(np.asarray(image, dtype=np.float32)).reshape(image.height, image.width, -1)
    scaled = pixels * preparation.scale
    mean, deviation = torch.tensor(preparation.mean), torch.tensor(preparation.deviation)
    return ((scaled - mean) / deviation).permute(2, 0, 1)
