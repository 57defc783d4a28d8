"""What of a model's attention is drawn: of which stack and layer; each head, one of them, or their average."""

from typing import Literal

from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.errors import InputError

Part = Literal["cross", "encoder", "decoder"]
SAID = {"cross": "cross-attention", "encoder": "an encoder", "decoder": "a decoder"}


def part_of(model: Transformer) -> Part:
    """Whose attention to draw where nobody says."""
    if model.encoder is None:
        return "decoder"
    if model.decoder is None:
        return "encoder"
    return "cross" if model.decoder.cross else "decoder"


def stack_of(model: Transformer, part: Part) -> Stack:
    """The stack that has this part of the attention."""
    stack = model.encoder if part == "encoder" else model.decoder
    if stack is None or (part == "cross" and not stack.cross):
        has = "an encoder alone" if model.decoder is None else "a decoder alone"
        if model.config.prefix:
            has = "a decoder that reads the encoder's vectors before its tokens"
        raise InputError(f"this model has no {SAID[part].split()[-1]}: it is {has}. Leave --part {part} out")
    return stack


def layer_or_last(stack: Stack, layer: int | None) -> int:
    """The layer that was chosen, if the stack has it; the last where none was."""
    count = stack.config.num_layers
    return count - 1 if layer is None else check_index("layer", layer, count)


def check_index(name: str, index: int, number: int) -> int:
    if not 0 <= index < number:
        raise InputError(f"--{name} is {index}: this model has {number}, counted from 0 to {number - 1}")
    return index


def check_choice(stack: Stack, head: int | None, average: bool) -> None:
    """Refuses two ways to choose heads at once, and a head that is not there."""
    if head is not None and average:
        raise InputError("--head and --average were both given: one head, or the average of all. Choose one")
    if head is not None:
        check_index("head", head, stack.config.num_heads)


def chosen_heads(weights: Tensor, head: int | None, average: bool) -> dict[str, Tensor]:
    """The maps that are drawn of all heads (H, ...), by name."""
    if average:
        return {f"average of {len(weights)} heads": weights.mean(dim=0)}
    return {f"head {i}": one for i, one in enumerate(weights) if head in (None, i)}
