"""Images for a model that classifies them: files -> pixels, prepared as `preprocessor_config.json` says."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoints.preparation import Preparation as Preparation
from glassformer.checkpoints.preparation import read_preparation as read_preparation
from glassformer.checkpoints.preparation import write_preparation as write_preparation
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.predict.predictors import BATCH, Label, Labels, as_labels, in_batches


@dataclass(frozen=True)
class Picture:
    """An image that is no file of its own: grey (height, width), or with channels behind."""

    name: str
    pixels: NDArray[np.uint8]


def classify_images(
    model: Transformer, preparation: Preparation, files: Sequence[str | Picture], *, batch_size: int = BATCH
) -> list[Label | Labels]:
    """The class of each image."""

    @torch.no_grad()
    def run(batch: Sequence[str | Picture]) -> list[Label | Labels]:
        pixels = torch.stack([read_pixels(file, preparation) for file in batch])  # (B, C, Y, X)
        return as_labels(model, model(pixel_values=pixels.to(model.device, model.dtype)).logits.float().cpu())

    return in_batches(files, run, batch_size)


def read_pixels(file: str | Path | Picture, preparation: Preparation) -> Tensor:
    """An image, of a file or not, as the tensor (channels, height, width) that a model reads."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError("images are read with pillow, which is not here: pip install 'glassformer[vision]'") from None
    try:
        opened = Image.fromarray(file.pixels) if isinstance(file, Picture) else Image.open(file)
        image = opened.convert("RGB" if len(preparation.mean) == 3 else "L")
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
