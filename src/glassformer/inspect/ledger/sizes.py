"""An input of a chosen size for any model, as the ledger and the memory forecast call it with: labels included.

Nothing is in it but shapes: on the meta device it takes no memory, elsewhere it is zeros.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

import torch
from torch import Tensor

from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError

USUAL = 128  # tokens of a text where nobody says, or as many as a model of shorter texts reads
CHANNELS = 1  # of a series that may have any number
MOST = 10_000_000  # of anything: more than any model is called with
MOST_BYTES = 2**63 - 1  # that PyTorch counts for one tensor


class Sizes(TypedDict):
    """How large a call is; None where the model knows, or where something usual will do."""

    batch: int
    length: int | None
    target_length: int | None
    channels: int | None


def config_of_model(model_or_config: Transformer | TransformerConfig) -> TransformerConfig:
    if isinstance(model_or_config, Transformer):
        return model_or_config.config
    if isinstance(model_or_config, TransformerConfig):
        return model_or_config
    kind = type(model_or_config).__name__
    raise InputError(f"the model is of type {kind}: expected a Transformer or its TransformerConfig")


def without_memory(config: TransformerConfig, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model on the meta device, where a tensor has a shape and no numbers: 70 billion parameters take none."""
    with torch.device("meta"):
        model = Transformer(config)
    return model.to(dtype)


def sized_inputs(
    config: TransformerConfig,
    *,
    batch: int = 1,
    length: int | None = None,
    target_length: int | None = None,
    channels: int | None = None,
    device: torch.device | str = "meta",
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """The keywords of one call that ends in a loss, if the model has a head that is trained by one.

    `length` counts the tokens that the model reads first, `target_length` those of a target; as many as the source
    where it is left out. Images and series have the size that their config says.
    """
    sizes = Sizes(batch=batch, length=length, target_length=target_length, channels=channels)
    for name, size in sizes.items():
        if size is not None and not (type(size) is int and 1 <= size <= MOST):
            raise InputError(
                f"{name} is {size!r}: expected a whole number from 1 to {MOST:,}. Change it, or leave it out for "
                f"{'the usual one' if name != 'batch' else 1}"
            )
    refuse_unused(config, sizes)

    def zeros(*shape: int, numbers: bool = False) -> Tensor:
        return torch.zeros(shape, dtype=dtype if numbers else torch.int64, device=device)

    inputs: dict[str, Tensor] = {}
    refuse_uncountable(config, sizes)
    if config.image:
        inputs["pixel_values"] = zeros(batch, config.image.channels, config.image.size, config.image.size, numbers=True)
    elif config.series:
        number = channels or config.series.channels or CHANNELS
        inputs["past_values"] = zeros(batch, config.series.length, number, numbers=True)
    else:
        inputs["input_ids"] = zeros(batch, fitting(config.encoder or config.last_stack, "length", length))
    if config.encoder and config.decoder:
        if reads_twice(config):
            target = inputs["input_ids"].shape[1]
        else:
            source = inputs["input_ids"].shape[1] if "input_ids" in inputs else None
            target = fitting(config.decoder, "target_length", target_length, source)
        inputs["decoder_input_ids"] = zeros(batch, target)
    return inputs | labels_for(config, inputs, zeros)


def labels_for(config: TransformerConfig, inputs: Mapping[str, Tensor], zeros: Any) -> dict[str, Tensor]:
    """What the head is told is right; nothing for a model that ends in vectors."""
    batch = len(next(iter(inputs.values())))
    tokens = list(inputs.values())[-1]
    if config.head in ("language", "token"):
        length = tokens.shape[1] if config.reads_tokens else config.patches.num_tokens  # type: ignore[union-attr]
        if config.head == "language" and config.encoder is None and length == 1:
            return {}  # one token leaves none to predict
        rows = batch if config.reads_tokens or config.image else batch * inputs["past_values"].shape[2]
        return {"labels": zeros(rows, length)}
    if config.head == "span":
        return {"labels": zeros(batch, 2)}
    if config.head == "class":
        return {"labels": zeros(batch)}
    if config.head == "forecast" and config.series:
        return {"labels": zeros(batch, config.series.horizon, inputs["past_values"].shape[2], numbers=True)}
    return {}


def reads_twice(config: TransformerConfig) -> bool:
    """Whether the decoder reads the source again, as it does under heads that judge a text."""
    return config.head in ("class", "span", "pool") and not config.patches


def refuse_unused(config: TransformerConfig, sizes: Sizes) -> None:
    """A size that this model has no use for is an error, never ignored."""
    if sizes["length"] is not None and config.patches:
        read = f"images of {config.image.size} pixels a side" if config.image else "a series of its config's length"
        raise InputError(f"length is {sizes['length']}, and this model reads {read}: leave it out")
    if sizes["target_length"] is not None and not (config.encoder and config.decoder):
        raise InputError(f"target_length is {sizes['target_length']}, and this model has no target: leave it out")
    if sizes["target_length"] not in (None, sizes["length"]) and reads_twice(config):
        raise InputError(
            f"target_length is {sizes['target_length']}, and a model with head={config.head!r} reads its source twice: "
            "leave it out"
        )
    if sizes["channels"] is not None:
        own = config.series.channels if config.series else None
        if config.series is None or own not in (None, sizes["channels"]):
            has = "reads no series" if config.series is None else f"reads series of {own} channels"
            raise InputError(f"channels is {sizes['channels']}, and this model {has}: leave it out")


def refuse_uncountable(config: TransformerConfig, sizes: Sizes) -> None:
    """The largest tensor of a pass, which is of scores or of logits, has as many bytes as PyTorch can count."""
    own = (config.patches.num_tokens if config.patches else None, config.series.channels if config.series else None)
    tokens = max(size or 1 for size in (sizes["length"], sizes["target_length"], own[0], USUAL))
    rows = sizes["batch"] * (sizes["channels"] or own[1] or 1)
    stacks = [stack for stack in (config.encoder, config.decoder) if stack]
    widest = max(config.output_vocab_size, *(max(tokens * stack.num_heads, stack.d_ff) for stack in stacks))
    if 8 * rows * tokens * widest > MOST_BYTES:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items() if size is not None)
        raise InputError(f"{said}: one tensor of this pass would have more than 2^63 bytes. Make one of them smaller")


def fitting(stack: StackConfig, name: str, length: int | None, like: int | None = None) -> int:
    """The length that was asked for, if a learned table has a row for each token; else one that it has."""
    room = stack.room
    if length is None:
        wanted = like or min(USUAL, stack.max_len)
        return wanted if room is None else min(wanted, room)
    if room is not None and length > room:
        raise InputError(
            f"{name} is {length}, and the learned table of positions has max_len = {room} rows: give at most {room}"
        )
    return length
