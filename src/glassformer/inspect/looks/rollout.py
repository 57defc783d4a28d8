"""Attention rollout (Abnar and Zuidema, 2020): how much of each input reaches each output, through all layers.

    A_l = (mean over heads of the weights + I) / 2, each row normalised to sum 1
    rollout = A_L ... A_2 A_1

I stands for the residual stream. The rollout follows only attention and the residual stream, not the values or the
feed-forward layers.
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
    every = list(layers)
    if not every:
        raise InputError("no layers to roll out. Record some: gf.record(model, attention=True)")
    for weights in every:
        if weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
            raise InputError(
                f"cannot roll out weights of shape {tuple(weights.shape)}: expected self-attention weights of shape "
                "(batch, heads, length, length)"
            )
    last = every[-1]
    each = torch.eye(last.shape[2], dtype=last.dtype, device=last.device).expand(len(last), -1, -1)  # (B, T, T)
    return traced_back(each, (weights.mean(dim=1) for weights in reversed(every)))  # (B, T, T)


def traced_back(rows: Tensor, means: Iterable[Tensor]) -> Tensor:
    """Traces rows (..., R, T) of the last layer's output back to their shares (..., R, T) of the inputs.

    `means` yields the weights (..., T, T) of each layer, averaged over its heads, from the last layer to the first.
    Each is used once, so a generator keeps only one in memory.
    """
    for weights in means:
        shares = rows / (1 + weights.sum(dim=-1)).unsqueeze(-2)  # (..., R, T); a row without weights keeps itself
        rows = shares + shares @ weights  # (..., R, T)
    return rows


def rollout_of(model: Transformer, inputs: Mapping[str, Tensor], *, stack: str | None = None) -> Tensor:
    """The rollout of a stack, by default the encoder if there is one, for the model's keyword arguments `inputs`."""
    stack = stack or ("decoder" if model.encoder is None else "encoder")
    chosen = getattr(model, stack, None) if stack in ("encoder", "decoder") else None
    if chosen is None:
        raise InputError(f"cannot roll out the {stack}: this model has none")
    paths = [f"{stack}.blocks.{layer}.attn" for layer in range(chosen.config.num_layers)]
    with torch.no_grad(), evaluating(model), record(model, attention=paths) as seen:
        model(**inputs)
    return rollout(seen[path] for path in paths)
