"""Attention maps: long ones keep their thin lines, and the scale clips the extremes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.figures.plots import draw_attention, largest_in_dots, scale_maximum


@pytest.mark.parametrize("length", [600, 2048])
def test_long_maps_keep_their_thin_lines(length: int, tmp_path: Path) -> None:
    """A single dark column among thousands is visible in the figure."""
    from PIL import Image

    weights = torch.full((length, length), 1 / length)
    weights[:, 300] = 0.5
    names = [str(i) for i in range(length)]
    draw_attention({"head 0": weights}, names, names, "long", tmp_path / "long.png")
    with Image.open(tmp_path / "long.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert max(pixels.shape) < 2000
    middle = pixels[pixels.shape[0] // 2]
    navy = (middle[:, 0] < 40) & (middle[:, 1] < 70) & (middle[:, 2] > 60)
    assert navy[: len(navy) * 9 // 10].sum() in range(1, 5)  # the colour bar is further right


def test_dots_hold_the_largest_and_the_scale_leaves_out_the_extremes() -> None:
    weights = torch.rand(7, 10)
    dots = largest_in_dots(weights, 4)
    assert dots.shape == (4, 4)
    assert float(dots[0, 0]) == float(weights[:2, :3].max())
    assert float(dots[3, 3]) == float(weights[6:, 9:].max())
    assert largest_in_dots(weights, 10) is weights
    spread = torch.cat([torch.ones(5), torch.full((9995,), 0.01), torch.zeros(500)])
    assert scale_maximum([spread]) == pytest.approx(0.01)
    assert scale_maximum([torch.full((1000,), 0.001)]) == pytest.approx(0.001)
    assert scale_maximum([torch.zeros(3)]) == 1.0
