"""Prepares images for a model and classifies them: files -> pixels, processed as `preprocessor_config.json` says."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoints.preparation import Preparation
from glassformer.core.model import Transformer
from glassformer.data.pixels import Mode, fitted, flattened, load_image
from glassformer.errors import InputError
from glassformer.generation.encode import BATCH_TOKENS, map_batches
from glassformer.predict.answers import Label, Labels, as_labels
from glassformer.predict.calls import check_batch
from glassformer.predict.prepared import Prepared, StackTokens, plain_tokens

if TYPE_CHECKING:
    from PIL.Image import Image


IMAGE_ABILITIES = ("images", "caption", "ask", "match")  # abilities that read images


@dataclass(frozen=True)
class Picture:
    """An image without a file of its own: (height, width) if it is grey, or (height, width, channels)."""

    name: str
    pixels: NDArray[np.uint8]


class ImagePreparer:
    """Prepares images for a model that classifies them."""

    kind = "image"

    def __init__(self, model: Transformer, preparation: Preparation) -> None:
        self.model, self.preparation = model, preparation

    def prepare(self, given: str | Path | Picture) -> Prepared:
        image = self.model.config.image
        assert image is not None
        values = read_pixels(given, self.preparation)  # (C, Y, X)
        side = image.patches_per_side
        marks = [name for name in ("class", "distillation") if getattr(image, f"{name}_token")]
        patches = plain_tokens([f"{row},{column}" for row in range(side) for column in range(side)])
        line = StackTokens([*plain_tokens(marks, special=True), *patches], prompt=image.num_tokens)
        return Prepared(
            {"pixel_values": as_batch(self.model, [values])},
            {"encoder": line},
            name=given.name if isinstance(given, Picture) else Path(given).name,
            pixels=as_colours(values, self.preparation),
        )


def classify_images(
    model: Transformer,
    preparation: Preparation,
    files: Sequence[str | Picture],
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[Label | Labels]:
    """The class of each image."""
    check_batch(files)
    assert model.config.image is not None

    @torch.no_grad()
    def run(numbers: Sequence[int]) -> list[Label | Labels]:
        pixels = as_batch(model, [read_pixels(files[i], preparation) for i in numbers])
        return as_labels(model, model(pixel_values=pixels).logits.float().cpu())

    lengths = [model.config.image.num_tokens] * len(files)
    return map_batches(lengths, run, batch_tokens, batch_size=batch_size)


def as_batch(model: Transformer, pixels: Sequence[Tensor]) -> Tensor:
    """Stacks images into (B, C, Y, X), on the model's device and in its dtype."""
    return torch.stack(list(pixels)).to(model.device, model.dtype)


def normalised(pixels: Tensor, preparation: Preparation) -> Tensor:
    """Normalises colours from 0 to 255, (..., C, Y, X), to the scale of the model."""
    mean, deviation = (torch.tensor(x)[:, None, None] for x in (preparation.mean, preparation.deviation))
    return (pixels.float() * preparation.scale - mean) / deviation


def as_colours(values: Tensor, preparation: Preparation) -> NDArray[np.uint8]:
    """The inverse of `normalised` for one image: (Y, X) if it is grey, or (Y, X, C)."""
    mean, deviation = (torch.tensor(x)[:, None, None] for x in (preparation.mean, preparation.deviation))
    colours = (values * deviation + mean) / preparation.scale  # (C, Y, X)
    whole: NDArray[np.uint8] = colours.permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8).numpy()
    return whole[:, :, 0] if whole.shape[2] == 1 else whole


def read_pixels(file: str | Path | Picture, preparation: Preparation) -> Tensor:
    """The image as the tensor (C, Y, X) that the model reads."""
    return normalised(torch.from_numpy(read_colours(file, preparation)), preparation)


def read_colours(file: str | Path | Picture, preparation: Preparation) -> NDArray[np.uint8]:
    """The image before normalisation, (C, Y, X), with the size and channels that the model reads."""
    if isinstance(file, Picture) and is_ready(file.pixels, preparation):
        pixels = file.pixels
    else:
        image = open_image(file, preparation)
        resize, crop = preparation.resize, preparation.crop
        pixels = np.asarray(fitted(image, resize=resize, resample=preparation.resample, crop=crop))
    height, width = pixels.shape[:2]
    return pixels.reshape(height, width, -1).transpose(2, 0, 1).copy()  # (C, Y, X)


def is_ready(pixels: NDArray[np.uint8], preparation: Preparation) -> bool:
    """Whether an image already has the right size and channels, so that Pillow is not needed."""
    size, wanted = pixels.shape[:2], preparation.resize
    fits = min(size) == wanted if isinstance(wanted, int) else wanted in (None, size)
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    return fits and preparation.crop in (None, size) and channels == len(preparation.mean)


def open_image(file: str | Path | Picture, preparation: Preparation) -> "Image":
    if isinstance(file, Picture):
        from PIL import Image

        opened = Image.fromarray(file.pixels)
    elif not Path(file).is_file():
        raise InputError(f"{file}: there is no such image file. Expected one such as .png or .jpg")
    else:
        opened = load_image(Path(file), str(file))
    return as_read(opened, preparation)


def as_read(image: "Image", preparation: Preparation) -> "Image":
    """The image turned upright, on its background, in the colour mode of the model."""
    mode: Mode = "rgb" if len(preparation.mean) == 3 else "grey"
    return flattened(image, mode, upright=preparation.upright, background=preparation.background)
