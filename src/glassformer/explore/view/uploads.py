"""What a page sends as text: an image as a data URL, a series as the lines of a table."""

import base64
import binascii
import io
import logging
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.images import load_image
from glassformer.data.series import ASK_FOR_FILL, Series, Values, read_series
from glassformer.errors import InputError
from glassformer.predict.inputs import as_numbers
from glassformer.predict.series import as_values

SIDE = 4096  # of the largest square image
LONGEST = 20  # times as long as wide
logging.getLogger("PIL").addHandler(logging.NullHandler())  # or what it logs of an odd file goes to the terminal
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
ASK_FOR_CUT = re.compile("Ask for cut=True .*")  # which the page cannot do


def open_image(url: Any) -> NDArray[np.uint8]:
    """The pixels of a data URL."""
    if not isinstance(url, str) or not url.startswith("data:image/") or ";base64," not in url[:100]:
        raise InputError("the image is no data URL: expected data:image/png;base64,... or another format")
    try:
        content = base64.b64decode(url.partition(";base64,")[2], validate=True)
    except (binascii.Error, ValueError):
        raise InputError("the image is not valid base64: send the file again") from None
    opened = load_image(io.BytesIO(content), "the image", formats=FORMATS, check=check_size)
    return np.asarray(opened.convert("L" if opened.mode in ("1", "L") else "RGB"))


def check_size(width: int, height: int) -> None:
    """One of few pixels can be large too: it is scaled until its shorter side fits."""
    if width * height > SIDE**2:
        raise InputError(f"the image has {width} x {height} pixels: expected at most {SIDE} x {SIDE}. Make it smaller")
    if max(width, height) > LONGEST * min(width, height):
        raise InputError(f"the image has {width} x {height} pixels: expected sides of at most {LONGEST} to 1. Crop it")


def read_table(text: Any) -> Series | Values:
    """A table with dates as `predict` reads it, or rows of numbers alone."""
    if not isinstance(text, str) or not text.strip():
        raise InputError("the table is empty: expected lines of numbers, or a CSV with a date first")
    lines = [line for line in text.strip().splitlines() if line.strip()]
    try:
        rows = [as_numbers(line, f"line {i}") for i, line in enumerate(lines, start=1)]
    except InputError:
        if "," in lines[0] and any(letter.isalpha() for letter in lines[0]):
            return read_dated(text)
        raise
    if len({len(row) for row in rows}) > 1:
        raise InputError("the lines have different numbers of values: expected one for each channel in every line")
    with np.errstate(over="ignore"):  # what is too large is told when it is prepared
        return as_values(rows[0] if len(rows) == 1 else rows)


def read_dated(text: str) -> Series:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        file.write_text(text, encoding="utf-8")
        try:
            with np.errstate(over="ignore"):
                return read_series(file)
        except InputError as error:
            sentence = str(error).replace(str(file), "the table").replace(ASK_FOR_FILL, "Complete the table")
            raise InputError(ASK_FOR_CUT.sub("Give all series the same span", sentence)) from None
