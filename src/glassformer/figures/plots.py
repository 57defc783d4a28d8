"""Figures drawn with matplotlib: attention maps, forecasts, and the canvas that other files draw on.

Weights in [0, 1] use a sequential, colour-blind-safe scale, signed values a diverging scale centred at 0. The scale is
always shown.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import InputError
from glassformer.figures.palette import FIRST, FORECAST, scale_of

HANGUL_FONTS = (
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "Nanum Gothic",
    "Apple SD Gothic Neo",
    "Malgun Gothic",
)
LONG_MAP = 48  # a map with more tokens counts as long
LABEL_CHARACTERS = 14  # most characters in a label
LINE = 0.13  # inches per label
DOTS = 130  # dots per inch


def draw_attention(
    maps: Mapping[str, Tensor],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    path: Path,
    *,
    read_as: tuple[str, str] = ("from", "looks at"),
    label: str = "attention weight",
) -> None:
    """Draws maps (T, S) side by side: each row is a query, and dark cells are the keys it attends to.

    In a long map most weights are small, so its scale is a square root and clips the few largest weights. Where several
    weights share a pixel, the largest is drawn.
    """
    across = 1 if len(maps) == 1 else 2 if len(maps) <= 4 else 4
    down = ceil(len(maps) / across)
    longest = max(len(rows), len(columns))
    is_long = longest > LONG_MAP
    size = max(2.8, min(9.0 if len(maps) == 1 else 5.5, 0.23 * longest + 0.8))
    height = max(1.6, size * len(rows) / longest)
    if is_long:
        rows, columns = ([f"{i} {text}" for i, text in enumerate(texts)] for texts in (rows, columns))
    most = scale_maximum(list(maps.values())) if is_long else 1.0
    with canvas(size * across + 1.6, (height + 0.8) * down + 0.6, path) as picture:
        from matplotlib.colors import PowerNorm

        picture.suptitle(title)
        grid = picture.subplots(down, across, squeeze=False)
        scale = PowerNorm(0.5 if is_long else 1.0, vmin=0, vmax=most)
        for axis in grid.flat[len(maps) :]:
            axis.set_visible(False)
        for axis, (name, weights) in zip(grid.flat, maps.items(), strict=False):
            dots = largest_in_dots(weights.float(), int(size * DOTS)).numpy()
            frame = (-0.5, len(columns) - 0.5, len(rows) - 0.5, -0.5)
            colours = {"cmap": scale_of("sequential"), "norm": scale}
            image = axis.imshow(dots, aspect="auto", extent=frame, interpolation="nearest", **colours)
            axis.set_title(name, fontsize=9)
            _label(axis.xaxis, columns, size, rotation=90)
            _label(axis.yaxis, rows if axis in grid[:, 0] else [""] * len(rows), height)
        said = f"{label} (square-root scale)" if is_long else label
        beyond = "max" if is_long else "neither"
        picture.colorbar(image, ax=grid, fraction=0.03, pad=0.01, label=said, extend=beyond)
        picture.supxlabel(read_as[1], fontsize=9)
        picture.supylabel(read_as[0], fontsize=9)


def scale_maximum(maps: Sequence[Tensor]) -> float:
    """The 99.9th percentile of the weights above 0: with the maximum, a few large weights would hide the rest.

    At least ten times the uniform weight, if any weight is that large, so uniform weights look faint.
    """
    seen = torch.cat([weights[weights > 0].float() for weights in maps])
    if not len(seen):
        return 1.0
    common = float(seen.kthvalue(1 + int(0.999 * (len(seen) - 1))).values)
    return max(common, min(float(seen.max()), 10 / maps[0].shape[-1]))


def largest_in_dots(weights: Tensor, dots: int) -> Tensor:
    """Shrinks a map (T, S) to at most `dots` rows and columns by max pooling, so thin lines stay visible."""
    rows, columns = (max(1, ceil(length / dots)) for length in weights.shape)
    if rows == columns == 1:
        return weights
    return F.max_pool2d(weights[None], (rows, columns), ceil_mode=True)[0]


def draw_forecast(
    past: Any, future: Any, names: Sequence[str], past_times: Any, times: Sequence[str], title: str, path: Path
) -> None:
    """Draws the past (T, C) and the forecast (Z, C) after it, one panel per channel."""
    ticks = [str(time).replace("T", " ") for time in past_times]
    # The end of the past is labelled one line lower: beside a short forecast, the labels would overlap.
    places = {0: ticks[0], len(ticks) - 1: f"\n{ticks[-1]}", len(ticks) + len(times) - 1: times[-1]}
    with canvas(10, 1.9 * len(names) + 1.0, path) as picture:
        picture.suptitle(title)
        panels = picture.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
        for c, (axis, name) in enumerate(zip(panels, names, strict=True)):
            end = len(past) - 1  # the forecast begins where the past ends
            axis.plot(range(len(past)), past[:, c], color=FIRST, linewidth=1.2, label="past")
            ahead = [past[end, c], *future[:, c]]
            axis.plot(range(end, end + len(ahead)), ahead, color=FORECAST, linewidth=1.6, label="forecast")
            axis.axvline(end, color="grey", linewidth=0.8, linestyle=":")
            axis.set_title(name, fontsize=9, loc="left")
            axis.grid(alpha=0.25)
        picture.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", frameon=False, fontsize=8)
        panels[-1].set_xticks(list(places), list(places.values()), fontsize=8)


def short_token(text: str, letters: int = LABEL_CHARACTERS) -> str:
    """The text, truncated to `letters` characters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


@contextmanager
def canvas(width: float, height: float, path: Path) -> Iterator[Any]:
    """Yields a figure and then saves it to `path`, in a font with Hangul if there is one."""
    if find_spec("matplotlib") is None:
        raise InputError("figures need matplotlib. Install it: pip install 'glassformer[plot]'")
    import matplotlib
    from matplotlib.figure import Figure

    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"cannot save a figure as {path}: expected the extension .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise InputError(f"cannot save a figure as {path}: the folder {path.parent} does not exist. Create it first")
    # Without parse_math, a dollar sign in a token would start a formula.
    settings: Any = {"font.family": [*_hangul_font(), "DejaVu Sans"], "text.parse_math": False}
    with matplotlib.rc_context({**settings, "axes.unicode_minus": False}):
        picture = Figure(figsize=(width, height), dpi=DOTS, layout="constrained")
        yield picture
        with warnings.catch_warnings():
            # Characters that no font has, such as emoji, are drawn as boxes, which is good enough.
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
            picture.savefig(path)


def _hangul_font() -> list[str]:
    """The first installed font with Hangul, or the one that the package koreanize-matplotlib ships."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    for name in HANGUL_FONTS:
        if name in installed:
            return [name]
    package = find_spec("koreanize_matplotlib")
    if package is None or package.origin is None:
        return []
    font_manager.fontManager.addfont(Path(package.origin).parent / "fonts" / "NanumGothic.ttf")
    return ["NanumGothic"]


def _label(axis: Any, texts: Sequence[str], room: float, **style: Any) -> None:
    """Sets as many evenly spaced labels as fit into `room` inches."""
    every = max(1, ceil(len(texts) * LINE / room))
    axis.set_ticks(range(0, len(texts), every), [short_token(text) for text in texts[::every]], fontsize=8, **style)
