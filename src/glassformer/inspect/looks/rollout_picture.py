"""Figures of attention rollout over all layers of a stack. `rollout.py` computes it."""

from pathlib import Path

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.figures.plots import draw_attention
from glassformer.generation.loop import evaluating
from glassformer.inspect.looks.attention import CONTINUATION_TOKENS, Maps, named
from glassformer.inspect.looks.choice import AttentionPart, stack_of
from glassformer.inspect.looks.examples import image_or_example, prepare_patches
from glassformer.inspect.looks.patches import picture_image_rollout, picture_series_rollout
from glassformer.inspect.looks.rollout import rollout_of
from glassformer.predict.captions import CaptionPreparer, check_question
from glassformer.predict.images import ImagePreparer
from glassformer.predict.prepare import prepare_words, preparer_of
from glassformer.predict.prepared import Prepared
from glassformer.predict.texts import TextPreparer


def rollout_maps(preparer: TextPreparer, text: str, *, part: AttentionPart | None = None) -> Maps:
    """The rollout over all layers of a stack, as one map."""
    model = preparer.model
    part = part or ("decoder" if model.encoder is None else "encoder")
    stack_of(model, part)
    if part == "cross":
        raise InputError("--part cross has no rollout: it does not connect one layer to the next. Name a stack instead")
    return stack_rollout(model, prepare_words(preparer, text, new_tokens=CONTINUATION_TOKENS), part)


def stack_rollout(model: Transformer, prepared: Prepared, part: AttentionPart) -> Maps:
    """`rollout_maps` for a prepared input."""
    with evaluating(model):
        weights = rollout_of(model, prepared.arguments, stack=part).float().cpu()  # (1, T, T)
    return named(weights, prepared, part, f"{part} rollout, all layers", "made from")


def picture_text_rollout(preparer: TextPreparer, text: str, path: Path, *, part: AttentionPart | None = None) -> None:
    draw_rollout(rollout_maps(preparer, text, part=part), path)


def draw_rollout(maps: Maps, path: Path) -> None:
    draw_attention(
        {"": maps.weights[0]}, maps.rows, maps.columns, maps.title, path, read_as=maps.read_as, label="share"
    )


def picture_rollout(
    model: Transformer,
    folder: Path,
    given: str,
    path: Path,
    *,
    part: AttentionPart | None = None,
    question: str | None = None,
) -> None:
    """Draws the rollout of the model in `folder`; `given` is as in `picture_input`."""
    preparer = preparer_of(model, folder)
    if isinstance(preparer, CaptionPreparer):
        stack_of(model, part or "encoder")
        prepared = prepare_words(preparer, image_or_example(preparer, folder, given), question=question)
        if part == "decoder":
            draw_rollout(stack_rollout(model, prepared, part), path)
        else:
            picture_image_rollout(model, prepared, path)
        return
    check_question(question)
    if isinstance(preparer, TextPreparer):
        picture_text_rollout(preparer, given, path, part=part)
        return
    stack_of(model, part or "encoder")
    prepared = prepare_patches(preparer, folder, given)
    picture = picture_image_rollout if isinstance(preparer, ImagePreparer) else picture_series_rollout
    picture(model, prepared, path)
