"""The figure of positional encodings: a heat map, curves, the decay with distance, and for images one map per patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from glassformer.figures.palette import CURVE_COLOURMAP, scale_of
from glassformer.figures.plots import canvas

if TYPE_CHECKING:
    from glassformer.inspect.looks.positions import PositionView

MAX_LEGEND = 8  # most curves in a legend


def draw_positions(views: Sequence[PositionView], path: Path) -> None:
    """Draws the views side by side."""
    wide = any(view.maps is not None for view in views)
    with canvas((13 if wide else 12) if len(views) == 1 else 7.5 * len(views), 8, path) as picture:
        parts = picture.subfigures(1, len(views), squeeze=False)[0]
        for part, view in zip(parts, views, strict=True):
            part.suptitle(view.title)
            panels = [["heat", "heat"], ["curves", "falls"]]
            if view.similarity is not None:
                panels = [["heat"] * 3, ["curves", "falls", "similarity"]]
            if view.maps is not None:
                panels = [["heat", "maps"], ["curves", "maps"], ["falls", "maps"]]
            axes = part.subplot_mosaic(panels)
            draw_heat(part, axes["heat"], view)
            columns = range(view.start, view.start + view.heat.shape[1])
            draw_position_curves(axes["curves"], columns, view.curves)
            axes["curves"].set(xlabel=view.columns, ylabel=view.value)
            draw_position_curves(axes["falls"], view.distances.tolist(), view.falls)
            axes["falls"].set(xlabel="distance", ylabel=view.fall)
            if view.similarity is not None:
                draw_similarity(part, axes["similarity"], view)
            names = axes["curves"].get_legend_handles_labels()
            part.legend(*names, loc="outside lower center", ncols=MAX_LEGEND, frameon=False, fontsize=8)
            if view.maps is not None:
                draw_patch_maps(part, axes["maps"], view.maps)


def draw_heat(part: Any, axis: Any, view: PositionView) -> None:
    sizes = view.heat.abs()
    largest, usual = float(sizes.max()) or 1.0, float(sizes.quantile(0.99))
    # Learned tables have a few huge values, which would leave the rest pale.
    limit, beyond = (usual, "both") if 0 < usual < largest / 2 else (largest, "neither")
    rows, columns = view.heat.shape
    edges = (view.start - 0.5, view.start + columns - 0.5, rows - 0.5, -0.5)
    colours = {"cmap": scale_of("diverging"), "vmin": -limit, "vmax": limit}
    image = axis.imshow(view.heat.numpy(), aspect="auto", interpolation="nearest", extent=edges, **colours)
    axis.set(xlabel=view.columns, ylabel=view.rows)
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.xaxis.get_major_locator().set_params(integer=True)
    part.colorbar(image, ax=axis, fraction=0.03, pad=0.01, label=view.value, extend=beyond)


def draw_similarity(part: Any, axis: Any, view: PositionView) -> None:
    assert view.similarity is not None
    image = axis.imshow(view.similarity.numpy(), cmap=scale_of("diverging"), vmin=-1, vmax=1, aspect="auto")
    axis.set(xlabel=view.columns, ylabel=view.columns)
    for side in (axis.xaxis, axis.yaxis):
        side.get_major_locator().set_params(integer=True)
    part.colorbar(image, ax=axis, fraction=0.05, pad=0.02, label=view.fall)


def draw_position_curves(axis: Any, places: Sequence[float], curves: Mapping[str, Tensor]) -> None:
    """Draws curves by name, coloured along one scale. If there are many, only some are named in the legend."""
    import matplotlib

    scale = matplotlib.colormaps[CURVE_COLOURMAP]
    every = -(-len(curves) // MAX_LEGEND)
    for number, (name, values) in enumerate(curves.items()):
        colour = scale(0.92 * number / max(1, len(curves) - 1))
        label = name if number % every == 0 else None
        axis.plot(places, values.numpy(), label=label, linewidth=1.4, color=colour)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.axhline(0, color="grey", linewidth=0.6)
    axis.margins(x=0)
    axis.grid(alpha=0.25)


def draw_patch_maps(part: Any, axis: Any, maps: Tensor) -> None:
    """Draws the map of each patch where the patch is in the image, with gaps between the maps."""
    height, width = maps.shape[:2]
    tiles = np.pad(maps.numpy(), ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    whole = tiles.transpose(0, 2, 1, 3).reshape(height * (height + 1), width * (width + 1))[:-1, :-1]
    image = axis.imshow(whole, cmap=scale_of("diverging"), vmin=-1, vmax=1, interpolation="nearest")
    places = [(size + 1) * np.arange(size) + (size - 1) / 2 for size in (height, width)]
    every = max(1, height // 8)
    axis.set_yticks(places[0][::every], range(0, height, every))
    axis.set_xticks(places[1][::every], range(0, width, every))
    axis.tick_params(length=0)
    axis.set(xlabel="column of the patch", ylabel="row of the patch", title="each position's similarity to all others")
    axis.title.set_fontsize(9)
    for edge in axis.spines.values():
        edge.set_visible(False)
    part.colorbar(image, ax=axis, fraction=0.046, pad=0.02, label="cosine similarity")
