"""Encodes PNG images with zlib alone (RFC 2083), so pages need no image library."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOUR = 0, 2


def as_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encodes pixels (height, width) or (height, width, 3) as the bytes of a PNG file."""
    height, width = pixels.shape[:2]
    kind = GREY if pixels.ndim == 2 else COLOUR
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    unfiltered = np.zeros((height, 1), dtype=np.uint8)  # each row starts with its filter type: none
    lines = np.concatenate([unfiltered, rows], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def as_data_url(pixels: NDArray[np.uint8]) -> str:
    return "data:image/png;base64," + base64.b64encode(as_png(pixels)).decode()
