"""What a layer looks at while the model reads one input, with the names of what it looks at, and as a picture.

For texts a map from token to token; for pictures and series, which are cut into patches, see `patches.py`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.errors import InputError
from glassformer.figures.plots import draw_attention
from glassformer.generation.loop import evaluating
from glassformer.inspect.looks.examples import EXAMPLE, example_image, example_window
from glassformer.inspect.looks.patches import picture_image, picture_series
from glassformer.inspect.looks.rollout import rollout_of
from glassformer.predict.images import ImagePreparer
from glassformer.predict.inputs import as_numbers
from glassformer.predict.prepare import preparer_of, text_preparer
from glassformer.predict.prepared import Prepared
from glassformer.predict.series import SeriesPreparer
from glassformer.predict.texts import TextPreparer
from glassformer.text import Tokenizer
from glassformer.watch.record import record

CONTINUED = 24  # tokens that a decoder goes on with, at the most, so that its own words are looked at too
Part = Literal["cross", "encoder", "decoder"]
SAID = {"cross": "cross-attention", "encoder": "an encoder", "decoder": "a decoder"}


@dataclass(frozen=True)
class Maps:
    """The heads of one layer, or what becomes of them: a row is a query, a column is a key."""

    weights: Tensor  # (H, T, S)
    rows: list[str]
    columns: list[str]
    title: str
    read_as: tuple[str, str]  # what the rows are, and what the columns are


def attention_maps(preparer: TextPreparer, text: str, *, part: Part | None = None, layer: int | None = None) -> Maps:
    """The maps of a layer (the last, if none is named) while the model reads `text` and writes what it makes of it.

    A row of the target is named by the token that was being written there: the one that the map helped to choose.
    """
    model = preparer.model
    part = part or part_of(model)
    stack = stack_of(model, part)
    layer = check_index("layer", stack.config.num_layers - 1 if layer is None else layer, stack.config.num_layers)
    path = f"{part}.blocks.{layer}.attn" if part != "cross" else f"decoder.blocks.{layer}.cross"
    prepared = preparer.prepare(text, new_tokens=CONTINUED, whole=True)
    with evaluating(model), torch.no_grad(), record(model, attention=path) as seen:
        prepared.run(model)
    weights = seen[path][0].float().cpu()  # (H, T, S)
    title = f"cross-attention, layer {layer}" if part == "cross" else f"{part} self-attention, layer {layer}"
    return named(weights, prepared, part, title, "looks at")


def rollout_maps(preparer: TextPreparer, text: str, *, part: Part | None = None) -> Maps:
    """One map through all layers of a stack: `rollout.py`."""
    model = preparer.model
    part = part or ("decoder" if model.encoder is None else "encoder")
    stack_of(model, part)
    if part == "cross":
        raise InputError("--part cross cannot be rolled out: it has no path from layer to layer. Name a stack")
    prepared = preparer.prepare(text, new_tokens=CONTINUED, whole=True)
    with evaluating(model):
        weights = rollout_of(model, prepared.arguments, stack=part).float().cpu()  # (1, T, T)
    return named(weights, prepared, part, f"{part} rollout, all layers", "made from")


def named(weights: Tensor, prepared: Prepared, part: Part, title: str, columns: str) -> Maps:
    """Maps with the tokens of their rows and columns."""
    rows = prepared.lines["encoder" if part == "encoder" else "decoder"]
    keys = prepared.lines["decoder" if part == "decoder" else "encoder"]
    said = "from" if rows.writes is None else "written"
    return Maps(weights, rows.written, keys.names, title, (said, columns))


def picture_attention(
    model: Transformer, tokenizer: Tokenizer, text: str, path: Path, *, part: Part | None = None, **choice: Any
) -> None:
    """The maps of a text. `choice`: as in `picture_text`."""
    picture_text(text_preparer(model, tokenizer), text, path, part=part, **choice)


def picture_text(
    preparer: TextPreparer,
    text: str,
    path: Path,
    *,
    part: Part | None = None,
    layer: int | None = None,
    head: int | None = None,
    average: bool = False,
    rollout: bool = False,
) -> None:
    """The maps of a text: each head beside the others, one of them, their average, or the rollout."""
    check_choice(layer, head, average, rollout)
    if rollout:
        maps = rollout_maps(preparer, text, part=part)
        shown, label = {"": maps.weights[0]}, "share"
    else:
        maps = attention_maps(preparer, text, part=part, layer=layer)
        shown, label = chosen_maps(maps.weights, head, average), "attention weight"
    draw_attention(shown, maps.rows, maps.columns, maps.title, path, read_as=maps.read_as, label=label)


def picture_input(
    model: Transformer,
    folder: Path,
    given: str,
    path: Path,
    *,
    part: Part | None = None,
    layer: int | None = None,
    head: int | None = None,
    average: bool = False,
    rollout: bool = False,
) -> None:
    """The attention of the model in `folder` to whatever it reads: a text, the path of an image or of a CSV file.

    For a picture or a series, `example` stands for one that the run held out, or a built-in one.
    """
    check_choice(layer, head, average, rollout)
    preparer = preparer_of(model, folder)
    if isinstance(preparer, TextPreparer):
        picture_text(preparer, given, path, part=part, layer=layer, head=head, average=average, rollout=rollout)
        return
    if not given.strip():
        raise InputError(f"the input is empty: give the path of {'an image' if model.config.image else 'a CSV file'}")
    stack = stack_of(model, part or "encoder")
    layer = check_index("layer", stack.config.num_layers - 1 if layer is None else layer, stack.config.num_layers)
    if head is not None:
        check_index("head", head, stack.config.num_heads)
    if isinstance(preparer, ImagePreparer):
        image = preparer.prepare(example_image(folder) if given == EXAMPLE else given)
        picture_image(model, image, path, layer=layer, head=head, average=average, rollout=rollout)
        return
    window = read_series(preparer, folder, given)
    picture_series(model, window, path, layer=layer, head=head, average=average, rollout=rollout)


def read_series(preparer: SeriesPreparer, folder: Path, given: str) -> Prepared:
    if given == EXAMPLE:
        return example_window(preparer, folder)
    if preparer.model.config.head == "forecast":
        return preparer.prepare(given)
    return preparer.prepare(as_numbers(given, "the input"), name="the given series")


def part_of(model: Transformer) -> Part:
    """Whose attention to draw where nobody says."""
    if model.encoder is None:
        return "decoder"
    return "encoder" if model.decoder is None else "cross"


def stack_of(model: Transformer, part: Part) -> Stack:
    """The stack that has this part of the attention."""
    stack = model.encoder if part == "encoder" else model.decoder
    if stack is None or (part == "cross" and not stack.cross):
        has = "an encoder alone" if model.decoder is None else "a decoder alone"
        raise InputError(f"this model has no {SAID[part].split()[-1]}: it is {has}. Leave --part {part} out")
    return stack


def chosen_maps(weights: Tensor, head: int | None, average: bool) -> dict[str, Tensor]:
    """The maps that are drawn, by name."""
    if average:
        return {f"average of {len(weights)} heads": weights.mean(dim=0)}
    heads = range(len(weights)) if head is None else [check_index("head", head, len(weights))]
    return {f"head {i}": weights[i] for i in heads}


def check_choice(layer: int | None, head: int | None, average: bool, rollout: bool) -> None:
    """Two ways to choose heads at once are refused."""
    if head is not None and average:
        raise InputError("--head and --average were both given: one head, or the average of all. Choose one")
    if rollout and (head is not None or layer is not None or average):
        raise InputError("--rollout goes through all heads of all layers: leave --layer, --head and --average out")


def check_index(name: str, index: int, number: int) -> int:
    if not 0 <= index < number:
        raise InputError(f"--{name} is {index}: this model has {number}, counted from 0 to {number - 1}")
    return index
