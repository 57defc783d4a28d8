"""The verb `inspect attention`: draws the attention weights of a layer."""

from dataclasses import dataclass
from typing import Literal

from glassformer.verbs.inspect.common import FigureSettings, QuestionSettings, TextArgument, preparer_for


@dataclass(frozen=True, kw_only=True)
class AttentionSettings(QuestionSettings, FigureSettings):
    """Draw the attention weights of a layer: every head, one head, or the average over the heads."""

    text: TextArgument
    """A text, the path of an image or of a CSV file, or `example` for a built-in one."""
    part: Literal["cross", "encoder", "decoder"] | None = None
    """Which attention of an encoder-decoder: cross looks from target to source, encoder within the source, decoder
    within the target (default: cross). The source of a captioning model is the image."""
    layer: int | None = None
    """Layer, counted from 0 (default: the last)."""
    head: int | None = None
    """Head, counted from 0 (default: all heads)."""
    average: bool = False
    """Draw the average over the heads."""


def main(settings: AttentionSettings) -> None:
    from glassformer.checkpoints.load import load_model
    from glassformer.core.pair import Pair
    from glassformer.hub import find_folder
    from glassformer.inspect.looks.attention import picture_input
    from glassformer.inspect.looks.choice import default_part
    from glassformer.predict.images import Picture

    folder = find_folder(settings.run)
    model, preparer = load_model(folder, finite=True), None
    given: str | Picture = settings.text
    if isinstance(model, Pair):
        preparer, given = preparer_for(model, folder, settings.text)
        model = preparer.model
    part = settings.part or default_part(model)
    path = settings.path(picture_name(settings, part))
    picture_input(
        model, folder, given, path, part=part, layer=settings.layer, head=settings.head,
        average=settings.average, question=settings.question, preparer=preparer,
    )  # fmt: skip
    settings.tell("attention", path)


def picture_name(settings: AttentionSettings, part: str) -> str:
    """attention-cross.png, or attention-cross-layer0-head2.png if a layer and a head were chosen."""
    layer = "" if settings.layer is None else f"-layer{settings.layer}"
    head = "" if settings.head is None else f"-head{settings.head}"
    return f"attention-{part}{layer}{head}{'-average' if settings.average else ''}.png"
