"""Attention maps of one layer for one input, with token names, and their figures.

Texts give maps from token to token. For images and series, which are split into patches, read `patches.py`.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.figures.plots import draw_attention
from glassformer.generation.loop import evaluating
from glassformer.inspect.looks.choice import (
    AttentionPart,
    check_choice,
    chosen_heads,
    default_part,
    layer_or_last,
    stack_of,
)
from glassformer.inspect.looks.examples import image_or_example, prepare_patches
from glassformer.inspect.looks.patches import picture_image, picture_series, picture_words
from glassformer.predict.captions import CaptionPreparer, check_question
from glassformer.predict.images import ImagePreparer, Picture
from glassformer.predict.prepare import Preparer, prepare_words, preparer_of, text_preparer
from glassformer.predict.prepared import Prepared
from glassformer.predict.texts import TextPreparer
from glassformer.text import Tokenizer
from glassformer.watch.record import record

CONTINUATION_TOKENS = 24  # most tokens that a decoder generates after a text, so that the maps include its own words


@dataclass(frozen=True)
class Maps:
    """The maps of one layer's heads, or a rollout: a row is a query, a column is a key."""

    weights: Tensor  # (H, T, S)
    rows: list[str]
    columns: list[str]
    title: str
    read_as: tuple[str, str]  # labels of the rows and of the columns


def attention_maps(
    preparer: TextPreparer, text: str, *, part: AttentionPart | None = None, layer: int | None = None
) -> Maps:
    """The maps of a layer, by default the last, while the model reads `text` and generates its output."""
    prepared = prepare_words(preparer, text, new_tokens=CONTINUATION_TOKENS)
    return maps_of(preparer.model, prepared, part or default_part(preparer.model), layer)


def maps_of(model: Transformer, prepared: Prepared, part: AttentionPart, layer: int | None) -> Maps:
    """`attention_maps` for a prepared input.

    A row of the target has the name of the token generated there, the one that the map helped to choose.
    """
    layer = layer_or_last(stack_of(model, part), layer)
    path = f"{part}.blocks.{layer}.attn" if part != "cross" else f"decoder.blocks.{layer}.cross"
    with evaluating(model), torch.no_grad(), record(model, attention=path) as seen:
        prepared.run(model)
    weights = seen[path][0].float().cpu()  # (H, T, S)
    title = f"cross-attention, layer {layer}" if part == "cross" else f"{part} self-attention, layer {layer}"
    return named(weights, prepared, part, title, "looks at")


def named(weights: Tensor, prepared: Prepared, part: AttentionPart, title: str, columns: str) -> Maps:
    """Maps with the tokens of their rows and columns."""
    rows = prepared.lines["encoder" if part == "encoder" else "decoder"]
    keys = prepared.lines["decoder" if part == "decoder" else "encoder"]
    said = "from" if rows.writes is None else "written"
    before = weights.shape[-1] - len(keys.names)  # length of a source that comes before the tokens
    source = prepared.lines["encoder"].names[:before] if before else []
    return Maps(weights, [*source, *rows.written], [*source, *keys.names], title, (said, columns))


def picture_attention(
    model: Transformer,
    tokenizer: Tokenizer,
    text: str,
    path: Path,
    *,
    part: AttentionPart | None = None,
    layer: int | None = None,
    head: int | None = None,
    average: bool = False,
) -> None:
    """Draws the maps of a text, for a loaded model and its tokenizer."""
    picture_text(text_preparer(model, tokenizer), text, path, part=part, layer=layer, head=head, average=average)


def picture_text(
    preparer: TextPreparer,
    text: str,
    path: Path,
    *,
    part: AttentionPart | None = None,
    layer: int | None = None,
    head: int | None = None,
    average: bool = False,
) -> None:
    """Draws the maps of a text: all heads side by side, one head, or their average."""
    check_choice(stack_of(preparer.model, part or default_part(preparer.model)), head, average)
    draw_maps(attention_maps(preparer, text, part=part, layer=layer), path, head, average)


def draw_maps(maps: Maps, path: Path, head: int | None, average: bool) -> None:
    shown = chosen_heads(maps.weights, head, average)
    draw_attention(shown, maps.rows, maps.columns, maps.title, path, read_as=maps.read_as, label="attention weight")


def picture_input(
    model: Transformer,
    folder: Path,
    given: str | Picture,
    path: Path,
    *,
    part: AttentionPart | None = None,
    layer: int | None = None,
    head: int | None = None,
    average: bool = False,
    question: str | None = None,
    preparer: Preparer | None = None,
) -> None:
    """Draws the attention of the model in `folder` to its input: a text, or the path of an image or a CSV file.

    For an image or a series, `example` stands for one that the run held out, or a built-in one. Only a model that
    answers questions takes a `question`.
    """
    preparer = preparer_of(model, folder) if preparer is None else preparer
    part = part or default_part(model)
    stack = stack_of(model, part)
    check_choice(stack, head, average)
    layer = layer_or_last(stack, layer)
    if isinstance(preparer, CaptionPreparer):
        prepared = prepare_words(preparer, image_or_example(preparer, folder, str(given)), question=question)
        if part == "encoder":
            picture_image(model, prepared, path, layer=layer, head=head, average=average)
        elif part == "decoder" and not model.config.prefix:
            draw_maps(maps_of(model, prepared, part, layer), path, head, average)
        else:
            picture_words(model, prepared, path, layer=layer, head=head, average=average)
        return
    check_question(question)
    if isinstance(preparer, TextPreparer):
        picture_text(preparer, str(given), path, part=part, layer=layer, head=head, average=average)
        return
    prepared = prepare_patches(preparer, folder, given)
    picture = picture_image if isinstance(preparer, ImagePreparer) else picture_series
    picture(model, prepared, path, layer=layer, head=head, average=average)
