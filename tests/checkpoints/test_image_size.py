"""Positions of an image model are interpolated to another image size as in transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_checkpoints import Made, build, opened_by_transformers, same_parameters

import glassformer as gf
from glassformer.errors import InputError


@pytest.mark.parametrize("size", [8, 16, 24, 44])
@pytest.mark.parametrize("architecture", ["ViTForImageClassification", "ViTModel", "DeiTForImageClassification",
                                          "DeiTForImageClassificationWithTeacher"])  # fmt: skip
def test_as_transformers(architecture: str, size: int, made: Made, tmp_path: Path) -> None:
    model, theirs = gf.load(made(architecture), image_size=size), build(architecture)
    pixels = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        expected = theirs(pixels, interpolate_pos_encoding=True)
        ours: Any = model(pixel_values=pixels)
    name = "last_hidden_state" if architecture == "ViTModel" else "logits"
    assert (getattr(ours, name) - expected[name]).abs().max() < 1e-5

    gf.save(model, tmp_path / "stretched")
    assert same_parameters(gf.load(tmp_path / "stretched"), model)
    with torch.no_grad():
        again = opened_by_transformers(tmp_path / "stretched", architecture)(pixels)
    assert (again[name] - expected[name]).abs().max() < 1e-5


def test_our_own_layout(tmp_path: Path) -> None:
    stack = gf.StackConfig(d_model=12, num_layers=1, num_heads=3, positions="learned")
    image = gf.ImageConfig(size=8, patch=4)
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, image=image, head="class", num_classes=2)).eval()
    gf.save(model, tmp_path / "own")
    stretched = gf.load(tmp_path / "own", image_size=12)
    assert stretched.config.image.size == 12
    assert stretched(pixel_values=torch.zeros(1, 3, 12, 12)).logits.shape == (1, 2)
    assert same_parameters(gf.load(tmp_path / "own", image_size=8), model)


def test_a_size_that_the_patches_do_not_divide(made: Made) -> None:
    with pytest.raises(InputError, match="patch is 4: expected a divisor of size = 18"):
        gf.load(made("ViTForImageClassification"), image_size=18)
