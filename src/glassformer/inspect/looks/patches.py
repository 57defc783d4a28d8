"""Attention over patches, drawn on the input: an image for a ViT, a curve for a forecaster.

An image shows the attention of the class token, from which the answer is read, or the mean over all patches without
one. A series shows the mean over its patches. Attention to the class token is not drawn, so a map's title gives the
share of the patches.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config import SeriesConfig
from glassformer.core.model import Transformer
from glassformer.figures.drawings import draw_over_image, draw_over_series, draw_words_over_image
from glassformer.generation.loop import evaluating
from glassformer.inspect.looks.choice import chosen_heads
from glassformer.inspect.looks.rollout import rollout_of
from glassformer.predict.prepared import Prepared
from glassformer.predict.series import future_of, patch_spans
from glassformer.watch.record import record


def layer_or_rollout(model: Transformer, prepared: Prepared, layer: int | None) -> Tensor:
    """The weights of a layer (B, H, T, T), or the rollout (B, 1, T, T) if `layer` is None.

    The channels of a series are rows of the batch.
    """
    with evaluating(model), torch.no_grad():
        if layer is None:
            return rollout_of(model, prepared.arguments)[:, None].float().cpu()  # (B, 1, T, T)
        path = f"encoder.blocks.{layer}.attn"
        with record(model, attention=path) as seen:
            prepared.run(model)
    return seen[path].float().cpu()  # (B, H, T, T)


def over_patches(model: Transformer, weights: Tensor) -> Tensor:
    """The attention to each patch of an image, by rows and columns of patches: (H, Y, X)."""
    image = model.config.image
    assert image is not None
    asked = weights[0, :, 0] if model.config.reads_class_token else weights[0].mean(dim=1)  # (H, T)
    return grid_of(model, asked)  # (H, Y, X)


def over_time(weights: Tensor, series: SeriesConfig) -> Tensor:
    """The attention to each value of a window, (C, H, L): the mean over the patches that contain it.

    nan for the oldest values if no patch contains them. A folded series has several rows per channel: their mean.
    """
    patches = weights.mean(dim=2).unflatten(0, (-1, series.fold)).mean(dim=1)  # (C, H, N)
    total = patches.new_zeros(*patches.shape[:2], series.length)  # (C, H, L)
    times = patches.new_zeros(series.length)  # (L)
    for n, (first, end) in enumerate(patch_spans(series)):
        total[..., first:end] += patches[..., n, None]
        times[first:end] += 1
    return total / times  # (C, H, L)


def picture_image(
    model: Transformer, prepared: Prepared, path: Path, *, layer: int, head: int | None = None, average: bool = False
) -> None:
    """Draws the image that the model reads, the attention of each head over it, and the rollout over all layers."""
    maps = chosen_heads(over_patches(model, layer_or_rollout(model, prepared, layer)), head, average)
    if head is None:
        maps |= rolled_out(model, prepared)
    draw_image(model, prepared, maps, f"layer {layer}", path)


def picture_image_rollout(model: Transformer, prepared: Prepared, path: Path) -> None:
    """Draws the image and the rollout over all layers."""
    draw_image(model, prepared, rolled_out(model, prepared), "all layers", path)


def picture_words(
    model: Transformer, prepared: Prepared, path: Path, *, layer: int, head: int | None = None, average: bool = False
) -> None:
    """Draws the image, and each generated word's attention to it: a row per head, one head, or the average.

    Where the image is a prefix of the words, this attention is part of the decoder's self-attention.
    """
    is_prefix = model.config.prefix
    name = f"decoder.blocks.{layer}.{'attn' if is_prefix else 'cross'}"
    with evaluating(model), torch.no_grad(), record(model, attention=name) as seen:
        prepared.run(model)
    line, patches = prepared.lines["decoder"], len(prepared.lines["encoder"].tokens)
    first = line.begins
    rows = first + (patches if is_prefix else 0)
    weights = seen[name][0, :, rows:, :patches].float().cpu()  # (H, words, S)
    maps = chosen_heads(grid_of(model, weights), head, average)
    asked = "".join(token["text"] for token in line.tokens[:first] if not token["special"]).strip()
    said = f"{asked} {prepared.text}".strip()
    kind = "decoder self-attention" if is_prefix else "cross-attention"
    draw_words_over_image(colours_of(prepared), maps, line.written[first:], f"{said}: {kind}, layer {layer}", path)


def grid_of(model: Transformer, weights: Tensor) -> Tensor:
    """Weights over the encoder's tokens (..., T), by rows and columns of patches: (..., Y, X)."""
    image = model.config.image
    assert image is not None
    side = image.patches_per_side
    return weights[..., image.prefix_tokens :].unflatten(-1, (side, side))  # (..., Y, X)


def colours_of(prepared: Prepared) -> NDArray[np.float32]:
    """The image that the model reads, (Y, X, C) from 0 to 1."""
    assert prepared.pixels is not None
    height, width = prepared.pixels.shape[:2]
    return (prepared.pixels / 255).astype(np.float32).reshape(height, width, -1)  # (Y, X, C)


def rolled_out(model: Transformer, prepared: Prepared) -> dict[str, Tensor]:
    return {"rollout, all layers": over_patches(model, layer_or_rollout(model, prepared, None))[0]}  # (Y, X)


def draw_image(model: Transformer, prepared: Prepared, maps: dict[str, Tensor], which: str, path: Path) -> None:
    image = model.config.image
    assert image is not None
    whose = "attention of the class token" if model.config.reads_class_token else "mean attention of the patches"
    draw_over_image(colours_of(prepared), maps, f"{prepared.name}: {whose}, {which}", path)


def picture_series(
    model: Transformer, prepared: Prepared, path: Path, *, layer: int, head: int | None = None, average: bool = False
) -> None:
    """Draws each channel's curve, shaded by the attention to its patches, then its forecast, and below it each head."""
    shares = shares_of(model, prepared, layer)  # (C, H, L)
    if head is not None:
        draw_series(model, prepared, shares[:, [head]], f"layer {layer}, head {head}", path)
        return
    said = f"layer {layer}, average of {shares.shape[1]} heads" + ("" if average else ", each head below")
    draw_series(model, prepared, shares.mean(dim=1, keepdim=True) if average else shares, said, path)


def picture_series_rollout(model: Transformer, prepared: Prepared, path: Path) -> None:
    """Draws each channel's curve, shaded by the rollout over all layers, and its forecast."""
    draw_series(model, prepared, shares_of(model, prepared, None), "rollout over all layers", path)


def shares_of(model: Transformer, prepared: Prepared, layer: int | None) -> Tensor:
    """The attention to each value of the window, (C, H, L), in a layer, or by rollout if `layer` is None."""
    series = model.config.series
    assert series is not None
    return over_time(layer_or_rollout(model, prepared, layer), series)


def draw_series(model: Transformer, prepared: Prepared, shares: Tensor, said: str, path: Path) -> None:
    """Draws the window under its shares (C, H, L), and the forecast after it unless the model classifies series."""
    window = prepared.window
    assert window is not None
    future = None
    if model.config.head == "forecast":
        with evaluating(model), torch.no_grad():
            logits = prepared.run(model).logits
        assert logits is not None
        future = future_of(prepared, logits)
    title = f"{prepared.name}: {said}"
    draw_over_series(window.values, window.names, window.times, shares, title, path, future=future)
