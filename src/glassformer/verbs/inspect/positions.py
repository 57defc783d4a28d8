"""The verb `inspect positions`."""

from dataclasses import dataclass
from typing import Literal

from glassformer.verbs.inspect.common import PictureSettings


@dataclass(frozen=True, kw_only=True)
class PositionsSettings(PictureSettings):
    """Draw how a model knows order: a heat map, waves, and similarity by distance."""

    part: Literal["encoder", "decoder"] | None = None
    """Of a model with two stacks, which one; both if not given."""


def main(settings: PositionsSettings) -> None:
    from glassformer.checkpoints.load import load_folder
    from glassformer.hub import find_folder
    from glassformer.inspect.looks.positions import picture_positions

    path = settings.path("positions.png")
    picture_positions(load_folder(find_folder(settings.run), finite=True), path, part=settings.part)
    settings.tell("positions", path)
