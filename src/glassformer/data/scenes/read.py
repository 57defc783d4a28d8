"""A picture read back: which shapes it shows, by rule.

Exact on every picture that `make.py` paints. Of other pictures (a model's drawing, say) it tells the shapes that are
well drawn, and leaves out spots that look like none.
"""

import numpy as np
from numpy.typing import NDArray

from glassformer.data.scenes.make import PALETTE
from glassformer.data.scenes.scene import COLOURS, KINDS, SIZE, Scene, Shape, fill
from glassformer.errors import InputError

COLOURFUL = 50  # the strongest channel above the weakest: grey has none of it
ALIKE = 0.75  # of the pixels of a spot and of a shape, those they share


def parse(pixels: NDArray[np.uint8]) -> Scene:
    """The scene that a picture (3, Y, X) of bytes shows."""
    if pixels.shape != (3, SIZE, SIZE) or pixels.dtype != np.uint8:
        raise InputError(f"a picture {pixels.shape} of {pixels.dtype}: expected (3, {SIZE}, {SIZE}) of uint8")
    values = pixels.astype(np.int64)
    colourful = values.max(axis=0) - values.min(axis=0) >= COLOURFUL  # (Y, X)
    found: dict[int, Shape] = {}
    for spot in spots(colourful):
        shape = nearest_shape(spot, nearest_colour(values[:, spot].mean(axis=1)))
        if shape is not None and shape.number not in found:
            found[shape.number] = shape
    return Scene(tuple(found[number] for number in sorted(found)))


def spots(colourful: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Connected parts (Y, X). Every pixel takes the smallest number beside it, until none changes."""
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
    """The number of the colour with the same hue: lightness does not count."""
    given, known = (rows - rows.mean(axis=-1, keepdims=True) for rows in (colour, PALETTE))
    alike = known @ given / (np.linalg.norm(known, axis=1) * np.linalg.norm(given))
    return int(alike.argmax())


def nearest_shape(spot: NDArray[np.bool_], colour: int) -> Shape | None:
    """The shape that a spot is nearest to; none if it is near to none."""
    rows, columns = np.flatnonzero(spot.any(axis=1)), np.flatnonzero(spot.any(axis=0))
    x, y = (int(line[0] + line[-1]) // 2 for line in (columns, rows))
    radius = max(int(columns[-1] - columns[0]), int(rows[-1] - rows[0])) // 2
    ideal = fill(np.arange(len(KINDS)), *(np.full(len(KINDS), value) for value in (x, y, radius)))  # (K, Y, X)
    shared = (ideal & spot).sum(axis=(1, 2)) / (ideal | spot).sum(axis=(1, 2))
    best = int(shared.argmax())
    if radius == 0 or shared[best] < ALIKE:
        return None
    return Shape(KINDS[best], COLOURS[colour], x, y, radius)
