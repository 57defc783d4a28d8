"""Reads an image file into the pixels of a model, in the same way for training, prediction and the explorer.

    upright      rotated by its EXIF orientation
    8 bits       16-bit values keep their upper 8 bits: 65535 becomes 255
    background   shown through transparent pixels; without one, transparency is dropped, as other libraries do
    grey or rgb  CMYK, palettes and other modes become one of the two

What a model expects is in `checkpoints/preparation.py`.
"""

import logging
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

Mode = Literal["grey", "rgb"]
PixelNote = Literal["rotated", "deep", "transparent", "cmyk", "frames"]
Pixels = NDArray[np.uint8]

SUFFIXES = {
    *(".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"),
    *(".heic", ".heif", ".avif"),  # from phones; refused by name if Pillow cannot read them
}
WHITE = "white"
BICUBIC = 3  # Pillow's number for the filter
ORIENTATION = 0x0112  # the EXIF tag; 1 is upright
BRANDS = {"HEIC": {b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"}, "AVIF": {b"avif", b"avis"}}
logging.getLogger("PIL").addHandler(logging.NullHandler())  # otherwise its log goes to the terminal
# Above this many pixels, Pillow suspects a decompression bomb. Besides, a few kilobytes of JPEG can
# hold hundreds of scans, each a pass over all pixels; programs write about ten.
MAX_PIXELS, MOST_SCANS = 89_478_485, 100
NEXT_SCAN = b"\xff\xda"
GREY_MODES = ("1", "L", "LA", "La")
ALPHA_MODES = ("LA", "La", "PA", "RGBA", "RGBa")


@dataclass(frozen=True)
class ImageProperties:
    """Properties of an image, upright."""

    width: int
    height: int
    mode: Mode
    facts: frozenset[PixelNote]


def inspect_image(file: Path) -> ImageProperties:
    """Properties of an image after decoding it completely."""
    image, facts = decode(file, str(file))
    width, height = image.size if orientation(image) < 5 else image.size[::-1]  # 5 to 8 are rotated by 90 degrees
    return ImageProperties(width, height, "grey" if image.mode in GREY_MODES else "rgb", frozenset(facts))


def read_image(file: Path, size: int, mode: Mode, *, upright: bool = True, background: str | None = WHITE) -> Pixels:
    """One image (C, Y, X): resized by its shorter side and cropped to the centre square."""
    image = flattened(load_image(file, str(file)), mode, upright=upright, background=background)
    pixels = np.asarray(fitted(image, resize=size, resample=BICUBIC, crop=(size, size)))
    return pixels[None] if mode == "grey" else pixels.transpose(2, 0, 1)  # (C, Y, X)


def load_image(
    source: Path | BinaryIO,
    name: str,
    *,
    formats: tuple[str, ...] | None = None,
    check: Callable[[int, int], None] = lambda width, height: None,
) -> "Image":
    """A decoded image with 8 bits per channel, in its stored mode and orientation.

    `check` may refuse it by width and height before its pixels are decoded.
    """
    return decode(source, name, formats=formats, check=check)[0]


def decode(
    source: Path | BinaryIO,
    name: str,
    *,
    formats: tuple[str, ...] | None = None,
    check: Callable[[int, int], None] = lambda width, height: None,
) -> tuple["Image", set[PixelNote]]:
    """An image, and notes about it for the user."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError("reading images needs pillow: pip install 'glassformer[vision]'") from None
    if formats is not None:
        Image.init()
        formats = tuple(name for name in formats if name in Image.OPEN)  # those that this Pillow can read
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(source, formats=formats) as image:
            check_pixels(image, name)
            check(*image.size)
            facts: set[PixelNote] = {"deep"} if any(";16" in str(tile[3]) for tile in image.tile) else set()
            if image.format != "MPO" and getattr(image, "is_animated", False):
                facts.add("frames")
            image.load()
        if orientation(image) > 1:
            facts.add("rotated")
        if image.mode == "CMYK":
            facts.add("cmyk")
        small = as_8_bits(image, name)
        if is_transparent(small):
            facts.add("transparent")
    except InputError:
        raise
    except Image.DecompressionBombError:
        raise InputError(
            f"{name} has more than {2 * MAX_PIXELS:,} pixels: expected at most {MAX_PIXELS:,}. Make it smaller"
        ) from None
    except UnidentifiedImageError:
        raise InputError(f"{name} {why_unknown(source)}") from None
    except Exception as error:  # a damaged file can fail anywhere in the decoder
        raise InputError(f"{name} cannot be read as an image ({str(error)[:200]}): expected a complete file") from None
    return small, facts


def check_pixels(image: "Image", name: str) -> None:
    """Refuses an image made to exhaust memory or time, before its pixels are decoded."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise InputError(
            f"{name} has {width:,} x {height:,} pixels: expected at most {MAX_PIXELS:,} in all. Make it smaller"
        )
    if image.format == "EPS":  # Pillow would start Ghostscript
        raise InputError(f"{name} is a PostScript file: convert it to JPEG or PNG")
    if (
        image.format in ("JPEG", "MPO")
        and image.info.get("progressive")
        and (stream := getattr(image, "fp", None)) is not None
    ):
        place = stream.tell()
        stream.seek(0)
        scans = sum(block.count(NEXT_SCAN) for block in iter(lambda: stream.read(1 << 20), b""))
        stream.seek(place)
        if scans > MOST_SCANS:
            raise InputError(f"{name} has {scans:,} scans: expected at most {MOST_SCANS}. Save it again")


def why_unknown(source: Path | BinaryIO) -> str:
    """Why a file cannot be decoded."""
    head = b""
    with suppress(OSError):
        if isinstance(source, Path):
            with source.open("rb") as stream:
                head = stream.read(12)
        else:
            source.seek(0)
            head = source.read(12)
    if not head:
        return "is empty: expected an image"
    kind = next((kind for kind, brands in BRANDS.items() if head[4:8] == b"ftyp" and head[8:12] in brands), None)
    if kind is None:
        return "cannot be read as an image: expected a file such as .png or .jpg"
    return f"is an image in the format {kind}, which Pillow cannot read here: convert it to JPEG or PNG"


def orientation(image: "Image") -> int:
    """The EXIF orientation, from 1 (upright) to 8."""
    found = 1
    with suppress(Exception):  # unreadable EXIF is ignored
        found = int(image.getexif().get(ORIENTATION, 1))
    return found if 1 <= found <= 8 else 1


def is_transparent(image: "Image") -> bool:
    """Whether an image has transparent pixels."""
    if image.mode not in ALPHA_MODES and "transparency" not in image.info:
        return False
    return bool(np.asarray(image.convert("RGBA").getchannel("A")).min() < 255)


def as_8_bits(image: "Image", name: str) -> "Image":
    """The upper 8 of 16 bits, as Pillow does for colours. The range of 32-bit values is not known."""
    from PIL import Image

    is_16 = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
    if is_16:
        small = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
        small.info = dict(image.info)
        if isinstance(clear := small.info.get("transparency"), int):  # the transparent shade
            small.info["transparency"] = clear >> 8
        return small
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        raise InputError(
            f"{name} has 32 bits per pixel ({image.mode}), with unknown range: convert it to 8 or 16 bits first"
        )
    return image


def flattened(image: "Image", mode: Mode, *, upright: bool, background: str | None) -> "Image":
    """An image without transparency, in grey or in colour."""
    from PIL import Image, ImageOps

    if upright and orientation(image) > 1:
        image = ImageOps.exif_transpose(image)
    if background is not None and (image.mode in ALPHA_MODES or "transparency" in image.info):
        canvas = Image.new("RGBA", image.size, background)
        canvas.alpha_composite(image.convert("RGBA"))
        image = canvas
    return image.convert("L" if mode == "grey" else "RGB")


def fitted(
    image: "Image", *, resize: tuple[int, int] | int | None, resample: int, crop: tuple[int, int] | None
) -> "Image":
    """An image resized to (height, width), or by its shorter side in proportion and then cropped to the centre."""
    if isinstance(resize, int):
        short = min(image.size)
        resize = (resize * image.height // short, resize * image.width // short)
    if resize is not None and resize[0] * resize[1] > MAX_PIXELS:
        raise InputError(
            f"an image of {image.width:,} x {image.height:,} pixels would become {resize[1]:,} x {resize[0]:,}: "
            f"expected at most {MAX_PIXELS:,} in all. Crop it"
        )
    if resize is not None:
        image = image.resize((resize[1], resize[0]), resample=resample)
    if crop is not None:
        height, width = crop
        top, left = (image.height - height) // 2, (image.width - width) // 2
        image = image.crop((left, top, left + width, top + height))
    return image
