"""A scene: one to three coloured shapes, their positions, and their relations to each other.

The shapes of a scene differ in colour or kind, and are sorted by colour, then by kind, so a scene has exactly one
description. The first relation is that of the second shape to the first, the second that of the third shape to both.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError

ShapeKind = Literal["circle", "square", "triangle"]
Colour = Literal["red", "green", "blue", "yellow"]
Relation = Literal["left", "right", "above", "below"]
SHAPE_KINDS: tuple[ShapeKind, ...] = get_args(ShapeKind)
COLOURS: tuple[Colour, ...] = get_args(Colour)
RELATIONS: tuple[Relation, ...] = get_args(Relation)

SIZE = 32  # pixels per side
MAX_SHAPES = 3  # maximum number of shapes in a scene
RADII = (3, 6)  # smallest and largest radius
CLEAR = 4  # minimum margin of a relation in pixels; closer cases are never drawn
BETWEEN = 3  # minimum margin in pixels by which the third shape is between the others on the other axis


@dataclass(frozen=True)
class Shape:
    """A shape in a square box of 2 * radius + 1 pixels around (x, y); y points down."""

    kind: ShapeKind
    colour: Colour
    x: int
    y: int
    radius: int

    @property
    def number(self) -> int:
        """The index of its pair of colour and kind, 0 to 11."""
        return COLOURS.index(self.colour) * len(SHAPE_KINDS) + SHAPE_KINDS.index(self.kind)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom; right and bottom are exclusive."""
        return self.x - self.radius, self.y - self.radius, self.x + self.radius + 1, self.y + self.radius + 1

    def mask(self) -> NDArray[np.bool_]:
        """Its pixels (Y, X). Shapes never overlap."""
        numbers = (np.array(value) for value in (SHAPE_KINDS.index(self.kind), self.x, self.y, self.radius))
        return shape_pixels(*numbers)


@dataclass(frozen=True)
class Scene:
    """The shapes of an image, sorted by colour, then by kind."""

    shapes: tuple[Shape, ...]

    def __post_init__(self) -> None:
        numbers = [shape.number for shape in self.shapes]
        if numbers != sorted(set(numbers)):
            named = ", ".join(f"{shape.colour} {shape.kind}" for shape in self.shapes)
            raise InputError(f"a scene of {named}: expected different shapes, sorted by colour, then by kind")

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The second shape relative to the first, and the third relative to both; empty for a single shape."""
        first, *others = self.shapes
        found = [] if not others else [relation_of(others[0], first)]
        return tuple(found if len(others) < MAX_SHAPES - 1 else [*found, relation_to_both(others[1], first, others[0])])

    def masks(self) -> NDArray[np.bool_]:
        """The pixels of each shape, (N, Y, X)."""
        return np.stack([shape.mask() for shape in self.shapes])


def relation_of(a: Shape, b: Shape) -> Relation:
    """The position of `a` relative to `b`, along the axis on which they are further apart."""
    across, down = a.x - b.x, a.y - b.y
    if abs(across) > abs(down):
        return "left" if across < 0 else "right"
    return "above" if down < 0 else "below"


def opposite(relation: Relation) -> Relation:
    """The opposite direction."""
    number = RELATIONS.index(relation)
    return RELATIONS[number + 1 if number % 2 == 0 else number - 1]


def relation_to_both(a: Shape, b: Shape, c: Shape) -> Relation:
    """The position of `a` relative to both others: the side with the largest distance to the nearer one."""
    ahead: dict[Relation, int] = {
        "left": min(b.x, c.x) - a.x,
        "right": a.x - max(b.x, c.x),
        "above": min(b.y, c.y) - a.y,
        "below": a.y - max(b.y, c.y),
    }
    return max(RELATIONS, key=lambda relation: ahead[relation])


def shape_pixels(
    kind: NDArray[np.int_], x: NDArray[np.int_], y: NDArray[np.int_], radius: NDArray[np.int_]
) -> NDArray[np.bool_]:
    """The pixels (..., Y, X) of shapes given by arrays (...)."""
    kind, x, y, radius = (value[..., None, None] for value in (kind, x, y, radius))
    rows, columns = np.arange(SIZE)[:, None], np.arange(SIZE)
    across, down = np.abs(columns - x), rows - y  # (..., 1, X), (..., Y, 1)
    inside = (across <= radius) & (np.abs(down) <= radius)
    circle = across * across + down * down <= radius * radius + 1
    triangle = 2 * across <= down + radius  # its tip is at the top
    return inside & ((kind == 1) | ((kind == 0) & circle) | ((kind == 2) & triangle))
