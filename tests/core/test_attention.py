"""Attention is its formula: a norm of each head."""

import pytest
import torch
import torch.nn.functional as F
from helpers.parts import D, assert_same, randomised, stack_config
from torch import Tensor, nn

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
