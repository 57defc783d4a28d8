"""Figures of attention over images and series, of the logit lens, and of head importance.

They share their scales with `plots.py`: one sequential, colour-blind-safe scale, always shown.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.figures.palette import FORECAST, ink_on_weight, scale_of
from glassformer.figures.plots import canvas, short_token

MAX_CURVES = 8  # most curves in one figure
CELL = 8  # most characters in a cell
WORDS, ACROSS = 48, 12  # most words whose maps are drawn over an image, in total and side by side
COVER = (0.6, 0.9)  # opacity of a map over its image where the weight is 0 and where it is largest


def draw_over_image(pixels: NDArray[np.float32], maps: Mapping[str, Tensor], title: str, path: Path) -> None:
    """Draws the image (Y, X, channels), and beside it each map (rows, columns of patches) laid over the image.

    Heads spread their attention very differently, so each map is scaled to its own maximum. Its title gives that
    maximum and the sum over all patches. The grey image shows through more where a patch gets less attention.
    """
    panels = len(maps) + 1
    across = min(panels, 4 if panels <= 8 else 5)
    down = ceil(panels / across)
    shown = pixels if pixels.shape[2] == 3 else pixels[:, :, 0]
    grey = pixels.mean(axis=2, keepdims=True)  # (Y, X, 1)
    with canvas(2.6 * across + 1.0, 2.9 * down + 0.5, path) as picture:
        picture.suptitle(title)
        grid = picture.subplots(down, across, squeeze=False)
        for axis in grid.flat:
            axis.set_axis_off()
        grid.flat[0].imshow(shown, cmap="gray", vmin=0, vmax=1)
        grid.flat[0].set_title("model input", fontsize=9)
        for axis, (name, weights) in zip(grid.flat[1:], maps.items(), strict=False):
            axis.imshow(laid_over(grey, weights))
            most, total = float(weights.max()), float(weights.sum())
            axis.set_title(f"{name}\nlargest {most:.1%}, all patches {total:.0%}", fontsize=9)
        show_scale(picture, grid)


def draw_words_over_image(
    pixels: NDArray[np.float32], maps: Mapping[str, Tensor], words: Sequence[str], title: str, path: Path
) -> None:
    """Draws the image (Y, X, channels), and for each head its maps (words, rows, columns of patches), one per word.

    Maps are coloured as in `draw_over_image`; the title of each gives its largest weight.
    """
    shown = list(words[:WORDS])
    if len(shown) < len(words):
        title = f"{title} (the first {WORDS} of {len(words)} words)"
    across = min(len(shown), ACROSS if len(maps) > 1 else ACROSS // 2)
    lines = ceil(len(shown) / across)
    grey = pixels.mean(axis=2, keepdims=True)  # (Y, X, 1)
    with canvas(1.15 * (across + 1) + 1.0, max(2.8, 1.45 * lines * len(maps) + 0.7), path) as picture:
        picture.suptitle(title)
        grid = picture.subplots(lines * len(maps), across + 1, squeeze=False)
        for axis in grid.flat:
            axis.set_axis_off()
        for number, (name, weights) in enumerate(maps.items()):
            first = grid[number * lines, 0]
            first.imshow(pixels if pixels.shape[2] == 3 else pixels[:, :, 0], cmap="gray", vmin=0, vmax=1)
            first.set_title(name, fontsize=9)
            for at, word in enumerate(shown):
                axis = grid[number * lines + at // across, 1 + at % across]
                axis.imshow(laid_over(grey, weights[at]))
                axis.set_title(f"{short_token(word)}\n{float(weights[at].max()):.0%}", fontsize=8)
        show_scale(picture, grid)


def laid_over(grey: NDArray[np.float32], weights: Tensor) -> NDArray[np.float32]:
    """A map (rows, columns of patches), scaled to its maximum, over a grey image (Y, X, 1): (Y, X, 3)."""
    size = len(grey) // len(weights)  # pixels per side of a patch
    upsampled = np.kron(weights.numpy() / (float(weights.max()) or 1.0), np.ones((size, size)))  # (Y, X)
    cover = (COVER[0] + (COVER[1] - COVER[0]) * upsampled)[:, :, None]  # (Y, X, 1)
    over: NDArray[np.float32] = cover * scale_of("glow")(upsampled)[:, :, :3] + (1 - cover) * grey
    return over


def show_scale(picture: Any, grid: Any) -> None:
    from matplotlib.cm import ScalarMappable

    scale = ScalarMappable(cmap=scale_of("glow"))
    bar = picture.colorbar(scale, ax=grid, fraction=0.03, pad=0.01, label="attention, relative to each map's maximum")
    bar.ax.set_yticks([0, 0.5, 1], ["0", "half", "largest"])


def draw_over_series(
    values: NDArray[Any],
    channels: Sequence[str],
    times: Sequence[str],
    shares: Tensor,
    title: str,
    path: Path,
    *,
    future: NDArray[Any] | None = None,
) -> None:
    """Draws each channel's curve (L), shaded by the mean over its shares (H, L), and its forecast (Z) if there is one;
    several heads are also drawn below."""
    drawn, heads, length = min(len(channels), MAX_CURVES), shares.shape[1], len(values)
    ahead = np.empty((0, len(channels))) if future is None else np.concatenate([values[-1:], future])  # (1 + Z, C)
    if drawn < len(channels):
        title = f"{title} (the first {drawn} of {len(channels)} channels)"
    strip = 0.0 if heads == 1 else 0.09 * heads + 0.12
    ratios = [part for _ in range(drawn) for part in ((1.15,) if heads == 1 else (1.15, strip))]
    weights = shares.numpy()
    limits = {"vmin": float(np.nanmin(weights[:drawn])), "vmax": float(np.nanmax(weights[:drawn]))}
    with canvas(10, (1.5 + strip) * drawn + 1.0, path) as picture:
        picture.suptitle(title)
        rows = picture.subplots(len(ratios), 1, squeeze=False, sharex=True, height_ratios=ratios)[:, 0]
        step = len(ratios) // drawn
        for c in range(drawn):
            curve = rows[c * step]
            whole = np.concatenate([values[:, c], ahead[:, c]])
            low, high = float(whole.min()), float(whole.max())
            room = 0.08 * (high - low or 1.0)
            frame = (-0.5, length - 0.5, low - room, high + room)
            image = curve.imshow(
                weights[c].mean(axis=0, keepdims=True),
                cmap=scale_of("sequential"),
                aspect="auto",
                extent=frame,
                interpolation="nearest",
                **limits,
            )
            curve.plot(range(length), values[:, c], color="white", linewidth=3.2)
            curve.plot(range(length), values[:, c], color="black", linewidth=1.3)
            curve.set_title(channels[c], fontsize=9, loc="left")
            if future is not None:
                curve.plot(range(length - 1, length + len(future)), ahead[:, c], color=FORECAST, linewidth=1.6)
            curve.set(xlim=(-0.5, length + len(ahead) - 0.5), ylim=frame[2:])
            if heads > 1:
                below = rows[c * step + 1]
                below.imshow(
                    weights[c],
                    cmap=scale_of("sequential"),
                    aspect="auto",
                    extent=(-0.5, length - 0.5, heads - 0.5, -0.5),
                    interpolation="nearest",
                    **limits,
                )
                below.set_yticks([0, heads - 1], ["head 0", str(heads - 1)], fontsize=7)
        rows[-1].set_xticks([0, length - 1], [f"{times[0]}\n(first value)", f"{times[1]}\n(last)"], fontsize=8)
        if future is not None:
            rows[0].set_title("forecast", fontsize=9, loc="right", color=FORECAST)
        for label, side in zip(rows[-1].get_xticklabels(), ("left", "right"), strict=True):
            label.set_horizontalalignment(side)
        picture.colorbar(image, ax=rows, fraction=0.03, pad=0.01, label="mean attention to a patch")


def draw_lens(
    words: Sequence[Sequence[str]],
    probabilities: Tensor,
    columns: Sequence[str],
    rows: Sequence[str],
    title: str,
    path: Path,
) -> None:
    """Draws the most likely word in each cell, coloured by its probability; one row per layer, the last on top."""
    height, width = probabilities.shape
    with canvas(max(5.0, 0.62 * width + 2.0), max(2.2, 0.27 * height + 1.6), path) as picture:
        picture.suptitle(title)
        axis = picture.subplots()
        image = axis.imshow(
            probabilities.numpy(), cmap=scale_of("sequential"), vmin=0, vmax=1, aspect="auto", origin="lower"
        )
        for row, texts in enumerate(words):
            for column, text in enumerate(texts):
                axis.text(
                    column,
                    row,
                    short_token(text, CELL),
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=ink_on_weight(float(probabilities[row, column])),
                )
        axis.set_xticks(range(width), [short_token(text) for text in columns], fontsize=8, rotation=45)
        axis.set_yticks(range(height), rows, fontsize=8)
        axis.set(xlabel="reads", ylabel="after")
        picture.colorbar(image, ax=axis, fraction=0.03, pad=0.01, label="probability")


def draw_importance(maps: Mapping[str, NDArray[Any]], label: str, title: str, path: Path) -> None:
    """Draws grids of layers by heads, one per part of a model: how much worse it does without a head. nan: untested."""
    limit = max((float(np.nanmax(np.abs(values))) for values in maps.values()), default=0.0) or 1.0
    widest = max(values.shape[1] for values in maps.values())
    tallest = max(len(values) for values in maps.values())
    size = (max(2.6, 0.42 * widest + 0.9) * len(maps) + 1.3, max(2.2, 0.42 * tallest + 1.3))
    with canvas(*size, path) as picture:
        picture.suptitle(title)
        grid = picture.subplots(1, len(maps), squeeze=False)[0]
        for axis, (name, values) in zip(grid, maps.items(), strict=True):
            axis.set_facecolor("0.85")
            image = axis.imshow(values, cmap=scale_of("diverging"), vmin=-limit, vmax=limit, origin="lower")
            axis.set_title(name, fontsize=9)
            axis.set(xlabel="head", ylabel="layer")
            axis.set_xticks(range(values.shape[1]))
            axis.set_yticks(range(len(values)))
        picture.colorbar(image, ax=grid, fraction=0.04, pad=0.02, label=label)
