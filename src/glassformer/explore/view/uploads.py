"""Reads uploads from the page: an image as a data URL, a series as the text of a table."""

import base64
import binascii
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.checkpoints.preparation import Preparation
from glassformer.data.pixels import load_image
from glassformer.data.series import ASK_FOR_FILL, Series, Values
from glassformer.errors import InputError
from glassformer.predict.images import as_read
from glassformer.predict.inputs import as_numbers
from glassformer.predict.series import Scale, read_as_trained, window_values

SIDE = 4096  # pixels on each side of the largest square image
MAX_ASPECT_RATIO = 20  # largest ratio of the sides
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "AVIF")


def open_data_url(url: Any, preparation: Preparation) -> NDArray[np.uint8]:
    """The pixels of a data URL, in the model's colour channels."""
    if not isinstance(url, str) or not url.startswith("data:image/") or ";base64," not in url[:100]:
        raise InputError("the image is not a data URL: expected data:image/png;base64,... or another format")
    try:
        content = base64.b64decode(url.partition(";base64,")[2], validate=True)
    except (binascii.Error, ValueError):
        raise InputError("the image is not valid base64: send the file again") from None
    opened = load_image(io.BytesIO(content), "the image", formats=FORMATS, check=check_upload)
    return np.asarray(as_read(opened, preparation))


def check_upload(width: int, height: int) -> None:
    """Also limits the ratio of the sides: a long image becomes large when its shorter side is resized to fit."""
    if width * height > SIDE**2:
        raise InputError(f"the image has {width} x {height} pixels: expected at most {SIDE} x {SIDE}. Make it smaller")
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        raise InputError(
            f"the image has {width} x {height} pixels: expected sides of at most {MAX_ASPECT_RATIO} to 1. Crop it"
        )


def read_uploaded_table(text: Any, scale: Scale | None) -> Series | Values:
    """A table with dates, read as in `predict`, or rows of numbers only."""
    if not isinstance(text, str) or not text.strip():
        raise InputError("the table is empty: expected lines of numbers, or a CSV with a date first")
    lines = [line for line in text.strip().splitlines() if line.strip()]
    wrong = next((number for number, line in enumerate(lines, start=1) if "\ufffd" in line), None)
    if wrong is not None:  # browsers replace bytes that are not UTF-8 by this character
        raise InputError(f"line {wrong} of the table is not UTF-8: save the table as UTF-8 and choose it again")
    try:
        rows = [as_numbers(line, f"line {i}") for i, line in enumerate(lines, start=1)]
    except InputError:
        if re.search(r"[,;\t|]", lines[0]) and any(letter.isalpha() for letter in lines[0]):
            return read_dated(text, scale)
        raise
    if len({len(row) for row in rows}) > 1:
        raise InputError("the lines have different numbers of values: expected one for each channel in every line")
    with np.errstate(over="ignore"):  # values too large are reported later, when prepared
        return window_values(rows[0] if len(rows) == 1 else rows)


def read_dated(text: str, scale: Scale | None) -> Series:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        file.write_text(text, encoding="utf-8")
        try:
            with np.errstate(over="ignore"):
                return read_as_trained(file, scale)
        except InputError as error:
            sentence = str(error).replace(str(file), "the table").replace(ASK_FOR_FILL, "Complete the table")
            said = sentence.split(". ")
            kept = [part for part in said if "--" not in part]  # a page has no flags
            raise InputError(". ".join(kept if kept == said else [*kept, "Change the table"])) from None
