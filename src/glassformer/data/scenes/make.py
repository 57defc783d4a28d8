"""Makes scenes: every image is a pure function of (part, seed, index), the same on every machine.

Random numbers are hashes of (seed, part, index, attempt), so any image can be made without the ones before it. Unclear
layouts are drawn again: no two shapes touch, and no relation depends on a few pixels.

The parts share no captions. `train`, `valid` and `test` never show the held-out pairs of colour and kind; every image
of `pairs` shows at least one of them.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from glassformer.data.scenes.scene import (
    BETWEEN,
    CLEAR,
    COLOURS,
    MAX_SHAPES,
    RADII,
    RELATIONS,
    SHAPE_KINDS,
    SIZE,
    Colour,
    Scene,
    Shape,
    ShapeKind,
    shape_pixels,
)
from glassformer.errors import InputError

ScenePart = Literal["train", "valid", "test", "pairs"]
SCENE_PARTS: tuple[ScenePart, ...] = get_args(ScenePart)
HELD_OUT_PAIRS: tuple[tuple[Colour, ShapeKind], ...] = (("blue", "circle"), ("yellow", "triangle"))
SHADES = {"red": (220, 45, 45), "green": (45, 170, 60), "blue": (45, 85, 220), "yellow": (225, 200, 45)}
DARKEST = 0.8  # lowest brightness of a shape, relative to its colour
BACKGROUND = (80, 170)  # range of the grey background
NOISE = 16  # largest change of a pixel by noise
TWO, THREE = 0.1, 0.45  # fractions of scenes with fewer than two and fewer than three shapes
TRIES = 16  # layouts drawn at once
AT_ONCE = 2048  # scenes made at once, which bounds the memory
OF_TEST, OF_VALID = 2, 1  # of every 16 captions
SALT = 597  # chosen so that every part has captions of one, two and three shapes

Int64Array = NDArray[np.int64]
SHAPE_NAMES = [(colour, kind) for colour in COLOURS for kind in SHAPE_KINDS]
COMBINATIONS = [list(combinations(range(len(SHAPE_NAMES)), count)) for count in range(1, MAX_SHAPES + 1)]
PADDED_COMBINATIONS = [
    np.array([choice + (0,) * (MAX_SHAPES - len(choice)) for choice in choices]) for choices in COMBINATIONS
]
HAS_HELD_OUT = [
    np.array([any(SHAPE_NAMES[number] in HELD_OUT_PAIRS for number in choice) for choice in choices])
    for choices in COMBINATIONS
]
PALETTE = np.array([SHADES[colour] for colour in COLOURS], dtype=np.float64)


class SceneImages(NamedTuple):
    """Images (N, 3, Y, X) of bytes, and the scene of each."""

    pixels: NDArray[np.uint8]
    scenes: list[Scene]


def make_scene(seed: int, index: int, part: ScenePart = "train") -> tuple[NDArray[np.uint8], Scene]:
    """One image (3, Y, X) and its scene."""
    made = make_scenes([index], seed=seed, part=part)
    return made.pixels[0], made.scenes[0]


def make_scenes(indices: Sequence[int] | Int64Array, *, seed: int, part: ScenePart = "train") -> SceneImages:
    """The images with these indices in a part; makes thousands per second."""
    if part not in SCENE_PARTS:
        raise InputError(f"part {part!r} of the scenes: expected {', '.join(SCENE_PARTS)}")
    numbers = np.asarray(indices, dtype=np.int64).reshape(-1)
    if len(numbers) and numbers.min() < 0:
        raise InputError(f"scene {numbers.min()}: expected 0 or more")
    pixels = np.empty((len(numbers), 3, SIZE, SIZE), dtype=np.uint8)
    scenes: list[Scene] = []
    for start in range(0, len(numbers), AT_ONCE):
        some = numbers[start : start + AT_ONCE]
        keys = mix_bits(mix_bits(np.full(1, seed % 2**63), SCENE_PARTS.index(part)), some)  # (n)
        counts, chosen, places = lay_out(keys, part)
        pixels[start : start + len(some)] = paint(keys, counts, chosen, places)
        scenes += [as_scene(*row) for row in zip(counts.tolist(), chosen.tolist(), places.tolist(), strict=True)]
    return SceneImages(pixels, scenes)


def as_scene(count: int, chosen: list[int], places: list[list[int]]) -> Scene:
    shapes = zip(chosen[:count], places, strict=False)
    return Scene(tuple(Shape(SHAPE_NAMES[number][1], SHAPE_NAMES[number][0], *place) for number, place in shapes))


def lay_out(keys: NDArray[np.uint64], part: ScenePart) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The first clear layout of each scene: the number of shapes (n), which (n, 3), and x, y and radius (n, 3, 3)."""
    counts = 1 + (random_fraction(keys, 0) >= TWO).astype(np.int64) + (random_fraction(keys, 0) >= THREE)
    chosen = np.zeros((len(keys), MAX_SHAPES), dtype=np.int64)
    places = np.zeros((len(keys), MAX_SHAPES, 3), dtype=np.int64)
    for count in range(1, MAX_SHAPES + 1):
        waiting, first = np.flatnonzero(counts == count), 1
        while len(waiting):
            tries = mix_bits(keys[waiting][:, None], np.arange(first, first + TRIES))  # (n, TRIES)
            which = random_below(tries, 1, len(COMBINATIONS[count - 1]))
            laid = place(tries)  # (n, TRIES, 3, 3)
            clear, relations = layout_is_clear(laid, count)
            good = clear & (caption_part(count, which, relations) == SCENE_PARTS.index(part))
            found, best = good.any(axis=1), good.argmax(axis=1)
            rows, tried = waiting[found], best[found]
            chosen[rows] = PADDED_COMBINATIONS[count - 1][which[found, tried]]
            places[rows] = laid[found, tried]
            waiting, first = waiting[~found], first + TRIES
    return counts, chosen, places


