"""The two norms: LayerNorm (Ba et al., 2016) centres and scales, RMSNorm (Zhang and Sennrich, 2019) only scales.

Read next: `block.py`, which decides where in a block the norms go (pre, post, sandwich).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import StackConfig


class LayerNorm(nn.Module):
    """y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, over the last axis."""

    def __init__(self, width: int, eps: float, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))  # (W)
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)  # (..., W)


class RMSNorm(nn.Module):
    """y = x / sqrt(mean(x^2) + eps) * weight, over the last axis; the mean is computed in float32 or float64.

    With `offset`, the factor is 1 + weight, also in float32: weights near 0 lose less to rounding than near 1.
    """

    def __init__(self, width: int, eps: float, offset: bool = False) -> None:
        super().__init__()
        self.eps, self.offset = eps, offset
        self.weight = nn.Parameter(torch.zeros(width) if offset else torch.ones(width))  # (W)

    def forward(self, x: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)  # (..., 1)
        if self.offset:
            return (wide * scale * (1.0 + self.weight.to(wide.dtype))).to(x.dtype)  # (..., W)
        return (wide * scale).to(x.dtype) * self.weight  # (..., W)


def make_norm(config: StackConfig, width: int) -> LayerNorm | RMSNorm:
    """The norm of the stack's config, for vectors of this width: the residual stream, a head or an embedding."""
    if config.norm != "layer":
        return RMSNorm(width, config.norm_eps, offset=config.norm == "rms_offset")
    return LayerNorm(width, config.norm_eps, config.norm_bias)
