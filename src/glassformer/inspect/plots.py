"""Pictures, drawn with matplotlib: attention maps and the positional encoding.

Weights in [0, 1] are on one sequential scale that colour-blind eyes read, signed values on one diverging scale
centred at 0, and the scale is always shown.
"""

from collections.abc import Sequence
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


def figure(width: float, height: float) -> Any:
    """An empty figure, in a font that has Hangul if there is one."""
    if find_spec("matplotlib") is None:
        raise InputError("pictures need matplotlib: pip install 'glassformer[plot]'")
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["font.family"] = [*_hangul_font(), "DejaVu Sans"]
    matplotlib.rcParams["axes.unicode_minus"] = False
    return Figure(figsize=(width, height), dpi=130, layout="constrained")


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


def draw_attention(weights: Tensor, rows: Sequence[str], columns: Sequence[str], title: str, path: Path) -> None:
    """Maps (H, T, S) side by side: a row is a query, bright is where it looks."""
    heads = len(weights)
    across = heads if heads == 1 else 2 if heads <= 4 else 4
    down = ceil(heads / across)
    size = max(2.6, min(9.0, 0.23 * max(len(rows), len(columns)) + 0.8))
    picture = figure(size * across + 0.8, size * len(rows) / max(len(rows), len(columns)) * down + 0.9 + 0.55 * down)
    picture.suptitle(title)
    grid = picture.subplots(down, across, squeeze=False)
    for index, axis in enumerate(grid.flat):
        if index >= heads:
            axis.set_visible(False)
            continue
        image = axis.imshow(weights[index].float().numpy(), cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
        if heads > 1:
            axis.set_title(f"head {index}", fontsize=9)
        _label(axis.xaxis, columns, rotation=90)
        _label(axis.yaxis, rows if index % across == 0 or heads == 1 else [""] * len(rows))
    picture.colorbar(image, ax=grid, fraction=0.03, pad=0.01, label="attention weight")
    picture.savefig(path)


def _label(axis: Any, texts: Sequence[str], **style: Any) -> None:
    every = ceil(len(texts) / LABELS)
    axis.set_ticks(
        range(0, len(texts), every), [text.replace("$", r"\$") for text in texts[::every]], fontsize=8, **style
    )


def draw_positions(table: Tensor, title: str, path: Path) -> None:
    """The encoding (positions, dimensions) as a heat map, and single dimensions as waves over the positions."""
    length, width = table.shape
    limit = float(table.abs().max())
    picture = figure(10, 7.5)
    picture.suptitle(title)
    above, below = picture.subplots(2, 1, height_ratios=(3, 2))
    image = above.imshow(
        table.T.numpy(), cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    above.set(xlabel="position", ylabel="dimension")
    picture.colorbar(image, ax=above, fraction=0.03, pad=0.01, label="value")
    sines = sorted({int(i) // 2 * 2 for i in torch.linspace(0, 0.6 * width, 5)})  # beyond, a wave is too long to see
    for dimension in sines:
        below.plot(range(length), table[:, dimension].numpy(), label=f"dimension {dimension}", linewidth=1.4)
    below.set(xlabel="position", ylabel="value", xlim=(0, length - 1))
    below.grid(alpha=0.25)
    below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=len(sines), frameon=False, fontsize=8)
    picture.savefig(path)
