"""The verb `inspect step`: one head by hand."""

import json
from dataclasses import dataclass
from typing import Literal

from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ModelSettings, Text, load_reader


@dataclass(frozen=True, kw_only=True)
class StepSettings(ModelSettings):
    """The forward pass of one head with the numbers of a text, equation by equation, each with its line of code."""

    text: Text
    """The text that the model reads."""
    part: Literal["cross", "encoder", "decoder"] | None = None
    """Of a model with two stacks: what looks from target to source (cross), or within the source (encoder) or the
    target (decoder); the decoder if not given."""
    layer: int = 0
    """Which layer, counted from 0."""
    head: int = 0
    """Which head, counted from 0."""
    token: int = -1
    """Which token to follow, counted from 0; the last if not given."""
    target: str | None = None
    """The translation; the model's own if not given."""


def main(settings: StepSettings) -> None:
    from glassformer.inspect.walk.equations import show
    from glassformer.inspect.walk.walkthrough import walk

    found = walk(
        load_reader(settings.run, "step"), settings.text, layer=settings.layer, head=settings.head,
        token=settings.token, part=settings.part, target=settings.target,
    )  # fmt: skip
    if settings.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        show(found, make_console())
