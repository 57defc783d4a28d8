"""What a layer looks at while the model reads one input, with the names of what it looks at, and as a picture.

For texts a map from token to token; for pictures and series, which are cut into patches, see `patches.py`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.errors import InputError
from glassformer.figures.plots import draw_attention
from glassformer.generation.loop import evaluating
from glassformer.inspect.looks.patches import picture_image, picture_series
from glassformer.inspect.looks.rollout import rollout_of
from glassformer.inspect.readings import (
    EXAMPLE,
    example_image,
    example_window,
    read_image,
    read_numbers,
    read_text,
    read_window,
)
from glassformer.predict.inputs import as_numbers
from glassformer.predict.pictures import read_preparation
from glassformer.predict.series import read_scale
from glassformer.text import Tokenizer, load_tokenizer
from glassformer.watch.record import record

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


def attention_maps(
    model: Transformer, tokenizer: Tokenizer, text: str, *, part: Part | None = None, layer: int | None = None
) -> Maps:
    """The maps of a layer (the last, if none is named) while the model reads `text` and writes what it makes of it.

    A row of the target is named by the token that was being written there: the one that the map helped to choose.
    """
    part = part or part_of(model)
    stack = stack_of(model, part)
    layer = check_index("layer", stack.config.num_layers - 1 if layer is None else layer, stack.config.num_layers)
    path = f"{part}.blocks.{layer}.attn" if part != "cross" else f"decoder.blocks.{layer}.cross"
    reading = read_text(model, tokenizer, text)
    with evaluating(model), torch.no_grad(), record(model, attention=path) as seen:
        model(**reading.inputs)
    weights = seen[path][0].float().cpu()  # (H, T, S)
    if part == "encoder":
        return Maps(
            weights, reading.source, reading.source, f"encoder self-attention, layer {layer}", ("from", "looks at")
        )
    rows = "written" if reading.written != reading.target else "from"
    if part == "cross":
        return Maps(weights, reading.written, reading.source, f"cross-attention, layer {layer}", (rows, "looks at"))
    title = f"decoder self-attention, layer {layer}"
    return Maps(weights, reading.written, reading.target, title, (rows, "looks at"))


def rollout_maps(model: Transformer, tokenizer: Tokenizer, text: str, *, part: Part | None = None) -> Maps:
    """One map through all layers of a stack: `rollout.py`."""
    part = part or ("decoder" if model.encoder is None else "encoder")
    stack_of(model, part)
    if part == "cross":
        raise InputError("--part cross cannot be rolled out: it has no path from layer to layer. Name a stack")
    reading = read_text(model, tokenizer, text)
    with evaluating(model):
        weights = rollout_of(model, reading.inputs, stack=part).float().cpu()  # (1, T, T)
    rows, columns = (reading.source,) * 2 if part == "encoder" else (reading.written, reading.target)
    said = "from" if rows == columns else "written"
    return Maps(weights, rows, columns, f"{part} rollout, all layers", (said, "made from"))


def picture_attention(
    model: Transformer,
    tokenizer: Tokenizer,
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
        maps = rollout_maps(model, tokenizer, text, part=part)
        shown, label = {"": maps.weights[0]}, "share"
    else:
        maps = attention_maps(model, tokenizer, text, part=part, layer=layer)
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
    if model.config.patches is None:
        tokenizer = load_tokenizer(folder)
        picture_attention(
            model, tokenizer, given, path, part=part, layer=layer, head=head, average=average, rollout=rollout
        )
        return
    kind = "image" if model.config.image else "series"
    if not given.strip():
        raise InputError(f"the input is empty: give the path of {'an image' if model.config.image else 'a CSV file'}")
    stack = stack_of(model, part or "encoder")
    layer = check_index("layer", stack.config.num_layers - 1 if layer is None else layer, stack.config.num_layers)
    if head is not None:
        check_index("head", head, stack.config.num_heads)
    if kind == "image":
        preparation = read_preparation(folder, model.config)
        image = read_image(model, preparation, example_image(folder) if given == EXAMPLE else given)
        picture_image(model, image, path, layer=layer, head=head, average=average, rollout=rollout)
        return
    scale = read_scale(folder)
    if given == EXAMPLE:
        window = example_window(model, scale, folder)
    elif model.config.head == "forecast":
        window = read_window(model, scale, given)
    else:
        window = read_numbers(model, scale, as_numbers(given, "the input"), "the given series")
    picture_series(model, window, path, layer=layer, head=head, average=average, rollout=rollout)


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
