"""The verb `inspect rollout`: draws the attention through all layers."""

from dataclasses import dataclass
from typing import Literal

from glassformer.verbs.inspect.common import FigureSettings, QuestionSettings, TextArgument


@dataclass(frozen=True, kw_only=True)
class RolloutSettings(QuestionSettings, FigureSettings):
    """Draw how much of each input token reaches each position through all layers (attention rollout)."""

    text: TextArgument
    """A text, the path of an image or of a CSV file, or `example` for a built-in one."""
    part: Literal["encoder", "decoder"] | None = None
    """Stack to draw (default: the encoder, if the model has one)."""


def main(settings: RolloutSettings) -> None:
    from glassformer.checkpoints.load import load_folder
    from glassformer.hub import find_folder
    from glassformer.inspect.looks.rollout_picture import picture_rollout

    folder = find_folder(settings.run)
    model = load_folder(folder, finite=True)
    part = settings.part or ("decoder" if model.encoder is None else "encoder")
    path = settings.path(f"attention-{part}-rollout.png")
    picture_rollout(model, folder, settings.text, path, part=part, question=settings.question)
    settings.tell("rollout", path)
