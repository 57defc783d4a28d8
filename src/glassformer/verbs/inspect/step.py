"""The verb `inspect step`: one head by hand."""

import json
from dataclasses import dataclass
from typing import Literal

from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ModelSettings, QuestionSettings, Text, load_words


@dataclass(frozen=True, kw_only=True)
class StepSettings(QuestionSettings, ModelSettings):
    """The forward pass of one head with the numbers of a text, equation by equation, each with its line of code."""

    text: Text
    """The text that the model reads; of a captioner the path of an image, or `example`."""
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
    """The translation, caption or answer; the model's own if not given."""


def main(settings: StepSettings) -> None:
    from glassformer.inspect.walk.equations import show
    from glassformer.inspect.walk.walkthrough import walk

    preparer, given = load_words(settings.run, "step", settings.text)
    found = walk(
        preparer, given, layer=settings.layer, head=settings.head, token=settings.token, part=settings.part,
        target=settings.target, question=settings.question,
    )  # fmt: skip
    if settings.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        show(found, make_console())