def place(tries: NDArray[np.uint64]) -> Int64Array:
    """x, y and radius (..., 3, 3) of three shapes inside the image."""
    smallest, largest = RADII
    laid = np.empty((*tries.shape, MAX_SHAPES, 3), dtype=np.int64)
    for shape in range(MAX_SHAPES):
        radius = smallest + random_below(tries, 3 * shape + 2, largest - smallest + 1)
        laid[..., shape, 2] = radius
        for axis in range(2):
            laid[..., shape, axis] = radius + random_below(tries, 3 * shape + 3 + axis, SIZE - 2 * radius)
    return laid


def layout_is_clear(laid: Int64Array, count: int) -> tuple[NDArray[np.bool_], Int64Array]:
    """Whether the shapes are separate and in clear relations (...), and a code for these relations (...)."""
    clear = np.ones(laid.shape[:-2], dtype=bool)
    relations = np.zeros(laid.shape[:-2], dtype=np.int64)
    for a, b in combinations(range(count), 2):
        apart = np.abs(laid[..., a, :2] - laid[..., b, :2]).max(axis=-1)
        clear &= apart >= laid[..., a, 2] + laid[..., b, 2] + 2  # a pixel of background between their boxes
    if count > 1:
        across, down = (laid[..., 0, axis] - laid[..., 1, axis] for axis in range(2))
        clear &= np.abs(np.abs(across) - np.abs(down)) >= CLEAR
        level = np.abs(across) > np.abs(down)
        relations += np.where(level, (across > 0).astype(np.int64), 2 + (down > 0))
    if count > 2:
        least, most = laid[..., :2, :2].min(axis=-2), laid[..., :2, :2].max(axis=-2)  # (..., 2)
        third = laid[..., 2, :2]
        before, behind = third <= least - CLEAR, third >= most + CLEAR  # (..., 2)
        amid = (third >= least + BETWEEN) & (third <= most - BETWEEN)
        sides = np.stack([before[..., 0], behind[..., 0], before[..., 1], behind[..., 1]], axis=-1)  # as RELATIONS
        upright = amid[..., 1] & ~level  # one is above the other, and the third is beside them
        sides &= np.stack([upright, upright, amid[..., 0] & level, amid[..., 0] & level], axis=-1)
        clear &= sides.any(axis=-1)
        relations += len(RELATIONS) * sides.argmax(axis=-1)
    return clear, relations


