"""What a model of patches looks at: a ViT over its picture, a forecaster over its curve.

A picture's attention is that of the class token, which the answer is read from; without one, the mean over all
patches. A series is read as a whole, so there it is always the mean. What the class token gives to itself is left out
of the picture; how much stays is told.
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
from glassformer.predict.series import patches_of
from glassformer.watch.record import record


def look(model: Transformer, prepared: Prepared, layer: int | None) -> Tensor:
    """The weights of a layer (B, H, T, T), or without one the rollout through all (B, 1, T, T).

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
    """How much each patch of a picture gets, by rows and columns of patches: (H, Y, X)."""
    image = model.config.image
    assert image is not None
    asked = weights[0, :, 0] if image.class_token else weights[0].mean(dim=1)  # (H, T)
    return grid_of(model, asked)  # (H, Y, X)


def over_time(weights: Tensor, series: SeriesConfig) -> Tensor:
    """How much each value of a window gets, (C, H, L): the mean of the patches that it is in.

    nan for the oldest values, if they fill no patch.
    """
    patches = weights.mean(dim=2)  # (C, H, N)
    total = patches.new_zeros(*patches.shape[:2], series.length)  # (C, H, L)
    times = patches.new_zeros(series.length)  # (L)
    for n, (first, end) in enumerate(patches_of(series)):
        total[..., first:end] += patches[..., n, None]
        times[first:end] += 1
    return total / times  # (C, H, L)


def picture_image(
    model: Transformer, prepared: Prepared, path: Path, *, layer: int, head: int | None = None, average: bool = False
) -> None:
    """The picture as the model sees it, and over it what each head looks at; then through all layers together."""
    maps = chosen_heads(over_patches(model, look(model, prepared, layer)), head, average)
    if head is None:
        maps |= rolled_out(model, prepared)
    draw_image(model, prepared, maps, f"layer {layer}", path)


def picture_image_rollout(model: Transformer, prepared: Prepared, path: Path) -> None:
    """The picture, and over it what is looked at through all layers."""
    draw_image(model, prepared, rolled_out(model, prepared), "through all layers", path)


def picture_words(
    model: Transformer, prepared: Prepared, path: Path, *, layer: int, head: int | None = None, average: bool = False
) -> None:
    """The picture, and for each word that was written what it looked at: a row for each head, one of them, or their
    average."""
    name = f"decoder.blocks.{layer}.cross"
    with evaluating(model), torch.no_grad(), record(model, attention=name) as seen:
        prepared.run(model)
    line = prepared.lines["decoder"]
    first = line.begins
    weights = seen[name][0, :, first:].float().cpu()  # (H, words, S)
    maps = chosen_heads(grid_of(model, weights), head, average)
    asked = "".join(token["text"] for token in line.tokens[:first] if not token["special"]).strip()
    said = f"{asked} {prepared.text}".strip()
    draw_words_over_image(
        colours_of(prepared), maps, line.written[first:], f"{said}: cross-attention, layer {layer}", path
    )


def grid_of(model: Transformer, weights: Tensor) -> Tensor:
    """Weights on the encoder's tokens (..., T), by rows and columns of patches: (..., Y, X)."""
    image = model.config.image
    assert image is not None
    side = image.patches_per_side
    return weights[..., image.prefix_tokens :].unflatten(-1, (side, side))  # (..., Y, X)


def colours_of(prepared: Prepared) -> NDArray[np.float32]:
    """The picture as the model sees it, (Y, X, C) from 0 to 1."""
    assert prepared.pixels is not None
    height, width = prepared.pixels.shape[:2]
    return (prepared.pixels / 255).astype(np.float32).reshape(height, width, -1)  # (Y, X, C)


def rolled_out(model: Transformer, prepared: Prepared) -> dict[str, Tensor]:
    return {"rollout, all layers": over_patches(model, look(model, prepared, None))[0]}  # (Y, X)


def draw_image(model: Transformer, prepared: Prepared, maps: dict[str, Tensor], which: str, path: Path) -> None:
    image = model.config.image
    assert image is not None
    asks = "the class token looks at" if image.class_token else "patches look at, on average"
    draw_over_image(colours_of(prepared), maps, f"{prepared.name}: what {asks}, {which}", path)


def picture_series(
    model: Transformer, prepared: Prepared, path: Path, *, layer: int, head: int | None = None, average: bool = False
) -> None:
    """Each channel's curve, shaded by how much its patches are looked at, and below it each head by itself."""
    shares = shares_of(model, prepared, layer)  # (C, H, L)
    if head is not None:
        draw_series(prepared, shares[:, [head]], f"layer {layer}, head {head}", path)
        return
    said = f"layer {layer}, average of {shares.shape[1]} heads" + ("" if average else ", and each below")
    draw_series(prepared, shares.mean(dim=1, keepdim=True) if average else shares, said, path)


def picture_series_rollout(model: Transformer, prepared: Prepared, path: Path) -> None:
    """Each channel's curve, shaded by how much its patches are looked at through all layers."""
    draw_series(prepared, shares_of(model, prepared, None), "rollout through all layers", path)


def shares_of(model: Transformer, prepared: Prepared, layer: int | None) -> Tensor:
    """How much each value of the window gets, (C, H, L): of a layer, or without one of the rollout."""
    series = model.config.series
    assert series is not None
    return over_time(look(model, prepared, layer), series)


def draw_series(prepared: Prepared, shares: Tensor, said: str, path: Path) -> None:
    window = prepared.window
    assert window is not None
    draw_over_series(window.values, window.names, window.times, shares, f"{prepared.name}: {said}", path)
