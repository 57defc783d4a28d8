"""What a layer looks at while the model translates a text, with the tokens it belongs to, and as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation import generate
from glassformer.inspect.plots import draw_attention
from glassformer.inspect.record import record
from glassformer.text import Tokenizer

Part = Literal["cross", "encoder", "decoder"]


@dataclass(frozen=True)
class Maps:
    """The heads of one layer: a row is a query, a column is a key."""

    weights: Tensor  # (H, T, S)
    rows: list[str]
    columns: list[str]
    title: str


def attention_maps(
    model: Transformer, tokenizer: Tokenizer, text: str, *, part: Part = "cross", layer: int | None = None
) -> Maps:
    """The maps of a layer (the last, if none is named) during one translation of `text`.

    A row of the target is named by the token that was being written there: the one that the map helped to choose.
    """
    if not text.strip():
        raise InputError("the text to attend to is empty: give some words")
    stack = model.encoder if part == "encoder" else model.decoder
    if stack is None or (part == "cross" and not stack.cross):
        raise InputError(f"this model has no {'cross-attention' if part == 'cross' else part}: choose another --part")
    layer = check_index("layer", stack.config.num_layers - 1 if layer is None else layer, stack.config.num_layers)
    encoded = tokenizer.encode([text])
    if model.decoder is None:
        with record(model, attention=True) as seen, torch.no_grad():
            model.encode(encoded.input_ids, encoded.attention_mask)
        tokens = tokenizer.tokens(encoded.input_ids[0].tolist())
        return Maps(seen[f"encoder.blocks.{layer}.attn"][0], tokens, tokens, f"encoder self-attention, layer {layer}")
    with record(model, attention=True) as seen:
        ids = generate(model, encoded.input_ids, attention_mask=encoded.attention_mask, max_new_tokens=128)
    source, target = (tokenizer.tokens(row[0].tolist()) for row in (encoded.input_ids, ids))
    if part == "cross":
        return Maps(seen[f"decoder.blocks.{layer}.cross"][0], target[1:], source, f"cross-attention, layer {layer}")
    title = f"{part} self-attention, layer {layer}"
    rows, columns = (source, source) if part == "encoder" else (target[1:], target[:-1])
    return Maps(seen[f"{part}.blocks.{layer}.attn"][0], rows, columns, title)


def picture_attention(
    model: Transformer,
    tokenizer: Tokenizer,
    text: str,
    path: Path,
    *,
    part: Part = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> None:
    """The maps of `attention_maps`, all heads or one, drawn to `path`."""
    maps = attention_maps(model, tokenizer, text, part=part, layer=layer)
    heads = range(len(maps.weights)) if head is None else [check_index("head", head, len(maps.weights))]
    draw_attention({f"head {i}": maps.weights[i] for i in heads}, maps.rows, maps.columns, maps.title, path)


def check_index(name: str, index: int, number: int) -> int:
    if not 0 <= index < number:
        raise InputError(f"--{name} is {index}: this model has {number}, counted from 0 to {number - 1}")
    return index
