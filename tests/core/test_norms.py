"""Norms agree with PyTorch's, on whole vectors and on each head."""

import pytest
import torch
import torch.nn.functional as F
from helpers.parts import D, assert_same, randomised, stack_config
from torch import Tensor, nn

from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.stack import Stack


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (LayerNorm(D, eps=1e-3), nn.LayerNorm(D, eps=1e-3)),
        (LayerNorm(D, eps=1e-3, bias=False), nn.LayerNorm(D, eps=1e-3, bias=False)),
        (RMSNorm(D, eps=1e-3), nn.RMSNorm(D, eps=1e-3)),
    ],
    ids=["LayerNorm", "LayerNorm without bias", "RMSNorm"],
)
def test_norms_are_pytorchs(ours, theirs):
    theirs.load_state_dict(randomised(ours).state_dict())
    x, y = (torch.arange(6.0 * D).sin().view(2, 3, D).requires_grad_() for _ in range(2))
    wanted = torch.randn(2, 3, D)

    for norm, given in ((ours, x), (theirs, y)):
        (norm(given) * wanted).sum().backward()

    assert_same(ours(x), theirs(y))
    assert_same(x.grad, y.grad)
    for name, parameter in ours.named_parameters():
        assert_same(parameter.grad, theirs.get_parameter(name).grad)


def test_rms_norm_takes_the_mean_in_float32():
    x = torch.full((1, D), 300.0, dtype=torch.float16)  # its square overflows float16
    assert_same(RMSNorm(D, eps=1e-6).half()(x), torch.ones_like(x))


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
