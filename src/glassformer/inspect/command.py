"""The verb `inspect`: a model's parameters as a table, its positions and its attention as pictures."""

import json
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from glassformer.checkpoints import load
from glassformer.core.model import Transformer
from glassformer.core.positions import Learned, Sinusoidal
from glassformer.core.stack import Stack
from glassformer.errors import InputError
from glassformer.generation import generate
from glassformer.inspect.params import count, shares
from glassformer.inspect.plots import draw_attention, draw_positions
from glassformer.inspect.record import record
from glassformer.settings import InspectSettings
from glassformer.text import Tokenizer, load_tokenizer

SHOWN_POSITIONS = 128


def inspect(settings: InspectSettings) -> None:
    model = load(settings.run)
    console = Console(highlight=False)
    if settings.attention is None and not settings.positions:
        show_parameters(model, console, as_json=settings.json)
    if settings.positions:
        path = settings.picture or settings.run / "positions.png"
        picture_positions(model, path)
        tell("positions", path, console, as_json=settings.json)
    if settings.attention is not None:
        path = settings.picture or settings.run / f"attention-{settings.part}.png"
        tokenizer = load_tokenizer(settings.run)
        picture_attention(
            model, tokenizer, settings.attention, path, part=settings.part, layer=settings.layer, head=settings.head
        )
        tell("attention", path, console, as_json=settings.json)


def tell(what: str, path: Path, console: Console, *, as_json: bool) -> None:
    console.print(json.dumps({what: str(path)}) if as_json else f"{what}: {path}", soft_wrap=True)


def show_parameters(model: Transformer, console: Console, *, as_json: bool = False) -> None:
    parts = shares(model)
    if as_json:
        numbers = {"parameters": count(model), "parts": {share.part: share.parameters for share in parts}}
        print(json.dumps({**numbers, "config": model.config.to_dict()}))
        return
    table = Table("part", "parameters", "share", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for share in parts:
        table.add_row(share.part, f"{share.parameters:,}", f"{share.share:.1%}")
    table.add_row("all", f"{count(model):,}", "100.0%", style="bold")
    console.print(table)


def picture_positions(model: Transformer, path: Path) -> None:
    """The encoding that is added to the model's input."""
    stack = stack_of(model, "encoder" if model.encoder is not None else "decoder")
    scheme = stack.embed.positions
    if not isinstance(scheme, Sinusoidal | Learned):
        raise InputError(
            f"this model's positions are {stack.config.positions!r}: nothing is added to its input that can be drawn. "
            f"Schemes that are: sinusoidal, learned"
        )
    length = min(stack.config.max_len, SHOWN_POSITIONS)
    with torch.no_grad():
        table = scheme(torch.arange(length), length)  # (T, E)
    draw_positions(table, f"{stack.config.positions} encoding, {length} positions x {table.shape[1]} dimensions", path)


def picture_attention(
    model: Transformer,
    tokenizer: Tokenizer,
    text: str,
    path: Path,
    *,
    part: str = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> None:
    """What one layer looks at while the model translates `text`: all of its heads, or one."""
    if not text.strip():
        raise InputError("the text to attend to is empty: give some words")
    stack = stack_of(model, "encoder" if part == "encoder" else "decoder")
    if part == "cross" and not stack.cross:
        raise InputError("this model has no cross-attention, because it has one stack: choose its --part")
    layer = check_index("layer", stack.config.num_layers - 1 if layer is None else layer, stack.config.num_layers)
    weights, source, target = watch(model, tokenizer, text, part, layer)
    if head is not None:
        head = check_index("head", head, len(weights))
        weights = weights[head : head + 1]
    where = {"cross": "cross-attention", "encoder": "encoder self-attention", "decoder": "decoder self-attention"}[part]
    title = f"{where}, layer {layer}" + (f", head {head}" if head is not None else "")
    rows, columns = {"cross": (target[1:], source), "encoder": (source, source), "decoder": (target[1:], target)}[part]
    draw_attention(weights, rows, columns[: weights.shape[2]], title, path)


def watch(
    model: Transformer, tokenizer: Tokenizer, text: str, part: str, layer: int
) -> tuple[Tensor, list[str], list[str]]:
    """The maps of a layer during one translation, with the tokens of source and target.

    A row of the target is named by the token that was being written there: the one that the map helped to choose.
    """
    encoded = tokenizer.encode([text])
    with record(model, attention=True) as seen:
        ids = generate(model, encoded.input_ids, attention_mask=encoded.attention_mask, max_new_tokens=128)
    name = {
        "cross": "decoder.blocks.{}.cross",
        "encoder": "encoder.blocks.{}.attn",
        "decoder": "decoder.blocks.{}.attn",
    }
    weights = seen[name[part].format(layer)][0]  # (H, T, S)
    return weights, tokenizer.tokens(encoded.input_ids[0].tolist()), tokenizer.tokens(ids[0].tolist())


def stack_of(model: Transformer, name: str) -> Stack:
    stack = model.encoder if name == "encoder" else model.decoder
    if stack is None:
        raise InputError(f"this model has no {name}")
    return stack


def check_index(name: str, index: int, number: int) -> int:
    if not 0 <= index < number:
        raise InputError(f"--{name} is {index}: this model has {number}, counted from 0 to {number - 1}")
    return index
