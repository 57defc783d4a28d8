"""Masks: causality, padding, windows by layer, and documents packed in a row."""

from unittest.mock import patch

import pytest
import torch
from helpers.properties import (
    assert_same,
    either_stack,
    every_scheme,
    gradients,
    head_counts,
    make_model,
    make_stack,
    padding,
    properties,
    randomised,
    seeds,
    stack_config,
    windows,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import glassformer as gf
from glassformer.core.stack import Stack


@every_scheme
@either_stack
@properties
@given(seeds, st.lists(st.integers(0, 5), min_size=1, max_size=3), st.booleans(), head_counts, windows)
def test_a_sequence_of_padding_alone_harms_nobody(positions, causal, seed, lengths, left, heads, windows):
    stack = make_stack(seed, positions, heads, windows, causal=causal)
    keep = padding([*lengths, 5, 0], left)  # the last sequence has no token at all
    x = torch.randn(*keep.shape, 8, requires_grad=True)

    with gf.record(stack) as seen:
        output = stack(x, keep=keep)

    assert output.isfinite().all()
    assert all((weights[-1] == 0).all() for weights in seen.values())
    assert_same(output[:-1][keep[:-1]], stack(x[:-1], keep=keep[:-1])[keep[:-1]])
    for gradient in gradients(stack(x, keep=keep), x, *stack.parameters()):
        assert gradient.isfinite().all()


@every_scheme
@properties
@given(st.data(), seeds, st.integers(2, 8), head_counts, windows)
def test_no_future_token_changes_an_earlier_output(positions, data, seed, length, heads, windows):
    stack = make_stack(seed, positions, heads, windows, causal=True)
    now = data.draw(st.integers(1, length - 1), label="now")
    x = torch.randn(2, length, 8)
    other = torch.cat([x[:, :now], torch.randn(2, length - now, 8)], dim=1)

    with torch.no_grad():
        before, after = stack(x), stack(other)

    assert_same(after[:, :now], before[:, :now])
    assert not torch.allclose(after[:, now:], before[:, now:], atol=1e-3)


@every_scheme
@either_stack
@pytest.mark.parametrize("side", ["left", "right", "in between"])
@properties
@given(seeds, st.lists(st.integers(1, 7), min_size=1, max_size=3), head_counts, windows)
def test_padding_changes_nothing(positions, causal, side, seed, lengths, heads, windows):
    """A sequence gives the same vectors alone and in a batch padded with random values."""
    stack = make_stack(seed, positions, heads, windows, causal=causal)
    keep = padding([*lengths, 7], left=side == "left")
    if side == "in between":
        keep = torch.stack([row[torch.randperm(7)] for row in keep])
    x = torch.randn(*keep.shape, 8) * 3

    with torch.no_grad():
        together = stack(x, keep=keep)
        for i, kept in enumerate(keep):
            assert_same(together[i, kept], stack(x[i : i + 1, kept])[0])


@either_stack
@properties
@given(seeds, st.lists(st.integers(1, 5), min_size=1, max_size=3), st.booleans())
def test_padding_of_the_source_changes_nothing(causal, seed, lengths, left):
    stack = make_stack(seed, "sinusoidal", causal=causal, cross=True)
    keep = padding(lengths, left)
    x, memory = torch.randn(len(keep), 3, 8), torch.randn(*keep.shape, 8) * 3

    with torch.no_grad():
        together = stack(x, memory=memory, memory_keep=keep)
        for i, kept in enumerate(keep):
            assert_same(together[i], stack(x[i : i + 1], memory=memory[i : i + 1, kept])[0])


@pytest.mark.parametrize("norm_order", ["pre", "post", "sandwich"])
@properties
@given(seeds, st.permutations(range(6)), head_counts)
def test_without_positions_the_encoder_is_permutation_equivariant(norm_order, seed, order, heads):
    stack = make_stack(seed, heads=heads, norm_order=norm_order, causal=False)
    x = torch.randn(2, 6, 8)

    with torch.no_grad():
        assert_same(stack(x[:, order]), stack(x)[:, order])


def test_kinds_of_layers_take_turns():
    """A pattern of two kinds over three layers: windows 1, all, 1, and a different rotary base for each kind."""
    near, far = gf.LayerKind(window=1, rotary_base=50.0), gf.LayerKind(rotary_base=9.0)
    config = stack_config("rotary", final_norm=False).replace(num_layers=3, layer_kinds=(near, far))
    torch.manual_seed(0)
    stack = randomised(Stack(config, causal=True))
    x = torch.randn(2, 5, 8)

    with torch.no_grad(), gf.record(stack) as seen:
        output = stack(x)

    seen_by_the_last = [(seen[f"blocks.{layer}.attn"][:, :, -1] > 0).sum(-1).max().item() for layer in range(3)]
    assert seen_by_the_last == [1, 5, 1]
    with torch.no_grad():
        for layer, kind in enumerate((near, far, near)):
            alone = Stack(config.replace(num_layers=1, layer_kinds=(kind,)), causal=True)
            alone.blocks[0] = stack.blocks[layer]
            x = alone(x)
    assert_same(output, x)


def packed(lengths: list[int], padded: bool) -> tuple[Tensor, Tensor | None]:
    """The document of each token, and the padding mask; with padding before, between and after the documents."""
    gap = 2 if padded else 0
    places = [(number, True) for number, length in enumerate(lengths) for _ in range(length)]
    for number in range(len(lengths), -1, -1):
        places[sum(lengths[:number]) : sum(lengths[:number])] = [(99, False)] * gap
    documents, keep = zip(*places, strict=True)
    return torch.tensor([documents]), torch.tensor([keep]) if padded else None


@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("tile", [2**25, 20], ids=["whole", "tiles"])
@every_scheme
@either_stack
@settings(properties, max_examples=8)
@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=4), head_counts, windows, st.booleans())
def test_a_packed_row_is_its_documents_alone(causal, positions, tile, padded, seed, lengths, heads, windows, capped):
    """On every path: the fused kernel or, with a cap, the explicit formula; whole or in tiles; with any window."""
    stack = make_stack(seed, positions, heads, windows, causal=causal, score_cap=2.0 if capped else None)
    documents, keep = packed(lengths, padded)
    x = torch.randn(1, documents.shape[1], 8, requires_grad=True)
    alone = [stack(x[documents == number][None]) for number in range(len(lengths))]

    with patch("glassformer.core.context.TILE", tile):
        output = stack(x, keep=keep, documents=documents)
        found = gradients(output, x, *stack.parameters())

    kept = output if keep is None else output[keep][None]
    torch.testing.assert_close(kept, torch.cat(alone, dim=1), atol=1e-5, rtol=1e-5)
    assert all(gradient.isfinite().all() for gradient in found)


