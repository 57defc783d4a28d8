"""The verb `inspect step`: prints the computation of one attention head."""

import json
from dataclasses import dataclass
from typing import Literal

from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ModelSettings, QuestionSettings, TextArgument, load_words


@dataclass(frozen=True, kw_only=True)
class StepSettings(QuestionSettings, ModelSettings):
    """Print the forward pass of one head on your text, equation by equation, each with its line of code."""

    text: TextArgument
    """The text to read; for a captioning model the path of an image, or `example` for a built-in one."""
    part: Literal["cross", "encoder", "decoder"] | None = None
    """Which attention of an encoder-decoder: cross looks from target to source, encoder within the source, decoder
    within the target (default: decoder)."""
    layer: int = 0
    """Layer, counted from 0."""
    head: int = 0
    """Head, counted from 0."""
    token: int = -1
    """Token to follow, counted from 0 (default: the last)."""
    target: str | None = None
    """The translation, caption or answer (default: the model's own)."""


def main(settings: StepSettings) -> None:
    from glassformer.inspect.walk.equations import show_walk
    from glassformer.inspect.walk.walkthrough import walk

    preparer, given = load_words(settings.run, "step", settings.text)
    found = walk(
        preparer, given, layer=settings.layer, head=settings.head, token=settings.token, part=settings.part,
        target=settings.target, question=settings.question,
    )  # fmt: skip
    if settings.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        show_walk(found, make_console())
