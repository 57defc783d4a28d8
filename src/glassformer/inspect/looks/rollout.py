"""Attention rollout (Abnar and Zuidema, 2020): how much of each input reaches each output, through all layers.

    A_l = (mean over heads of the weights + I) / 2, each row brought to sum 1
    rollout = A_L ... A_2 A_1

I stands for the residual stream. The rollout follows attention and the stream alone: what the values hold and what the
feed-forward does is left out.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.loop import evaluating
from glassformer.watch.record import record


def rollout(layers: Iterable[Tensor]) -> Tensor:
    """The rollout (B, T, T) of self-attention weights (B, H, T, T), the first layer first."""
    product = None
    for weights in layers:
        if weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
            raise InputError(
                f"weights of shape {tuple(weights.shape)} cannot be rolled out: expected (batch, heads, length, length)"
                ", of self-attention"
            )
        mixed = weights.mean(dim=1)  # (B, T, T)
        mixed = mixed + torch.eye(mixed.shape[1], dtype=mixed.dtype, device=mixed.device)  # (B, T, T)
        mixed = mixed / mixed.sum(dim=2, keepdim=True)  # (B, T, T); a row that sees nothing keeps itself
        product = mixed if product is None else mixed @ product  # (B, T, T)
    if product is None:
        raise InputError("no layer was given to roll out: record some with attention=True")
    return product


def rollout_of(model: Transformer, inputs: Mapping[str, Tensor], *, stack: str | None = None) -> Tensor:
    """The rollout of a stack (the encoder, if there is one) while the model reads `inputs`, which are its arguments."""
    stack = stack or ("decoder" if model.encoder is None else "encoder")
    chosen = getattr(model, stack, None) if stack in ("encoder", "decoder") else None
    if chosen is None:
        raise InputError(f"this model has no {stack}: nothing of it can be rolled out")
    paths = [f"{stack}.blocks.{layer}.attn" for layer in range(chosen.config.num_layers)]
    with torch.no_grad(), evaluating(model), record(model, attention=paths) as seen:
        model(**inputs)
    return rollout(seen[path] for path in paths)
