"""Recovers the scene from an image, by rule.

Exact on every image made by `make.py`. In other images, such as generated ones, it finds well-drawn shapes and ignores
other spots.
"""

import numpy as np
from numpy.typing import NDArray

from glassformer.data.scenes.make import PALETTE
from glassformer.data.scenes.scene import COLOURS, SHAPE_KINDS, SIZE, Scene, Shape, shape_pixels
from glassformer.errors import InputError

COLOURFUL = 50  # minimum difference between the strongest and weakest channel; 0 for grey
MIN_OVERLAP = 0.75  # minimum intersection over union of a spot and a shape


def parse(pixels: NDArray[np.uint8]) -> Scene:
    """The scene in an image (3, Y, X) of bytes."""
    if pixels.shape != (3, SIZE, SIZE) or pixels.dtype != np.uint8:
        raise InputError(f"an image {pixels.shape} of {pixels.dtype}: expected (3, {SIZE}, {SIZE}) of uint8")
    values = pixels.astype(np.int64)
    colourful = values.max(axis=0) - values.min(axis=0) >= COLOURFUL  # (Y, X)
    found: dict[int, Shape] = {}
    for spot in spots(colourful):
        shape = nearest_shape(spot, nearest_colour(values[:, spot].mean(axis=1)))
        if shape is not None and shape.number not in found:
            found[shape.number] = shape
    return Scene(tuple(found[number] for number in sorted(found)))


def spots(colourful: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """The connected components (Y, X). Each pixel takes the smallest label of its neighbours until none changes."""
    numbers = np.where(colourful, np.arange(1, SIZE * SIZE + 1).reshape(SIZE, SIZE), 0)
    far = SIZE * SIZE + 1
    while True:
        padded = np.pad(np.where(numbers > 0, numbers, far), 1, constant_values=far)
        around = [padded[1:-1, 1:-1], padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
        least = np.where(colourful, np.min(around, axis=0), 0)
        if np.array_equal(least, numbers):
            return [numbers == number for number in np.unique(numbers) if number]
        numbers = least


def nearest_colour(colour: NDArray[np.float64]) -> int:
    """The index of the colour with the nearest hue, ignoring lightness."""
    given, known = (rows - rows.mean(axis=-1, keepdims=True) for rows in (colour, PALETTE))
    alike = known @ given / (np.linalg.norm(known, axis=1) * np.linalg.norm(given))
    return int(alike.argmax())


def nearest_shape(spot: NDArray[np.bool_], colour: int) -> Shape | None:
    """The shape most similar to a spot, or None if none is similar enough."""
    rows, columns = np.flatnonzero(spot.any(axis=1)), np.flatnonzero(spot.any(axis=0))
    x, y = (int(line[0] + line[-1]) // 2 for line in (columns, rows))
    radius = max(int(columns[-1] - columns[0]), int(rows[-1] - rows[0])) // 2
    ideal = shape_pixels(
        np.arange(len(SHAPE_KINDS)), *(np.full(len(SHAPE_KINDS), value) for value in (x, y, radius))
    )  # (K, Y, X)
    shared = (ideal & spot).sum(axis=(1, 2)) / (ideal | spot).sum(axis=(1, 2))
    best = int(shared.argmax())
    if radius == 0 or shared[best] < MIN_OVERLAP:
        return None
    return Shape(SHAPE_KINDS[best], COLOURS[colour], x, y, radius)
