"""The verb `inspect`: a model's parameters as a table, its positions and its attention as pictures."""

import json
from pathlib import Path

from rich.table import Table

from glassformer.checkpoints.load import load
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.inspect.attention import Part, picture_attention
from glassformer.inspect.params import count, shares
from glassformer.inspect.positions import picture_positions
from glassformer.settings import InspectSettings
from glassformer.terminal import make_console
from glassformer.text import load_tokenizer


def inspect(settings: InspectSettings) -> None:
    check(settings)
    model = load(settings.run)
    pictures = {}
    if settings.positions:
        pictures["positions"] = settings.picture or settings.run / "positions.png"
        picture_positions(model, pictures["positions"])
    if settings.attention is not None:
        part = settings.part or part_of(model)
        pictures["attention"] = settings.picture or settings.run / picture_name(settings, part)
        tokenizer, chosen = load_tokenizer(settings.run), {"layer": settings.layer, "head": settings.head}
        picture_attention(model, tokenizer, settings.attention, pictures["attention"], part=part, **chosen)
    if pictures:
        show_paths(pictures, as_json=settings.json)
    else:
        show_parameters(model, as_json=settings.json)


def part_of(model: Transformer) -> Part:
    """Whose attention to draw where nobody says."""
    if model.encoder is None:
        return "decoder"
    return "encoder" if model.decoder is None else "cross"


def picture_name(settings: InspectSettings, part: Part) -> str:
    """attention-cross.png, or attention-cross-layer0-head2.png where those were chosen."""
    layer = "" if settings.layer is None else f"-layer{settings.layer}"
    head = "" if settings.head is None else f"-head{settings.head}"
    return f"attention-{part}{layer}{head}.png"


def check(settings: InspectSettings) -> None:
    """Flags that belong to a picture nobody asked for, or to two at once, are refused."""
    if settings.attention is None and (settings.layer is not None or settings.head is not None):
        raise InputError("--layer and --head choose attention maps: give a text with --attention")
    if settings.picture is not None and settings.positions == (settings.attention is not None):
        raise InputError("--picture names one picture: give it with either --positions or --attention")


def show_paths(pictures: dict[str, Path], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({what: str(path) for what, path in pictures.items()}, ensure_ascii=False))
        return
    for what, path in pictures.items():
        print(f"{what}: {path}")


def show_parameters(model: Transformer, *, as_json: bool) -> None:
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
    console = make_console()
    for name, stack in (("encoder", model.config.encoder), ("decoder", model.config.decoder)):
        if stack is not None:
            blocks = sum(s.parameters for s in parts if s.part.startswith(f"{name} ") and "embedding" not in s.part)
            feed_forward = sum(s.parameters for s in parts if s.part == f"{name} feed-forward")
            console.print(
                f"{name}: {stack.num_layers} layers, d_model {stack.d_model}, {stack.num_heads} heads, "
                f"d_ff {stack.d_ff}; the feed-forward holds {feed_forward / blocks:.0%} of its blocks"
            )
    console.print()
    console.print(table)
