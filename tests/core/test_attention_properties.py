"""Attention for all shapes and masks: a fully masked query gives 0, a window is a band, tiling changes nothing."""

from unittest.mock import patch

import pytest
import torch
from helpers.properties import (
    assert_same,
    either_stack,
    gradients,
    head_counts,
    make_stack,
    padding,
    properties,
    randomised,
    seeds,
    sizes,
    stack_config,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.attention import attend, attend_in_tiles, attention_weights
from glassformer.core.context import Mask
from glassformer.core.positions import make_position_bias


@st.composite
def attentions(draw):
    """q, k, v and a boolean mask in which at least one query is fully masked."""
    torch.manual_seed(draw(seeds))
    (heads, kv_heads), batch, queries, keys = draw(head_counts), draw(sizes), draw(sizes), draw(sizes)
    q = torch.randn(batch, heads, queries, 4, requires_grad=True)
    k, v = (torch.randn(batch, kv_heads, keys, 4, requires_grad=True) for _ in range(2))
    mask = torch.rand(batch, draw(st.sampled_from([1, heads])), queries, keys) < 0.5
    mask[0, 0, 0] = False
    return q, k, v, mask


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("as_float", [False, True], ids=["boolean", "float"])
@properties
@given(attentions())
def test_a_query_that_may_see_nothing_gets_zero(as_float, dropout, case):
    q, k, v, mask = case
    empty = ~mask.any(-1).expand(q.shape[:3])
    given_mask = torch.randn(mask.shape).masked_fill(~mask, -torch.inf) if as_float else mask

    output = attend(q, k, v, given_mask, dropout=dropout)

    assert (output[empty] == 0).all()
    assert output.isfinite().all()
    for gradient in gradients(output, q, k, v):
        assert gradient.isfinite().all()
    assert (gradients(attend(q, k, v, given_mask, dropout=dropout), q)[0][empty] == 0).all()


@pytest.mark.parametrize("as_float", [False, True], ids=["boolean", "float"])
@properties
@given(attentions())
def test_attention_weights_are_attend_without_the_values(as_float, case):
    q, k, v, mask = case
    empty = ~mask.any(-1).expand(q.shape[:3])
    given_mask = torch.randn(mask.shape).masked_fill(~mask, -torch.inf) if as_float else mask

    weights = attention_weights(q, k, given_mask)

    assert (weights[empty] == 0).all()
    assert_same(weights[~empty].sum(-1), torch.ones_like(weights[~empty][:, 0]))
    assert (weights[~mask.expand_as(weights)] == 0).all()
    repeated = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    assert_same(weights @ repeated, attend(q, k, v, given_mask))
    assert all(gradient.isfinite().all() for gradient in gradients(weights, q, k))


@either_stack
@properties
@given(seeds, st.integers(1, 8), st.integers(0, 4), st.integers(1, 9))
def test_a_window_is_a_band(causal, seed, queries, past, window):
    """The last W keys when causal; W//2 to either side in an encoder, where T = S."""
    torch.manual_seed(seed)
    keys = queries + past * causal
    q, k, v = torch.randn(2, 2, queries, 4), torch.randn(2, 2, keys, 4), torch.randn(2, 2, keys, 4)
    first = keys - queries
    band = torch.tensor(
        [
            [0 <= first + i - j < window if causal else abs(i - j) <= window // 2 for j in range(keys)]
            for i in range(queries)
        ]
    )

    output = attend_in_tiles(q, k, v, Mask(queries, keys, causal=causal, window=window))

    assert_same(output, attend(q, k, v, band))


@pytest.mark.parametrize("dropout", [0.0, 1e-12], ids=["fused", "as if with dropout"])  # 1e-12 drops nothing
@pytest.mark.parametrize("scheme", ["none", "relative", "alibi"])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@settings(properties, max_examples=5)
@given(seeds, st.integers(1, 3), st.integers(2, 7), st.integers(0, 3), head_counts, st.integers(1, 50))
def test_tiles_are_the_whole(padded, causal, window, scheme, dropout, seed, batch, queries, past, heads, tile):
    """Computing a few rows at a time gives the same outputs and gradients, with and without grad mode."""
    torch.manual_seed(seed)
    keys = queries + past
    bias = make_position_bias(stack_config(scheme, heads), causal)
    learned = list(randomised(bias).parameters()) if bias else []
    keep = torch.rand(batch, keys) < 0.7 if padded else None
    mask = Mask(queries, keys, keep, causal, window, bias, torch.arange(keys)[None])
    q = torch.randn(batch, heads[0], queries, 4, requires_grad=True)
    k, v = (torch.randn(batch, heads[1], keys, 4, requires_grad=True) for _ in range(2))
    whole = attend(q, k, v, mask.tile(slice(0, queries), slice(0, keys), q.dtype))

    with patch("glassformer.core.context.TILE", tile):
        tiled = attend_in_tiles(q, k, v, mask, dropout=dropout)
        tiled_gradients = gradients(tiled, q, k, v, *learned)
        with torch.no_grad():
            without_grad = attend_in_tiles(q, k, v, mask, dropout=dropout)

    assert_same(tiled, whole)
    assert_same(without_grad, whole)
    for one, other in zip(tiled_gradients, gradients(whole, q, k, v, *learned), strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("positions", ["none", "relative"])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
def test_a_tile_is_as_small_as_asked(positions, padded):
    """A whole stack, one row of scores at a time: attention is called once for each row."""
    stack = make_stack(0, positions, windows=(3,), causal=True)
    keep = padding([3, 6], left=True) if padded else None
    x = torch.randn(2, 6, 8, requires_grad=True)
    whole = stack(x, keep=keep)
    rows = []

    def attend_and_count(q, *rest, **choices):
        rows.append(q.shape[2])
        return attend(q, *rest, **choices)

    with patch("glassformer.core.context.TILE", 1), patch("glassformer.core.attention.attend", attend_and_count):
        tiled = stack(x, keep=keep)
    assert rows == [1] * 6 * len(stack.blocks)
    assert_same(tiled, whole)
    for one, other in zip(
        gradients(tiled, x, *stack.parameters()), gradients(whole, x, *stack.parameters()), strict=True
    ):
        assert_same(one, other)
