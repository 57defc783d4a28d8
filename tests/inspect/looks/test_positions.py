"""The numbers in the figures of positions, against their formulas."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.config import ImageConfig, LayerKind
from glassformer.errors import InputError
from glassformer.inspect.looks.positions import PositionView, picture_positions, view_positions


def make_model(part: str = "decoder", *, also: str = "", **choices: object) -> gf.Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 24, "num_layers": 3, "num_heads": 3, "max_len": 40}
    stacks = {name: gf.StackConfig(**{**sizes, **choices}) for name in (part, also) if name}  # type: ignore[arg-type]
    return gf.Transformer(gf.TransformerConfig(vocab_size=20, **stacks))  # type: ignore[arg-type]


def view_of(model: gf.Transformer) -> PositionView:
    (view,) = view_positions(model)
    return view


def test_sinusoids_are_those_of_the_paper_and_their_cosine_depends_on_distance_alone() -> None:
    view = view_of(make_model("encoder", also="decoder"))
    assert view.part == "encoder and decoder"  # two equal tables give one figure
    place, pair = np.arange(40)[:, None], np.arange(12)
    angle = place / 10_000 ** (2 * pair / 24)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(40, 24)
    np.testing.assert_allclose(view.heat.numpy(), table.T, atol=1e-6)
    np.testing.assert_allclose(view.curves["dimension 0"].numpy(), np.sin(np.arange(40)), atol=1e-6)
    expected = np.cos(angle).mean(axis=1)  # |PE|^2 = D/2, and PE(i).PE(j) = sum of cos of the differences
    np.testing.assert_allclose(view.falls["mean"].numpy(), expected, atol=1e-5)
    assert view.distances.tolist() == list(range(40))


def test_a_learned_table_is_shown_as_it_is_after_its_offset() -> None:
    model = make_model(positions="learned", position_offset=2)
    view, table = view_of(model), model.decoder.embed.positions.weight.detach().numpy()[2:]
    np.testing.assert_array_equal(view.heat.numpy(), table.T)
    rows = table / np.linalg.norm(table, axis=1, keepdims=True)
    assert view.similarity is not None
    np.testing.assert_allclose(view.similarity.numpy(), rows @ rows.T, atol=1e-5)
    for distance in (0, 1, 7, 39):
        mean = np.diagonal(rows @ rows.T, offset=distance).mean()
        assert float(view.falls["mean"][distance]) == pytest.approx(mean, abs=1e-5)


def test_rotary_angles_and_how_equal_vectors_grow_apart() -> None:
    """Two bases give two views; a window does not. Half of each head is not rotated."""
    kinds = (LayerKind(), LayerKind(window=4), LayerKind(rotary_base=100.0))
    near, far = view_positions(make_model(positions="rotary", layer_kinds=kinds, rotary_fraction=0.5))
    assert (near.part, far.part) == ("decoder layers 0-1", "decoder layers 2")
    for view, base in ((near, 10_000), (far, 100)):
        angle = np.arange(128)[:, None] / base ** (np.arange(2) / 2)
        np.testing.assert_allclose(view.heat.numpy(), np.cos(angle).T, atol=1e-5)
        np.testing.assert_allclose(view.falls["score"].numpy(), (np.cos(angle).sum(axis=1) * 2 + 4) / 8, atol=1e-5)


def test_alibi_falls_in_a_straight_line_for_each_head() -> None:
    view = view_of(make_model(positions="alibi", num_heads=4))
    back = np.arange(-127, 1)
    slopes = np.array([2.0 ** (-8 * (h + 1) / 4) for h in range(4)])
    assert (view.start, view.distances.tolist()) == (-127, back.tolist())
    np.testing.assert_allclose(view.heat.numpy(), slopes[:, None] * back, atol=1e-5)
    weights = np.exp(slopes[1] * back) / np.exp(slopes[1] * back).sum()
    np.testing.assert_allclose(view.falls["head 1"].numpy(), weights, atol=1e-6)


def test_a_relative_bias_is_read_from_its_buckets() -> None:
    """Each short distance has its own row of the table; an encoder uses the second half for keys to the right."""
    model = make_model("encoder", also="decoder", positions="relative")
    encoder, decoder = view_positions(model)
    table = model.encoder.position_bias.weight.detach()
    for distance in range(-7, 8):
        row = -distance if distance <= 0 else 16 + distance
        torch.testing.assert_close(encoder.heat[:, distance - encoder.start], table[row])
    assert (encoder.start, encoder.heat.shape[1]) == (-127, 255)
    table = model.decoder.position_bias.weight.detach()
    for distance in range(-15, 1):
        torch.testing.assert_close(decoder.heat[:, distance - decoder.start], table[-distance])
    assert view_positions(model, "decoder")[0].part == "decoder"


def test_the_positions_of_patches_are_compared_in_two_dimensions() -> None:
    image = ImageConfig(size=12, patch=4, channels=1)
    stack = gf.StackConfig(d_model=8, num_layers=1, num_heads=1, positions="learned")
    torch.manual_seed(0)
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, image=image, head="class", num_classes=2))
    view = view_of(model)
    table = model.encoder.embed.positions.weight.detach()
    assert view.heat.shape == (8, 10)  # with the class token
    assert view.maps is not None
    assert view.maps.shape == (3, 3, 3, 3)
    expected = torch.cosine_similarity(table[1 + 3 * 2 + 1], table[1 + 3 * 0 + 2], dim=0)
    torch.testing.assert_close(view.maps[2, 1, 0, 2], expected)
    assert view.distances.tolist() == pytest.approx([0, 1, math.sqrt(2), 2, math.sqrt(5), math.sqrt(8)])


def make_seer() -> gf.Transformer:
    stack = gf.StackConfig(d_model=24, num_layers=1, num_heads=12, positions="learned")
    image = ImageConfig(size=12, patch=4, channels=1)
    return gf.Transformer(gf.TransformerConfig(encoder=stack, image=image, head="class", num_classes=2))


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "rotary", "relative", "patches"])
def test_each_kind_of_scheme_becomes_a_picture(scheme: str, tmp_path: Path) -> None:
    from PIL import Image

    model = make_seer() if scheme == "patches" else make_model("encoder", also="decoder", positions=scheme)
    picture_positions(model, tmp_path / "positions.png")
    with Image.open(tmp_path / "positions.png") as image:
        assert image.size[0] > 1000
        assert len(np.unique(np.asarray(image.convert("L")))) > 50


def test_a_model_without_positions_or_without_the_part_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to draw: positions = 'none' in the decoder of this model"):
        picture_positions(make_model(positions="none"), tmp_path / "positions.png")
    with pytest.raises(InputError, match="this model has no encoder, only a decoder"):
        view_positions(make_model(), "encoder")
