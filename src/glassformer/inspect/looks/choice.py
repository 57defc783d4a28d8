"""Chooses which attention to draw: the stack, the layer, and all heads, one head or their average."""

from typing import Literal

from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.errors import InputError

AttentionPart = Literal["cross", "encoder", "decoder"]
SAID = {"cross": "cross-attention", "encoder": "an encoder", "decoder": "a decoder"}


def default_part(model: Transformer) -> AttentionPart:
    """The attention that is drawn by default."""
    if model.encoder is None:
        return "decoder"
    if model.decoder is None:
        return "encoder"
    return "cross" if model.decoder.cross else "decoder"


def stack_of(model: Transformer, part: AttentionPart) -> Stack:
    """The stack that computes this attention."""
    stack = model.encoder if part == "encoder" else model.decoder
    if stack is None or (part == "cross" and not stack.cross):
        has = "is only an encoder" if model.decoder is None else "is only a decoder"
        if model.config.prefix:
            has = "reads the encoder's output as a prefix of the decoder's tokens"
        raise InputError(f"this model has no {SAID[part].split()[-1]}: it {has}. Leave --part {part} out")
    return stack


def layer_or_last(stack: Stack, layer: int | None) -> int:
    """The given layer, checked against the stack; the last layer if it is None."""
    count = stack.config.num_layers
    return count - 1 if layer is None else check_index("layer", layer, count)


def check_index(name: str, index: int, number: int) -> int:
    if not 0 <= index < number:
        raise InputError(f"--{name} is {index}: expected 0 to {number - 1} for this model")
    return index


def check_choice(stack: Stack, head: int | None, average: bool) -> None:
    """Raises an error if a head and the average were both chosen, or if the head does not exist."""
    if head is not None and average:
        raise InputError("--head and --average were both given. Choose one head, or the average of all heads")
    if head is not None:
        check_index("head", head, stack.config.num_heads)


def chosen_heads(weights: Tensor, head: int | None, average: bool) -> dict[str, Tensor]:
    """The maps to draw, by name, out of those of all heads (H, ...)."""
    if average:
        return {f"average of {len(weights)} heads": weights.mean(dim=0)}
    return {f"head {i}": one for i, one in enumerate(weights) if head in (None, i)}