def test_the_loss_of_a_packed_row_is_that_of_its_documents():
    model = make_model(0, stack_config("rotary"))
    ids, documents = torch.randint(0, 11, (1, 9)), torch.tensor([[4] * 5 + [7] * 4])

    together = model(ids, documents=documents, labels=ids).loss

    first, second = (model(part, labels=part).loss for part in (ids[:, :5], ids[:, 5:]))
    assert_same(together, (4 * first + 3 * second) / 7)


def test_a_watcher_sees_the_documents_apart():
    stack = make_stack(0, "rotary", causal=False)
    with torch.no_grad(), gf.record(stack) as seen:
        stack(torch.randn(1, 5, 8), documents=torch.tensor([[0, 0, 1, 1, 1]]))
    assert (seen["blocks.0.attn"][:, :, :2, 2:] == 0).all()
    assert (seen["blocks.0.attn"][:, :, 2:, 2:] > 0).all()


def test_stretched_angles_follow_the_longest_document():
    """Rotary scaling depends on the length of the longest document, not of the packed row."""
    scaling = gf.RotaryScaling(type="dynamic", factor=2.0, trained_len=5)
    config = stack_config("rotary").replace(layer_kinds=(gf.LayerKind(rotary_scaling=scaling),))
    torch.manual_seed(0)
    stack, x = randomised(Stack(config, causal=True)), torch.randn(1, 9, 8)
    together = stack(x, documents=torch.tensor([[0] * 4 + [1] * 5]))
    assert_same(together, torch.cat([stack(x[:, :4]), stack(x[:, 4:])], dim=1))
