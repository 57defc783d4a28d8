"""How a Transformer knows order. Attention alone does not: without one of these, a shuffled input is a shuffled output.

Added to x:           Sinusoidal (Vaswani et al., 2017), Learned (Gehring et al., 2017)
Turning q and k:      Rotary (Su et al., 2021)
Added to the scores:  RelativeBias (T5: Raffel et al., 2020), Alibi (Press et al., 2022)

Every scheme is a function of position numbers that somebody else counted (`context.py`), so it works the same with a
cache, with padding on either side, and with positions the caller chose. Read next: `context.py`.
"""

import math
from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import LayerKind, StackConfig
from glassformer.errors import InputError


class Sinusoidal(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same angle). Not trained; grows on demand."""

    table: Tensor

    def __init__(self, width: int, max_len: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(max_len, width).to(torch.get_default_dtype()), persistent=False)

    def forward(self, positions: Tensor, span: int) -> Tensor:
        if span > len(self.table):
            self.table = sinusoids(max(span, 2 * len(self.table)), self.table.shape[1]).to(self.table)
        return F.embedding(positions, self.table)  # (B, T, E)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """On the way to another device or dtype the table is made anew: it is a formula, not something to round."""
        super()._apply(fn, recurse)
        if self.table.device.type != "meta":
            self.table = sinusoids(*self.table.shape).to(self.table)
        return self


def sinusoids(length: int, width: int) -> Tensor:
    """The table of the paper's section 3.5, in float64; an odd width ends on a sine without its cosine."""
    position = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]  # (L, 1)
    pair = torch.arange(0, width, 2, dtype=torch.float64, device="cpu")
    angle = position * torch.exp(pair * (-math.log(10_000.0) / width))
    table = torch.empty(length, width, dtype=torch.float64, device="cpu")  # (L, W)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : width // 2]
    return table  # (L, W)


class Learned(nn.Module):
    """PE(pos) = a trained row of a table with max_len rows; there is nothing past its end."""

    def __init__(self, width: int, max_len: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(max_len, width))

    def forward(self, positions: Tensor, span: int) -> Tensor:
        rows = len(self.weight)
        if span > rows and int(positions.max()) >= rows:
            raise InputError(
                f"a sequence of {int(positions.max()) + 1} positions does not fit a learned table of max_len = {rows}. "
                f"Shorten it to {rows}, or use a model with positions that have no end, such as 'rotary'"
            )
        return F.embedding(positions, self.weight)  # (B, T, E)


class Rotary(nn.Module):
    """Turns pair i of a head by the angle pos / base^(2i/R): q.k then depends on the distance of the two alone.

    A pair is (i, i + R/2). The dimensions from R on, if any, stay as they are.
    """

    def __init__(self, config: StackConfig, kind: LayerKind) -> None:
        super().__init__()
        self.dim, self.base, self.factor = config.rotary_dim, kind.rotary_base, kind.rotary_factor

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The cosine and sine for these positions, ready for `rotate`."""
        pair = torch.arange(0, self.dim, 2, device=positions.device, dtype=torch.float32)
        frequency = 1.0 / self.base ** (pair / self.dim) / self.factor  # (R/2)
        angle = positions[..., None] * frequency  # (B, T, R/2)
        angle = torch.cat([angle, angle], dim=-1)[:, None]  # (B, 1, T, R)
        return angle.cos(), angle.sin()  # (B, 1, T, R), (B, 1, T, R)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turns the first R dimensions of every head's vectors: x cos + (x turned by a right angle) sin."""
    cos, sin = (part.to(x.dtype) for part in rotation)
    turning, still = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]  # (B, ..., T, R), (B, ..., T, K-R)
    first, second = turning.chunk(2, dim=-1)  # (B, ..., T, R/2), (B, ..., T, R/2)
    turned = turning * cos + torch.cat([-second, first], dim=-1) * sin  # (B, ..., T, R)
    return torch.cat([turned, still], dim=-1)  # (B, ..., T, K)


class RelativeBias(nn.Module):
    """bias[h, i, j] = table[bucket(j - i), h]: near distances exactly, far ones in ever wider buckets."""

    def __init__(self, config: StackConfig, causal: bool) -> None:
        super().__init__()
        self.buckets, self.max_distance, self.causal = config.relative_buckets, config.relative_max_distance, causal
        self.weight = nn.Parameter(torch.zeros(config.relative_buckets, config.num_heads))

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = key_positions[:, None, :] - query_positions[:, :, None]  # (B, T, S)
        bias = F.embedding(self.bucket(distance), self.weight)  # (B, T, S, H)
        return bias.permute(0, 3, 1, 2)  # (B, H, T, S)

    def bucket(self, distance: Tensor) -> Tensor:
        """Half of the buckets hold one distance each, the others grow logarithmically up to max_distance.

        An encoder spends half of them on keys to the right; a causal stack never sees those.
        """
        buckets, offset = self.buckets, torch.zeros_like(distance)
        if self.causal:
            back = (-distance).clamp(min=0)
        else:
            buckets //= 2
            offset = (distance > 0) * buckets
            back = distance.abs()
        exact = buckets // 2
        growth = torch.log(back.clamp(min=1) / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return offset + torch.where(back < exact, back, far)  # (B, T, S)


class Alibi(nn.Module):
    """bias[h, i, j] = -slope[h] |i - j|: each head forgets with distance, at its own fixed rate."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = key_positions[:, None, :] - query_positions[:, :, None]  # (B, T, S)
        slope = alibi_slopes(self.num_heads).to(distance.device)  # (H)
        return -slope[:, None, None] * distance.abs()[:, None]  # (B, H, T, S)


def alibi_slopes(num_heads: int) -> Tensor:
    """2^(-8h/H) for h = 1..H. A number that is no power of two takes every other slope of the next for the rest."""
    whole = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (h + 1) / whole) for h in range(whole)]
    between = [2 ** (-8 * (h + 1) / (2 * whole)) for h in range(0, 2 * whole, 2)]
    return torch.tensor(slopes + between[: num_heads - whole])  # (H)


def make_added(config: StackConfig, width: int, length: int) -> Sinusoidal | Learned | None:
    """The scheme that is added to x, if the stack has one."""
    if config.positions == "sinusoidal":
        return Sinusoidal(width, length)
    return Learned(width, length) if config.positions == "learned" else None


def make_bias(config: StackConfig, causal: bool) -> RelativeBias | Alibi | None:
    """The scheme that is added to the scores, if the stack has one; its table belongs to the whole stack."""
    if config.positions == "relative":
        return RelativeBias(config, causal)
    return Alibi(config) if config.positions == "alibi" else None
