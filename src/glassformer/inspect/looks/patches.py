"""What a model of patches looks at: a ViT over its picture, a forecaster over its curve.

A picture's attention is that of the class token, which the answer is read from; without one, the mean over all
patches. A series is read as a whole, so there it is always the mean. What the class token gives to itself is left out
of the picture; how much stays is told.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.config import SeriesConfig
from glassformer.core.model import Transformer
from glassformer.figures.drawings import draw_over_image, draw_over_series
from glassformer.generation.loop import evaluating
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
    side = image.patches_per_side
    return asked[:, image.prefix_tokens :].unflatten(1, (side, side))  # (H, Y, X)


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
    model: Transformer,
    prepared: Prepared,
    path: Path,
    *,
    layer: int,
    head: int | None = None,
    average: bool = False,
    rollout: bool = False,
) -> None:
    """The picture as the model sees it, and over it what each head looks at; then through all layers together."""
    image = model.config.image
    assert image is not None
    assert prepared.pixels is not None
    through = over_patches(model, look(model, prepared, None))[0]  # (Y, X)
    maps = {"rollout, all layers": through}
    if not rollout:
        heads = over_patches(model, look(model, prepared, layer))  # (H, Y, X)
        chosen = {f"head {i}": weights for i, weights in enumerate(heads) if head in (None, i)}
        if average:
            chosen = {f"average of {len(heads)} heads": heads.mean(dim=0)}
        maps = chosen | (maps if head is None else {})
    colours = (prepared.pixels / 255).astype(np.float32).reshape(image.size, image.size, -1)  # (Y, X, C)
    asks = "the class token looks at" if image.class_token else "patches look at, on average"
    which = "through all layers" if rollout else f"layer {layer}"
    draw_over_image(colours, maps, f"{prepared.name}: what {asks}, {which}", path)


def picture_series(
    model: Transformer,
    prepared: Prepared,
    path: Path,
    *,
    layer: int,
    head: int | None = None,
    average: bool = False,
    rollout: bool = False,
) -> None:
    """Each channel's curve, shaded by how much its patches are looked at, and below it each head by itself."""
    series, window = model.config.series, prepared.window
    assert series is not None
    assert window is not None
    shares = over_time(look(model, prepared, None if rollout else layer), series)  # (C, H, L)
    if head is not None:
        shares, said = shares[:, [head]], f"layer {layer}, head {head}"
    elif rollout:
        said = "rollout through all layers"
    else:
        said = f"layer {layer}, average of {shares.shape[1]} heads" + ("" if average else ", and each below")
        shares = shares.mean(dim=1, keepdim=True) if average else shares
    draw_over_series(window.values, window.names, window.times, shares, f"{prepared.name}: {said}", path)
