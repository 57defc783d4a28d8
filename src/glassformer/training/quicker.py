"""Speed-ups for training. They compute the same functions as the core, or dropout with the same distribution.

products        of linear layers by oneDNN, on an AMD processor with AVX-512: twice as fast as MKL
q, k and v      one product instead of three: a tenth less time for a small model
dropout         masks of 16 random bits per value, on a CPU: a quarter of the time of PyTorch's dropout
cross-entropy   in parts that fit the cache, on a CPU: two tensors of the size of the logits instead of six
memory          freed memory stays with the process until the training ends
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from glassformer.core.attention import Attention
from glassformer.core.layers import Linear

LEAST = 2**21  # multiplications of a product that oneDNN computes: with fewer, MKL is as fast
PART = 2**17  # logits in a part of the cross-entropy: half a megabyte
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's `mallopt`


def speed_up(model: nn.Module, *, compiled: bool = False) -> None:
    """Replaces the attention, linear layers and dropout of a model in place; the parameters stay the same objects.

    A compiled model keeps its linear layers and its dropout, because the compiler has its own.
    """
    for module in model.modules():
        if isinstance(module, Attention):
            module.__class__ = JoinedAttention
        elif type(module) is Linear and not compiled and is_onednn_faster():
            module.__class__ = FastLinear
        elif type(module) is nn.Dropout and not compiled:
            module.__class__ = FastDropout


class JoinedAttention(Attention):
    """Attention with one product for q, k and v. Hooks on the single projections run in evaluation only."""

    def products(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not self.training:
            return super().products(x)
        layers = (self.q, self.k, self.v)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if self.q.bias is None else torch.cat([layer.bias for layer in layers])
        product = linear if isinstance(self.q, FastLinear) else F.linear
        q, k, v = product(x, weight, bias).split([layer.out_features for layer in layers], dim=-1)
        return q, k, v


@cache
def is_onednn_faster() -> bool:
    """Whether oneDNN uses wider instructions than MKL, which runs its AVX2 code on every AMD processor."""
    info = Path("/proc/cpuinfo")
    if not torch.backends.mkldnn.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    return info.exists() and "AuthenticAMD" in info.read_text(encoding="utf-8", errors="replace")


class FastLinear(Linear):
    """A linear layer whose products oneDNN computes in training. In evaluation it is the plain layer, bit for bit."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias) if self.training else super().forward(x)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b, by oneDNN if the product is large and in float32 on a CPU."""
    plain = x.dtype == weight.dtype == torch.float32 and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    if not plain or x.shape[:-1].numel() * weight.numel() < LEAST:
        return F.linear(x, weight, bias)
    rows: Tensor = LinearProduct.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    return rows.view(*x.shape[:-1], len(weight))


class LinearProduct(torch.autograd.Function):
    """y = x W^T + b, with gradients g W, g^T x and the sum of the rows of g."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return times(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x, to_weight, to_bias = ctx.needs_input_grad
        wide = weight.shape[0] > weight.shape[1]  # oneDNN is faster if the longer side comes second
        return (
            times(slope, weight.t()) if to_x else None,
            (times(x.t(), slope.t()).t() if wide else times(slope.t(), x.t())).contiguous() if to_weight else None,
            slope.sum(dim=0) if to_bias else None,
        )


def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


class FastDropout(nn.Dropout):
    """x * mask / (1 - p). A value is dropped if its 16 random bits are below p, so p is exact to 1 / 65,536."""

    def forward(self, x: Tensor) -> Tensor:
        dropped = round(self.p * 2**16)
        if not self.training or x.device.type != "cpu" or not 0 < dropped < 2**16:
            return super().forward(x)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # 64 bits each
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # -32,768 to 32,767
        mask = bits.to(x.dtype if x.dtype == torch.float64 else torch.float32).ge_(dropped - 2**15)
        return x * mask.mul_(2**16 / (2**16 - dropped)).to(x.dtype)


class CrossEntropy(torch.autograd.Function):
    """The sum of `F.cross_entropy` over rows of logits, on a CPU.

    loss      log sum exp(z) - (1 - smoothing) z[label] - smoothing mean(z)
    gradient  softmax(z) - (1 - smoothing) onehot(label) - smoothing / V
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, ignore: int, smoothing: float) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        kept = labels != ignore
        chosen = labels.masked_fill(~kept, 0)[:, None]
        logsums = torch.empty(len(logits), dtype=wide)
        means = torch.zeros(len(logits), dtype=wide)
        for rows in parts_of(logits):
            part = logits[rows].to(wide)
            torch.logsumexp(part, dim=-1, out=logsums[rows])
            if smoothing:
                means[rows] = part.mean(dim=-1)
        ctx.save_for_backward(logits, chosen, kept, logsums)
        ctx.smoothing = smoothing
        right = logits.gather(-1, chosen)[:, 0].to(wide)
        return (logsums - (1 - smoothing) * right - smoothing * means)[kept].sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None]:
        logits, chosen, kept, logsums = ctx.saved_tensors
        slopes = (kept * slope)[:, None]  # 0 for ignored rows
        gradient = torch.empty_like(logits)
        for rows in parts_of(logits):
            part = (logits[rows].to(logsums.dtype) - logsums[rows, None]).exp_().sub_(ctx.smoothing / logits.shape[-1])
            part.scatter_add_(-1, chosen[rows], part.new_full((len(part), 1), ctx.smoothing - 1))
            gradient[rows] = part.mul_(slopes[rows])
        return gradient, None, None, None


def cross_entropy(logits: Tensor, labels: Tensor, *, ignore: int, smoothing: float) -> Tensor:
    """The cross-entropy of rows of logits, summed over the labels that are not `ignore`."""
    if logits.device.type != "cpu":
        return F.cross_entropy(logits, labels, ignore_index=ignore, reduction="sum", label_smoothing=smoothing)
    loss: Tensor = CrossEntropy.apply(logits, labels, ignore, smoothing)
    return loss


def parts_of(logits: Tensor) -> Iterator[slice]:
    rows = max(1, PART // logits.shape[-1])
    return (slice(start, start + rows) for start in range(0, len(logits), rows))


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Inside, memory freed by tensors stays with the process for reuse. By default glibc returns large blocks to the
    system at once, and allocating them again costs a translation model a third of each step.

    Does nothing if the C library is not glibc.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 2**31 - 1)
        ctypes.CDLL(None).mallopt(TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 2**25)  # the value glibc itself adapts to for such blocks
            ctypes.CDLL(None).mallopt(TRIM_THRESHOLD, 2**26)
            ctypes.CDLL(None).malloc_trim(0)
