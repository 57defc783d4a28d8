"""Norms are PyTorch's."""

import pytest
import torch
from helpers.parts import D, assert_same, randomised
from torch import nn

from glassformer.core.norms import LayerNorm, RMSNorm


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
    x = torch.full((1, D), 300.0, dtype=torch.float16)  # its square is past the end of float16
    assert_same(RMSNorm(D, eps=1e-6).half()(x), torch.ones_like(x))
