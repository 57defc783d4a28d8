"""The feed-forward layer (section 3.3): a two-layer network applied to each position independently.

Plain as in the paper, or gated (GLU variants: Shazeer, 2020). It holds about two thirds of the parameters of a
block without cross-attention. Read next: `block.py`.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import Activation, StackConfig
from glassformer.core.layers import Linear


def relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": quick_gelu,
    "silu": F.silu,
    "relu_squared": relu_squared,
    "tanh": torch.tanh,
}


class FeedForward(nn.Module):
    """ffn(x) = act(x W_up) W_down, or gated: (act(x W_gate) * x W_up) W_down."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.up = Linear(config.d_model, config.d_ff, bias=config.ffn_bias)
        self.gate = Linear(config.d_model, config.d_ff, bias=config.ffn_bias) if config.gated else None
        self.down = Linear(config.d_ff, config.d_model, bias=config.ffn_bias)
        self.activate = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.ffn_dropout)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x)  # (B, T, F)
        hidden = self.activate(hidden) if self.gate is None else self.activate(self.gate(x)) * hidden  # (B, T, F)
        return self.down(self.dropout(hidden))  # (B, T, D)