def caption_part(count: int, which: Int64Array, relations: Int64Array) -> Int64Array:
    """The index of the part that a caption belongs to: it depends on the caption alone, so parts share none."""
    code = (count * 1000 + which) * len(RELATIONS) ** 2 + relations
    drawn = random_below(mix_bits(code.astype(np.uint64), SALT), 0, 16)
    parts = np.where(drawn < OF_TEST, SCENE_PARTS.index("test"), SCENE_PARTS.index("train"))
    parts = np.where((drawn >= OF_TEST) & (drawn < OF_TEST + OF_VALID), SCENE_PARTS.index("valid"), parts)
    return np.where(HAS_HELD_OUT[count - 1][which], SCENE_PARTS.index("pairs"), parts)


def paint(keys: NDArray[np.uint64], counts: Int64Array, chosen: Int64Array, places: Int64Array) -> NDArray[np.uint8]:
    """Images (n, 3, Y, X) of bytes: shapes on a grey background, with noise."""
    masks = shape_pixels(chosen % len(SHAPE_KINDS), places[..., 0], places[..., 1], places[..., 2])  # (n, 3, Y, X)
    masks &= (np.arange(MAX_SHAPES) < counts[:, None])[..., None, None]
    lights = mix_bits(keys[:, None], 1000 + np.arange(MAX_SHAPES))  # (n, 3)
    lit = DARKEST + (1 - DARKEST) * random_fraction(lights, 0)
    colours = np.rint(PALETTE[chosen // len(SHAPE_KINDS)] * lit[..., None]).astype(np.int16)  # (n, 3, C)
    grey = BACKGROUND[0] + random_below(keys, 1, BACKGROUND[1] - BACKGROUND[0] + 1)
    pixels = np.broadcast_to(grey.astype(np.int16)[:, None, None, None], (len(keys), 3, SIZE, SIZE)).copy()
    for shape in range(MAX_SHAPES):
        mask = masks[:, shape, None]  # (n, 1, Y, X)
        np.copyto(pixels, colours[:, shape, :, None, None], where=mask)
    words = mix_bits(keys[:, None], 2000 + np.arange(SIZE * SIZE // 8)).astype("<u8")  # (n, Y * X / 8)
    noise = words.view(np.uint8).reshape(len(keys), 1, SIZE, SIZE) % (2 * NOISE + 1)
    return (pixels + noise.astype(np.int16) - NOISE).astype(np.uint8)


def mix_bits(keys: NDArray[np.uint64] | Int64Array, more: NDArray[np.int64] | int) -> NDArray[np.uint64]:
    """Hashes each key with another number (splitmix64: Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        mixed = keys.astype(np.uint64) * np.uint64(0xD1342543DE82EF95)
        mixed = mixed + (np.asarray(more).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def random_below(keys: NDArray[np.uint64], what: int, most: int | Int64Array) -> Int64Array:
    """A random integer from 0 to most - 1 for each key; `what` distinguishes the draws of a key."""
    high = (mix_bits(keys, 5000 + what) >> np.uint64(32)).astype(np.int64)
    return np.asarray((high * most) >> 32)


def random_fraction(keys: NDArray[np.uint64], what: int) -> NDArray[np.float64]:
    """A random number in [0, 1) for each key."""
    return np.asarray(random_below(keys, 9000 + what, 2**20) / 2**20)
