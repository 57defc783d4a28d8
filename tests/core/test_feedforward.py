"""The feed-forward layer computes its formula."""

import pytest
import torch
from helpers.parts import D, assert_same, randomised, stack_config
from torch import Tensor, nn

from glassformer.core.feedforward import FeedForward

ACTIVATIONS = {
    "relu": nn.ReLU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "quick_gelu": lambda x: x / (1 + (-1.702 * x).exp()),
    "relu_squared": lambda x: x.clamp(min=0) ** 2,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_feed_forward(activation, gated, bias):
    ffn = randomised(FeedForward(stack_config(activation=activation, gated=gated, ffn_bias=bias, d_ff=11)))
    weights = dict(ffn.named_parameters())

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)

    x = torch.randn(2, 3, D)
    act = ACTIVATIONS[activation]
    hidden = act(linear("gate", x)) * linear("up", x) if gated else act(linear("up", x))
    assert_same(ffn(x), linear("down", hidden))
