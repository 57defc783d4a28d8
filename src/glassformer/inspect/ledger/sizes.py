"""Inputs of a given size for any model, with labels, for the ledger and the memory estimate.

Only the shapes matter: on the meta device the inputs take no memory, elsewhere they are zeros.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

import torch
from torch import Tensor

from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError

DEFAULT_TOKENS = 128  # default number of tokens, if the model reads that many
DEFAULT_CHANNELS = 1  # default for a model that reads any number of channels
MAX_SIZE = 10_000_000  # upper limit of every size, beyond any real call
MAX_TENSOR_BYTES = 2**63 - 1  # PyTorch's limit for one tensor


class Sizes(TypedDict):
    """The sizes of a call; None for the model's own size or the default."""

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
    raise InputError(f"the model has type {kind}: expected a Transformer or its TransformerConfig")


def meta_model(config: TransformerConfig, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model on the meta device, where tensors have no data: even 70 billion parameters take no memory."""
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
    """The keyword arguments of one call, with labels if the model has a head with a loss.

    `length` is the number of input tokens, `target_length` the number of target tokens, by default that of the source.
    Images and series have the size given in the config.
    """
    sizes = Sizes(batch=batch, length=length, target_length=target_length, channels=channels)
    for name, size in sizes.items():
        if size is not None and not (type(size) is int and 1 <= size <= MAX_SIZE):
            raise InputError(
                f"{name} is {size!r}: expected a whole number from 1 to {MAX_SIZE:,}. Change it, or leave it out for "
                f"{'the default' if name != 'batch' else 1}"
            )
    refuse_unused(config, sizes)

    def zeros(*shape: int, numbers: bool = False) -> Tensor:
        return torch.zeros(shape, dtype=dtype if numbers else torch.int64, device=device)

    inputs: dict[str, Tensor] = {}
    refuse_uncountable(config, sizes)
    if config.image:
        inputs["pixel_values"] = zeros(batch, config.image.channels, config.image.size, config.image.size, numbers=True)
    elif config.series:
        number = channels or config.series.channels or DEFAULT_CHANNELS
        inputs["past_values"] = zeros(batch, config.series.length, number, numbers=True)
    else:
        inputs["input_ids"] = zeros(batch, fitting_length(config.encoder or config.last_stack, "length", length))
    if config.encoder and config.decoder:
        if reads_twice(config):
            target = inputs["input_ids"].shape[1]
        else:
            source = inputs["input_ids"].shape[1] if "input_ids" in inputs else None
            target = fitting_length(config.decoder, "target_length", target_length, source)
        inputs["decoder_input_ids"] = zeros(batch, target)
    return inputs | labels_for(config, inputs, zeros)


def labels_for(config: TransformerConfig, inputs: Mapping[str, Tensor], zeros: Any) -> dict[str, Tensor]:
    """Labels for the head; none for a model without a loss."""
    batch = len(next(iter(inputs.values())))
    tokens = list(inputs.values())[-1]
    if config.head in ("language", "token"):
        length = tokens.shape[1] if config.reads_tokens else config.patches.num_tokens  # type: ignore[union-attr]
        if config.head == "language" and config.encoder is None and length == 1:
            return {}  # after one token there is nothing to predict
        rows = batch * inputs["past_values"].shape[2] * config.series.fold if config.series else batch
        return {"labels": zeros(rows, length)}
    if config.head == "span":
        return {"labels": zeros(batch, 2)}
    if config.head == "class":
        return {"labels": zeros(batch)}
    if config.head == "forecast" and config.series:
        return {"labels": zeros(batch, config.series.horizon, inputs["past_values"].shape[2], numbers=True)}
    return {}


def reads_twice(config: TransformerConfig) -> bool:
    """Whether the decoder reads the source again, as it does with heads that classify a text or find a span."""
    return config.head in ("class", "span", "pool") and not config.patches


def refuse_unused(config: TransformerConfig, sizes: Sizes) -> None:
    """Raises an error for a size that this model does not use, instead of ignoring it."""
    if sizes["length"] is not None and config.patches:
        read = f"images of {config.image.size} pixels a side" if config.image else "a series of its config's length"
        raise InputError(f"length is {sizes['length']}, but this model reads {read}. Leave length out")
    if sizes["target_length"] is not None and not (config.encoder and config.decoder):
        raise InputError(f"target_length is {sizes['target_length']}, but this model has no target. Leave it out")
    if sizes["target_length"] not in (None, sizes["length"]) and reads_twice(config):
        raise InputError(
            f"target_length is {sizes['target_length']}, but with head={config.head!r} the decoder reads the source. "
            "Leave target_length out"
        )
    if sizes["channels"] is not None:
        own = config.series.channels if config.series else None
        if config.series is None or own not in (None, sizes["channels"]):
            has = "does not read series" if config.series is None else f"reads series with channels = {own}"
            raise InputError(f"channels is {sizes['channels']}, but this model {has}. Leave channels out")


def refuse_uncountable(config: TransformerConfig, sizes: Sizes) -> None:
    """Raises an error if the largest tensor, which is scores or logits, has more bytes than PyTorch can count."""
    own = (config.patches.num_tokens if config.patches else None, config.series.channels if config.series else None)
    tokens = max(size or 1 for size in (sizes["length"], sizes["target_length"], own[0], DEFAULT_TOKENS))
    rows = sizes["batch"] * (sizes["channels"] or own[1] or 1)
    stacks = [stack for stack in (config.encoder, config.decoder) if stack]
    widest = max(config.output_vocab_size, *(max(tokens * stack.num_heads, stack.d_ff) for stack in stacks))
    if 8 * rows * tokens * widest > MAX_TENSOR_BYTES:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items() if size is not None)
        raise InputError(f"{said}: one tensor of this pass would have more than 2^63 bytes. Make one of them smaller")


def fitting_length(stack: StackConfig, name: str, length: int | None, like: int | None = None) -> int:
    """The given length, checked against the learned position table; the default if it is None."""
    room = stack.room
    if length is None:
        wanted = like or min(DEFAULT_TOKENS, stack.max_len)
        return wanted if room is None else min(wanted, room)
    if room is not None and length > room:
        raise InputError(
            f"{name} is {length}, but the learned position table has max_len = {room} rows. Give at most {room}"
        )
    return length
