"""Properties of the position schemes, at all lengths and widths."""

import pytest
import torch
from helpers.properties import (
    ADDED,
    IN_ATTENTION,
    assert_same,
    either_stack,
    head_counts,
    make_stack,
    properties,
    seeds,
)
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.core.positions import Sinusoidal, sinusoids


@properties
@given(st.integers(1, 16).map(lambda half: 2 * half), st.integers(0, 40))
def test_sinusoids_some_steps_on_are_a_linear_map(width, steps):
    """PE(pos + k) = PE(pos) M_k for every pos, where M_k rotates each pair (sin, cos) by k times its frequency."""
    table = sinusoids(100, width)
    turn = torch.zeros(width, width, dtype=torch.float64)
    for i in range(0, width, 2):
        angle = torch.tensor(steps / 10_000 ** (i / width), dtype=torch.float64)
        turn[i : i + 2, i : i + 2] = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)

    torch.testing.assert_close(table[: 100 - steps] @ turn, table[steps:], atol=1e-6, rtol=0)


@properties
@given(st.integers(1, 33), st.integers(1, 40))
def test_sinusoids_are_the_papers_formula_at_odd_widths_too(width, length):
    table = sinusoids(length, width)

    assert table.shape == (length, width)
    for column in range(width):
        angle = torch.arange(length, dtype=torch.float64) / 10_000 ** (column // 2 * 2 / width)
        expected = angle.cos() if column % 2 else angle.sin()
        torch.testing.assert_close(table[:, column].double(), expected, atol=1e-6, rtol=0)


@properties
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 60))
def test_the_sinusoidal_table_grows_past_max_len(width, max_len, position):
    scheme = Sinusoidal(width, max_len)

    placed = scheme(torch.tensor([[position]]), position + 1)

    assert torch.equal(placed[0, 0], sinusoids(61, width).float()[position])
    assert torch.equal(scheme.table[:max_len], sinusoids(max_len, width).float())
    assert not scheme.state_dict(), "the table is computed, so no checkpoint holds it"


def test_a_stack_grows_past_max_len_and_a_learned_one_says_so():
    x = torch.randn(1, 40, 8)  # max_len is 32
    assert make_stack(0, "sinusoidal", causal=True)(x).shape == x.shape
    assert make_stack(0, "sinusoidal", causal=True)(x[:, :1], positions=torch.tensor([[99]])).isfinite().all()
    with pytest.raises(gf.InputError, match="max_len = 32"):
        make_stack(0, "learned", causal=True)(x)


@pytest.mark.parametrize("positions", IN_ATTENTION)
@either_stack
@properties
@given(st.data(), seeds, st.integers(2, 8), st.integers(1, 50), head_counts)
def test_only_differences_of_positions_count(positions, causal, data, seed, length, shift, heads):
    stack = make_stack(seed, positions, heads, causal=causal)
    numbers = data.draw(st.lists(st.integers(0, 30), min_size=length, max_size=length, unique=True), label="positions")
    here = torch.tensor([sorted(numbers)])
    x = torch.randn(2, length, 8)

    with torch.no_grad():
        assert_same(stack(x, positions=here + shift), stack(x, positions=here))


@pytest.mark.parametrize("positions", [*ADDED, *IN_ATTENTION])
@either_stack
def test_every_scheme_tells_positions_apart(positions, causal):
    stack = make_stack(0, positions, causal=causal)
    x = torch.randn(2, 4, 8)

    near, far = (stack(x, positions=torch.tensor([numbers])) for numbers in ([0, 1, 2, 3], [0, 3, 9, 20]))

    assert not torch.allclose(near[:, -1], far[:, -1], atol=1e-2)
