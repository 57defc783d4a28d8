"""An input as the page sends it, read as the model takes it: a text, a picture, a series, or one of the examples.

    {"text": "Nov 15 2026"}                        any model of texts
    {"text": "Once upon", "continued": [12, 7]}    a decoder goes on from its own tokens
    {"text": "Nov 15 2026", "target": "2026년"}     a translation that is given, not made
    {"image": "data:image/png;base64,..."}         a model of images
    {"csv": "date,load\\n...", "channel": 0}        a model of series
    {"example": 3}                                 any model

What comes out is the call of the model, and what the page shows of the input.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from glassformer.errors import InputError, nearest
from glassformer.text import Encoded

KEYS = {
    "text": ("text", "continued", "target"),
    "image": ("image", "example"),
    "series": ("csv", "example", "channel"),
}


@dataclass(frozen=True)
class Prepared:
    """One call of the model, and what the page shows of its input."""

    arguments: dict[str, Tensor]
    lines: dict[str, dict[str, Any]]
    row: int = 0  # of the batch: which channel of a series is shown
    text: str | None = None  # what the model wrote
    written: list[int] = field(default_factory=list)  # the decoder's tokens, as ids
    source: str = ""
    encoded: Encoded | None = None
    picture: dict[str, Any] | None = None
    curve: dict[str, Any] | None = None
    unscale: Any = None  # from what the model forecasts to the values of the input


def check_keys(given: Any, kind: str) -> dict[str, Any]:
    """The input as a dictionary of what a model of this kind reads, and nothing else."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(f'the input is {given!r:.60}: expected an object such as {{"{KEYS[kind][0]}": ...}}')
    for key in given:
        if key not in KEYS[kind]:
            raise InputError(f"the input has {key!r:.40}, and this is a model of {kind}{nearest(str(key), KEYS[kind])}")
    for key, value in given.items():
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise InputError(f"{key} holds half a character, which is no text: write the whole one")
    return dict(given)


def example_of(given: Mapping[str, Any], count: int) -> int:
    number = given["example"]
    if type(number) is not int or not 0 <= number < count:
        raise InputError(f"example {number!r:.20} is not there: expected a number from 0 to {count - 1}")
    return number
