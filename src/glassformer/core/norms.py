"""The two norms: LayerNorm (Ba et al., 2016) centres and scales, RMSNorm (Zhang and Sennrich, 2019) only scales.

Where a norm stands in a block (pre, post, sandwich) is not decided here: read `block.py` next.
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
    """y = x / sqrt(mean(x^2) + eps) * weight, over the last axis; the mean is taken in float32 at least.

    With `offset` it is multiplied by 1 + weight, so that weights near 0 are rounded little; in float32 too.
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
    """The norm a stack asks for, at the width of whatever is normed: the stream, a head, an embedding."""
    if config.norm != "layer":
        return RMSNorm(width, config.norm_eps, offset=config.norm == "rms_offset")
    return LayerNorm(width, config.norm_eps, config.norm_bias)
