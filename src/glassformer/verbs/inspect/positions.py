"""The verb `inspect positions`: draws the position encoding."""

from dataclasses import dataclass
from typing import Literal

from glassformer.verbs.inspect.common import FigureSettings


@dataclass(frozen=True, kw_only=True)
class PositionsSettings(FigureSettings):
    """Draw how a model encodes positions: a heat map, waves, and similarity by distance."""

    part: Literal["encoder", "decoder"] | None = None
    """Stack of an encoder-decoder to draw (default: both)."""


def main(settings: PositionsSettings) -> None:
    from glassformer.checkpoints.load import load_folder
    from glassformer.hub import find_folder
    from glassformer.inspect.looks.positions import picture_positions

    path = settings.path("positions.png")
    picture_positions(load_folder(find_folder(settings.run), finite=True), path, part=settings.part)
    settings.tell("positions", path)
