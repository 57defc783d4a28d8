"""q, k and v computed at once are what they are one by one: the same outputs and gradients, to rounding."""

import copy

import torch

import glassformer as gf
from glassformer.core.attention import Attention
from glassformer.core.stack import Stack
from glassformer.training.joined import join_products

GROUPED = gf.StackConfig(
    d_model=12, num_layers=1, num_heads=6, num_kv_heads=2, head_dim=4, qk_norm=True, positions="rotary"
)


def test_joined_products_are_the_three() -> None:
    for bias in (True, False):
        torch.manual_seed(0)
        plain = Stack(GROUPED.replace(qkv_bias=bias), causal=True).double().train()
        joined = copy.deepcopy(plain)
        join_products(joined)
        x = torch.randn(2, 5, 12, dtype=torch.float64)
        found = []
        for stack in (plain, joined):
            output = stack(None, embeds=x)
            output.square().sum().backward()
            found.append([output.detach(), *(p.grad for p in stack.parameters())])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)


def test_an_evaluation_computes_them_one_by_one() -> None:
    """So that every watcher sees q, k and v, and an answer has the bits of the loaded model."""
    torch.manual_seed(0)
    plain = Stack(GROUPED, causal=True).eval()
    joined = copy.deepcopy(plain)
    join_products(joined)
    assert all(isinstance(block.attn, Attention) for block in joined.blocks)
    seen: list[torch.Size] = []
    joined.blocks[0].attn.q.register_forward_hook(lambda module, given, made: seen.append(made.shape))
    x = torch.randn(2, 5, 12)
    assert torch.equal(joined(None, embeds=x), plain(None, embeds=x))
    assert seen == [(2, 5, 24)]
