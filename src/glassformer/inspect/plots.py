"""Pictures, drawn with matplotlib: attention maps, the positional encoding, forecasts.

Weights in [0, 1] are on one sequential scale that colour-blind eyes read, signed values on one diverging scale
centred at 0, and the scale is always shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import InputError

SEQUENTIAL, DIVERGING = "cividis", "RdBu_r"
HANGUL_FONTS = (
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "Nanum Gothic",
    "Apple SD Gothic Neo",
    "Malgun Gothic",
)
LABELS = 48  # beyond this many tokens only some are labelled


def draw_attention(
    maps: Mapping[str, Tensor], rows: Sequence[str], columns: Sequence[str], title: str, path: Path
) -> None:
    """Maps (T, S) by name, side by side: a row is a query, bright is where it looks."""
    across = 1 if len(maps) == 1 else 2 if len(maps) <= 4 else 4
    down = ceil(len(maps) / across)
    longest = max(len(rows), len(columns))
    size = max(2.8, min(9.0, 0.23 * longest + 0.8))
    height = max(1.6, size * len(rows) / longest)
    with canvas(size * across + 1.2, (height + 0.8) * down + 0.4, path) as picture:
        picture.suptitle(title)
        grid = picture.subplots(down, across, squeeze=False)
        for axis in grid.flat[len(maps) :]:
            axis.set_visible(False)
        for axis, (name, weights) in zip(grid.flat, maps.items(), strict=False):
            image = axis.imshow(weights.float().numpy(), cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
            axis.set_title(name, fontsize=9)
            _label(axis.xaxis, columns, rotation=90)
            _label(axis.yaxis, rows if axis in grid[:, 0] else [""] * len(rows))
        picture.colorbar(image, ax=grid, fraction=0.03, pad=0.01, label="attention weight")


def draw_positions(table: Tensor, title: str, path: Path) -> None:
    """The encoding (positions, dimensions) as a heat map, and single dimensions as waves over the positions."""
    length, width = table.shape
    limit = float(table.abs().max())
    with canvas(10, 7.5, path) as picture:
        picture.suptitle(title)
        above, below = picture.subplots(2, 1, height_ratios=(3, 2))
        colours = {"cmap": DIVERGING, "vmin": -limit, "vmax": limit}
        image = above.imshow(table.T.numpy(), aspect="auto", interpolation="nearest", **colours)
        above.set(xlabel="position", ylabel="dimension")
        picture.colorbar(image, ax=above, fraction=0.03, pad=0.01, label="value")
        sines = sorted({int(i) // 2 * 2 for i in torch.linspace(0, 0.6 * width, 5)})  # beyond, a wave is too long
        for dimension in sines:
            below.plot(range(length), table[:, dimension].numpy(), label=f"dimension {dimension}", linewidth=1.4)
        below.set(xlabel="position", ylabel="value", xlim=(0, max(1, length - 1)))
        below.grid(alpha=0.25)
        below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=len(sines), frameon=False, fontsize=8)


def draw_forecast(
    past: Any, future: Any, names: Sequence[str], past_times: Any, times: Sequence[str], title: str, path: Path
) -> None:
    """The past (T, C) and the forecast (Z, C) behind it, one panel for each channel."""
    ticks = [str(time).replace("T", " ") for time in past_times]
    # Where the past ends is written a line lower, as a short forecast leaves no room beside its own end.
    places = {0: ticks[0], len(ticks) - 1: f"\n{ticks[-1]}", len(ticks) + len(times) - 1: times[-1]}
    with canvas(10, 1.9 * len(names) + 1.0, path) as picture:
        picture.suptitle(title)
        panels = picture.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0]
        for c, (axis, name) in enumerate(zip(panels, names, strict=True)):
            end = len(past) - 1  # the forecast begins where the past ends
            axis.plot(range(len(past)), past[:, c], linewidth=1.2, label="the past")
            axis.plot(
                range(end, end + 1 + len(future)), [past[end, c], *future[:, c]], linewidth=1.6, label="the forecast"
            )
            axis.axvline(end, color="grey", linewidth=0.8, linestyle=":")
            axis.set_title(name, fontsize=9, loc="left")
            axis.grid(alpha=0.25)
        picture.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", frameon=False, fontsize=8)
        panels[-1].set_xticks(list(places), list(places.values()), fontsize=8)


@contextmanager
def canvas(width: float, height: float, path: Path) -> Iterator[Any]:
    """A figure that is saved to `path` at the end, in a font that has Hangul if there is one."""
    if find_spec("matplotlib") is None:
        raise InputError("pictures need matplotlib: pip install 'glassformer[plot]'")
    import matplotlib
    from matplotlib.figure import Figure

    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"the picture {path} has the ending {path.suffix!r}: expected .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise InputError(f"the picture {path} cannot be written: there is no folder {path.parent}")
    # parse_math off: a dollar in a token is a dollar.
    settings: Any = {"font.family": [*_hangul_font(), "DejaVu Sans"], "text.parse_math": False}
    with matplotlib.rc_context({**settings, "axes.unicode_minus": False}):
        picture = Figure(figsize=(width, height), dpi=130, layout="constrained")
        yield picture
        picture.savefig(path)


def _hangul_font() -> list[str]:
    """The first font with Hangul that is installed, or the one that the package koreanize-matplotlib ships."""
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


def _label(axis: Any, texts: Sequence[str], **style: Any) -> None:
    every = ceil(len(texts) / LABELS)
    axis.set_ticks(range(0, len(texts), every), texts[::every], fontsize=8, **style)
