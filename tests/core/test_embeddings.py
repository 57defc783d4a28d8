"""Tokens, patches of images and patches of series become vectors."""

import pytest
import torch
import torch.nn.functional as F
from helpers.parts import D, assert_same, randomised, stack_config

import glassformer as gf
from glassformer.core.embeddings import PatchEmbedding, SeriesEmbedding, TokenEmbedding
from glassformer.core.positions import sinusoids
from glassformer.errors import InputError


def test_token_embedding_scales_adds_norms_and_projects():
    config = stack_config(positions="sinusoidal")
    embed = randomised(TokenEmbedding(config, 11, width=5, scale=3.0, num_segments=2, norm=True))
    ids, segments, positions = torch.randint(0, 11, (2, 4)), torch.randint(0, 2, (2, 4)), torch.tensor([[0, 1, 2, 3]])

    placed = embed.place(embed(ids), positions, 4, segments)

    summed = 3.0 * embed.tokens.weight[ids] + embed.segments.weight[segments] + sinusoids(4, 5).float()
    normed = F.layer_norm(summed, (5,), embed.norm.weight, embed.norm.bias)
    assert_same(placed, F.linear(normed, embed.project.weight, embed.project.bias))


def test_segments_left_out_are_all_the_first():
    embed = randomised(TokenEmbedding(stack_config(), 11, num_segments=2))
    x, positions = torch.randn(2, 4, D), torch.arange(4)[None]
    zeros = torch.zeros(2, 4, dtype=torch.long)
    assert torch.equal(embed.place(x, positions, 4), embed.place(x, positions, 4, zeros))
    assert not torch.allclose(embed.place(x, positions, 4), embed.place(x, positions, 4, zeros + 1))


@pytest.mark.parametrize("class_token", [True, False], ids=["class token", "no class token"])
def test_an_image_is_cut_row_by_row(class_token):
    image = gf.ImageConfig(size=6, patch=2, channels=3, class_token=class_token)
    embed = randomised(PatchEmbedding(stack_config(), image))
    pixels = torch.randn(2, 3, 6, 6)

    x = embed(pixels)

    cut = [pixels[:, :, i : i + 2, j : j + 2].flatten(1) for i in (0, 2, 4) for j in (0, 2, 4)]
    expected = [F.linear(patch, embed.patches.weight.flatten(1), embed.patches.bias) for patch in cut]
    if class_token:
        expected.insert(0, embed.class_token[0].expand(2, -1))
    assert x.shape[1] == image.num_tokens
    assert_same(x, torch.stack(expected, dim=1))


@pytest.mark.parametrize(
    ("length", "patch", "stride", "starts"),
    [(12, 4, None, [0, 4, 8]), (12, 4, 2, [0, 2, 4, 6, 8]), (11, 4, 3, [1, 4, 7]), (9, 2, 4, [3, 7]), (5, 5, 1, [0])],
)
def test_a_series_is_cut_so_that_its_newest_value_is_in_the_last_patch(length, patch, stride, starts):
    series = gf.SeriesConfig(length=length, patch=patch, stride=stride)
    embed = randomised(SeriesEmbedding(stack_config(), series))
    values = torch.randn(2, length, 3)

    x = embed(values)

    assert x.shape == (2 * 3, series.num_tokens, D)
    for row in range(2):
        for channel in range(3):
            cut = torch.stack([values[row, start : start + patch, channel] for start in starts])
            expected = F.linear(cut, embed.patches.weight, embed.patches.bias)
            assert_same(x[row * 3 + channel], expected)


def test_patches_without_bias_are_normed_after_their_positions():
    image = gf.ImageConfig(size=4, patch=2, channels=1, patch_bias=False, embed_norm=True)
    embed = randomised(PatchEmbedding(stack_config(positions="learned"), image))
    pixels, places = torch.randn(2, 1, 4, 4), torch.arange(5)[None]

    placed = embed.place(embed(pixels), places, 5)

    assert embed.patches.bias is None
    patches = F.conv2d(pixels, embed.patches.weight, stride=2).flatten(2).transpose(1, 2)
    before = torch.cat([embed.class_token.expand(2, -1, -1), patches], dim=1) + embed.positions.weight
    assert_same(placed, F.layer_norm(before, before.shape[-1:], embed.norm.weight, embed.norm.bias))


def test_a_stem_halves_the_image_before_the_patches():
    image = gf.ImageConfig(size=8, patch=4, channels=3, stem=2, class_token=False)
    embed = randomised(PatchEmbedding(stack_config(), image))
    pixels = torch.randn(2, 3, 8, 8)

    first, second = embed.stem.halves

    def largest(x: torch.Tensor) -> torch.Tensor:  # of each 3x3 pixels around every other pixel
        return F.pad(x, (1, 1, 1, 1)).unfold(2, 3, 2).unfold(3, 3, 2).amax(dim=(-2, -1))

    half = largest(F.conv2d(F.pad(pixels, (1, 1, 1, 1)), first.weight, first.bias).clamp(min=0))
    quarter = largest(F.conv2d(F.pad(half, (1, 1, 1, 1)), second.weight, second.bias).clamp(min=0))
    expected = F.linear(quarter.flatten(2).transpose(1, 2), embed.patches.weight.flatten(1), embed.patches.bias)

    assert half.shape == (2, D // 2, 4, 4)
    assert_same(embed(pixels), expected)


@pytest.mark.parametrize("stem", [-1, 3])
def test_a_stem_must_fit_the_patches(stem):
    with pytest.raises(InputError, match=rf"ImageConfig.stem is {stem}: expected 0 or more, and patch = 4 divisible"):
        gf.ImageConfig(size=8, patch=4, stem=stem)


def test_a_folded_series_sees_the_same_hour_of_other_days():
    """The forecast of a phase is that of an unfolded model of one channel that reads only this phase."""
    fields = {"head": "forecast", "encoder": stack_config(positions="learned")}
    whole = gf.SeriesConfig(length=12, patch=6, stride=3, horizon=9, fold=3)
    model = randomised(gf.Transformer(gf.TransformerConfig(series=whole, **fields)))
    single = gf.SeriesConfig(length=4, patch=2, stride=1, horizon=3)
    apart = gf.Transformer(gf.TransformerConfig(series=single, **fields))
    apart.load_state_dict(model.state_dict())
    past = torch.randn(2, 12, 5)

    future = model(past_values=past).logits

    assert future.shape == (2, 9, 5)
    for phase in range(3):
        assert_same(future[:, phase::3], apart(past_values=past[:, phase::3]).logits)


def test_a_fold_divides_everything_counted_in_values():
    with pytest.raises(InputError, match=r"SeriesConfig.horizon is 10: expected a multiple of fold = 3"):
        gf.SeriesConfig(length=12, patch=6, stride=3, horizon=10, fold=3)
