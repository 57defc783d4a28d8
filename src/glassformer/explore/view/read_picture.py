"""Images as a model takes them: of a file that the page sends, or one of the examples."""

import base64
import binascii
import io
import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.checkpoints.preparation import Preparation
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.explore.view.inputs import Prepared, example_of
from glassformer.figures.png import as_data_url
from glassformer.predict.pictures import Picture, read_pixels

SIDE = 4096  # of the largest square image
LONGEST = 20  # times as long as wide
logging.getLogger("PIL").addHandler(logging.NullHandler())  # or what it logs of an odd file goes to the terminal
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


class PictureReader:
    """Images for a model that classifies them."""

    kind = "image"

    def __init__(self, model: Transformer, preparation: Preparation, examples: list[NDArray[np.uint8]]) -> None:
        self.model, self.preparation, self.examples = model, preparation, examples

    def prepare(self, given: Mapping[str, Any]) -> Prepared:
        if len(given) != 1:
            raise InputError("an image and an example were both given: choose one")
        if "example" in given:
            pixels = self.examples[example_of(given, len(self.examples))]
        else:
            pixels = open_image(given["image"])
        image = self.model.config.image
        assert image is not None
        values = self.read(pixels)  # (C, Y, X)
        side, prefix = image.size // image.patch, image.num_tokens - (image.size // image.patch) ** 2
        marks = [
            {"text": name, "id": None, "special": True}
            for name, wanted in (("class", image.class_token), ("distillation", image.distillation_token))
            if wanted
        ]
        patches = [
            {"text": f"{row + 1},{column + 1}", "id": row * side + column, "special": False}
            for row in range(side)
            for column in range(side)
        ]
        line = {"tokens": [*marks, *patches], "writes": None, "prompt": len(marks) + len(patches)}
        picture = {"png": as_data_url(self.shown(values)), "grid": [side, side], "prefix": prefix}
        return Prepared({"pixel_values": values[None]}, {"encoder": line}, picture=picture)

    def read(self, pixels: NDArray[np.uint8]) -> Tensor:
        """What the model reads. An image that has its size and channels already needs no library to prepare it."""
        image = self.model.config.image
        assert image is not None
        grey, fits = pixels.ndim == 2, pixels.shape[:2] == (image.size, image.size)
        if not fits or (1 if grey else 3) != image.channels:
            return read_pixels(Picture("the image", pixels), self.preparation)
        values = torch.from_numpy(pixels.astype(np.float32)).reshape(image.size, image.size, -1)
        mean, deviation = torch.tensor(self.preparation.mean), torch.tensor(self.preparation.deviation)
        return ((values * self.preparation.scale - mean) / deviation).permute(2, 0, 1)

    def shown(self, values: Tensor) -> NDArray[np.uint8]:
        """The pixels that the model reads, as colours again."""
        mean, deviation = torch.tensor(self.preparation.mean), torch.tensor(self.preparation.deviation)
        pixels = (values.permute(1, 2, 0) * deviation + mean) / self.preparation.scale
        whole: NDArray[np.uint8] = pixels.round().clamp(0, 255).to(torch.uint8).numpy()
        return whole[:, :, 0] if whole.shape[2] == 1 else whole


def open_image(url: Any) -> NDArray[np.uint8]:
    """The pixels of a data URL."""
    if not isinstance(url, str) or not url.startswith("data:image/") or ";base64," not in url[:100]:
        raise InputError("the image is no data URL: expected data:image/png;base64,... or another format")
    try:
        content = base64.b64decode(url.partition(";base64,")[2], validate=True)
    except (binascii.Error, ValueError):
        raise InputError("the image is not valid base64: send the file again") from None
    try:
        from PIL import Image
    except ImportError:
        raise InputError("images are read with pillow, which is not here: pip install 'glassformer[vision]'") from None
    try:
        with warnings.catch_warnings(action="ignore"):  # of what is odd in a file: the terminal is no place for it
            opened = Image.open(io.BytesIO(content), formats=FORMATS)
            check_size(opened.width, opened.height)
            return np.asarray(opened.convert("L" if opened.mode in ("1", "L", "I", "I;16") else "RGB"))
    except InputError:
        raise
    except Image.DecompressionBombError:
        raise InputError(f"the image has too many pixels: expected at most {SIDE} x {SIDE}. Make it smaller") from None
    except Exception:  # a file that is not what it says can fail anywhere in its decoder
        raise InputError("the image cannot be read: expected a whole file such as .png or .jpg") from None


def check_size(width: int, height: int) -> None:
    """One of few pixels can be large too: it is scaled until its shorter side fits."""
    if width * height > SIDE**2:
        raise InputError(f"the image has {width} x {height} pixels: expected at most {SIDE} x {SIDE}. Make it smaller")
    if max(width, height) > LONGEST * min(width, height):
        raise InputError(f"the image has {width} x {height} pixels: expected sides of at most {LONGEST} to 1. Crop it")
