"""Recording does not change a bit and records the weights that were used, for all shapes, masks and schemes."""

import pytest
import torch
from helpers.properties import (
    assert_same,
    cuts,
    either_stack,
    every_scheme,
    gradients,
    head_counts,
    in_chunks,
    make_model,
    make_stack,
    padding,
    properties,
    seeds,
    stack_config,
    windows,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import glassformer as gf
from glassformer.core.cache import Cache


@every_scheme
@either_stack
@properties
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=3), st.booleans(), head_counts, windows, st.booleans())
def test_watched_and_unwatched_are_the_same_to_the_last_bit(
    positions, causal, seed, lengths, left, heads, windows, padded
):
    """Outputs and gradients are the same, so training can be recorded."""
    stack = make_stack(seed, positions, heads, windows, causal=causal)
    keep = padding(lengths, left) if padded else None
    x = torch.randn(len(lengths), max(lengths), 8, requires_grad=True)

    unwatched = stack(x, keep=keep)
    with gf.record(stack) as seen:
        watched = stack(x, keep=keep)

    assert len(seen) == len(stack.blocks)
    assert torch.equal(watched, unwatched)
    for one, other in zip(
        gradients(watched, x, *stack.parameters()), gradients(unwatched, x, *stack.parameters()), strict=True
    ):
        assert torch.equal(one, other)


@every_scheme
@properties
@given(st.data(), seeds, st.integers(1, 6), windows)
def test_watching_a_cached_run_changes_no_bit_and_sees_the_whole(positions, data, seed, length, windows):
    model = make_model(seed, stack_config(positions, windows=windows))
    ids = torch.randint(0, 11, (2, length))
    ends = data.draw(cuts(length), label="chunk ends")

    with torch.no_grad():
        unwatched = in_chunks(model, ids, None, ends, Cache())
        with gf.record(model) as seen:
            watched = in_chunks(model, ids, None, ends, Cache())
        with gf.record(model) as seen_at_once:
            model(ids)

    assert torch.equal(watched, unwatched)
    assert seen.keys() == {"decoder.blocks.0.attn", "decoder.blocks.1.attn"}
    for name, weights in seen.items():
        assert_same(weights, seen_at_once[name])


@pytest.mark.parametrize("start", [0, 2], ids=["from the start", "from midway"])
def test_a_record_forgets_what_the_cache_forgets(start):
    """Recording from `start` on, with two tokens cropped: the rows equal those of an uncached call from there on."""
    model, cache = make_model(0, stack_config()), Cache()
    ids = torch.randint(0, 11, (2, 6))

    with torch.no_grad():
        if start:
            model(ids[:, :start], cache=cache)
        with gf.record(model) as seen:
            model(ids[:, start:5], cache=cache)
            cache.crop(3)
            model(ids[:, 3:4], cache=cache)
        with gf.record(model) as seen_at_once:
            model(ids[:, :4])

    assert_same(seen["decoder.blocks.0.attn"], seen_at_once["decoder.blocks.0.attn"][:, :, start:])


def test_watching_a_reordered_cache_changes_no_bit():
    model = make_model(0, stack_config())
    ids, rows = torch.randint(0, 11, (2, 3)), torch.tensor([0, 0, 1])

    def two_steps() -> Tensor:
        cache = Cache()
        model(ids, cache=cache)
        cache.reorder(rows)
        return model(ids[rows, :1], cache=cache).logits

    with torch.no_grad():
        unwatched = two_steps()
        with gf.record(model):
            assert torch.equal(two_steps(), unwatched)


@every_scheme
@either_stack
@properties
@given(seeds, st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans(), head_counts, windows)
def test_recorded_weights_times_values_are_what_attention_mixed(positions, causal, seed, lengths, left, heads, windows):
    stack = make_stack(seed, positions, heads, windows, causal=causal, cross=True)
    keep = padding([*lengths, 5], left)
    x, memory = torch.randn(*keep.shape, 8), torch.randn(*keep.shape, 8)
    values, mixed = {}, {}
    for name in ("blocks.0.attn", "blocks.1.attn", "blocks.0.cross", "blocks.1.cross"):
        attention = stack.get_submodule(name)
        attention.v.register_forward_hook(lambda _, __, output, name=name: values.update({name: output}))
        attention.out.register_forward_pre_hook(lambda _, inputs, name=name: mixed.update({name: inputs[0]}))

    with torch.no_grad(), gf.record(stack) as seen:
        stack(x, keep=keep, memory=memory, memory_keep=keep.flip(1))

    assert seen.keys() == mixed.keys()
    for name, weights in seen.items():
        v = values[name].unflatten(2, (heads[1], 4)).repeat_interleave(heads[0] // heads[1], dim=2)
        assert_same(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2), mixed[name])
