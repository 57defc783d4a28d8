"""Shapes, masks and position schemes for hypothesis to search for counterexamples."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

import glassformer as gf
from glassformer.core.cache import Cache
from glassformer.core.stack import Stack
from helpers.parts import randomised

ADDED, IN_ATTENTION = ["sinusoidal", "learned"], ["rotary", "relative", "alibi"]
every_scheme = pytest.mark.parametrize("positions", [*ADDED, *IN_ATTENTION, "none"])
either_stack = pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])

properties = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**16)
sizes = st.integers(1, 6)
head_counts = st.sampled_from([(1, 1), (2, 2), (4, 4), (4, 2), (3, 1)])  # heads, kv heads
windows = st.sampled_from([(None,), (1,), (3,), (2, None)])  # of consecutive layers


def stack_config(positions: str = "none", heads=(2, 2), windows=(None,), **choices) -> gf.StackConfig:
    num_heads, num_kv_heads = heads
    kinds = tuple(gf.LayerKind(window=window, rotary_base=50.0 * (i + 1)) for i, window in enumerate(windows))
    return gf.StackConfig(
        d_model=8, num_layers=2, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=4, d_ff=8, max_len=32,
        positions=positions, relative_buckets=8, relative_max_distance=12, layer_kinds=kinds, **choices,
    )  # fmt: skip


def make_stack(seed: int, *args, causal: bool, cross: bool = False, **choices) -> Stack:
    torch.manual_seed(seed)
    return randomised(Stack(stack_config(*args, **choices), causal=causal, cross=cross))


def make_model(seed: int, stack: gf.StackConfig, *, encoder: bool = False) -> gf.Transformer:
    torch.manual_seed(seed)
    config = gf.TransformerConfig(
        encoder=stack if encoder else None, decoder=stack, vocab_size=11, tie_embeddings=False, decoder_start_token_id=1
    )
    return randomised(gf.Transformer(config)).eval()


def padding(lengths: list[int], left: bool) -> Tensor:
    """True for each token of sequences of these lengths, padded to the longest."""
    index = torch.arange(max(lengths))
    if left:
        index = index.flip(0)
    return index < torch.tensor(lengths)[:, None]  # (B, T)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=2e-5)


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a loss that weights every number of the output differently."""
    weights = torch.linspace(-1, 1, output.numel()).view(output.shape)
    return torch.autograd.grad((output * weights).sum(), inputs, retain_graph=True)


def cuts(length: int) -> st.SearchStrategy[list[int]]:
    """The ends of the chunks into which a sequence is split."""
    return st.sets(st.integers(1, length)).map(lambda ends: sorted({*ends, length}))


def in_chunks(model: gf.Transformer, ids: Tensor, keep: Tensor | None, ends: list[int], cache: Cache) -> Tensor:
    """The logits of a decoder-only model that reads `ids` chunk by chunk, after the tokens in the cache."""
    logits, start = [], 0
    for end in ends:
        seen = None if keep is None else keep[:, : cache.length + end - start]
        logits.append(model(ids[:, start:end], seen, cache=cache).logits)
        start = end
    return torch.cat(logits, dim=1)
