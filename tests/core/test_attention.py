"""Attention is its formula: a norm of each head, and three products computed as one."""

import pytest
import torch
import torch.nn.functional as F
from helpers.parts import D, assert_same, randomised, stack_config
from torch import Tensor, nn

import glassformer as gf
from glassformer.core.stack import Stack


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_qk_norm_is_a_norm_of_each_head(norm):
    stack = randomised(Stack(stack_config(qk_norm=True, norm=norm), causal=False))
    attention = stack.blocks[0].attn
    x = torch.randn(2, 3, D)
    theirs = {"layer": F.layer_norm, "rms": F.rms_norm}[norm]

    def heads(layer: nn.Linear, normed_by: nn.Module | None = None) -> Tensor:
        y = layer(x).view(2, 3, 2, D // 2)
        return y if normed_by is None else theirs(y, (D // 2,), **dict(normed_by.named_parameters()), eps=1e-5)

    q, k, v = heads(attention.q, attention.q_norm), heads(attention.k, attention.k_norm), heads(attention.v)
    weights = (torch.einsum("bthk,bshk->bhts", q, k) / (D // 2) ** 0.5).softmax(-1)
    mixed = torch.einsum("bhts,bshk->bthk", weights, v).flatten(2)
    assert_same(
        attention(x, stack.context(x, *stack.counted(x, None, None, None, None), None, None, None), layer=0),
        attention.out(mixed),
    )


def test_joined_products_are_the_three() -> None:
    """The training loop computes q, k and v at once: the same outputs and gradients."""
    for bias in (True, False):
        config = gf.StackConfig(
            d_model=12,
            num_layers=1,
            num_heads=6,
            num_kv_heads=2,
            head_dim=4,
            qkv_bias=bias,
            qk_norm=True,
            positions="rotary",
        )
        torch.manual_seed(0)
        stack = Stack(config, causal=True).double().train()
        x = torch.randn(2, 5, 12, dtype=torch.float64)
        found = []
        for joined in (False, True):
            stack.blocks[0].attn.joined = joined
            stack.zero_grad()
            output = stack(None, embeds=x)
            output.square().sum().backward()
            found.append([output.detach(), *(p.grad.clone() for p in stack.parameters())])
        for plain, together in zip(*found, strict=True):
            torch.testing.assert_close(together, plain, rtol=1e-12, atol=1e-12)
