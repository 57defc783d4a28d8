"""The verb `inspect attention`."""

from dataclasses import dataclass
from typing import Literal

from glassformer.verbs.inspect.common import PictureSettings, QuestionSettings, Text


@dataclass(frozen=True, kw_only=True)
class AttentionSettings(QuestionSettings, PictureSettings):
    """Draw what a model attends to: every head of a layer, one of them, or their average."""

    text: Text
    """A text, the path of an image or of a CSV file, or `example` for one of those."""
    part: Literal["cross", "encoder", "decoder"] | None = None
    """Of a model with two stacks: what looks from target to source (cross), or within the source (encoder) or the
    target (decoder); cross if not given. The source of a captioner is its image."""
    layer: int | None = None
    """Which layer, counted from 0; the last if not given."""
    head: int | None = None
    """Only this head, counted from 0; all of them if not given."""
    average: bool = False
    """The average over the heads."""


def main(settings: AttentionSettings) -> None:
    from glassformer.checkpoints.load import load_folder
    from glassformer.hub import find_folder
    from glassformer.inspect.looks.attention import picture_input
    from glassformer.inspect.looks.choice import part_of

    folder = find_folder(settings.run)
    model = load_folder(folder, finite=True)
    part = settings.part or part_of(model)
    path = settings.path(picture_name(settings, part))
    picture_input(
        model, folder, settings.text, path, part=part, layer=settings.layer, head=settings.head,
        average=settings.average, question=settings.question,
    )  # fmt: skip
    settings.tell("attention", path)


def picture_name(settings: AttentionSettings, part: str) -> str:
    """attention-cross.png, or attention-cross-layer0-head2.png where those were chosen."""
    layer = "" if settings.layer is None else f"-layer{settings.layer}"
    head = "" if settings.head is None else f"-head{settings.head}"
    return f"attention-{part}{layer}{head}{'-average' if settings.average else ''}.png"
