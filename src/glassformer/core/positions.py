"""Position encodings. Attention itself ignores order: without positions, shuffling the input only shuffles the output.

Added to x:           Sinusoidal (Vaswani et al., 2017), Learned (Gehring et al., 2017)
Rotating q and k:     Rotary (Su et al., 2021)
Added to the scores:  RelativeBias (T5: Raffel et al., 2020), Alibi (Press et al., 2022)

Every scheme is a function of given position numbers (`count_positions`), so it works the same with a cache, with
padding on either side, and with positions chosen by the caller. Read next: `context.py`.
"""

import math
from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import LayerKind, RotaryScaling, StackConfig
from glassformer.errors import InputError


class Sinusoidal(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same angle). Not trained; grows on demand.

    On the meta device the table has no values. It is computed when the module is moved, or called with real positions.
    """

    table: Tensor

    def __init__(self, width: int, max_len: int, *, layout: str = "interleaved", offset: int = 0) -> None:
        super().__init__()
        self.layout, self.offset = layout, offset
        self.register_buffer("table", self.make_table(max_len + offset, torch.empty(0, width)), persistent=False)

    def forward(self, positions: Tensor, span: int) -> Tensor:
        length, needed = len(self.table), span + self.offset
        if needed > length or (self.table.is_meta and not positions.is_meta):
            like = torch.empty_like(self.table[:0], device=positions.device)
            self.table = self.make_table(max(needed, 2 * length) if needed > length else length, like)
        return F.embedding(positions + self.offset, self.table)  # (B, T, E)

    def make_table(self, length: int, like: Tensor) -> Tensor:
        """The first `length` rows, with the width, dtype and device of `like`."""
        width = like.shape[1]
        return like.new_empty(length, width) if like.is_meta else sinusoids(length, width, self.layout).to(like)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Recomputes the table for another device or dtype: converting it back and forth would round it."""
        empty = self.table[:0]
        try:
            like = fn(empty)
        except NotImplementedError:  # a meta tensor cannot be copied
            like = fn(torch.empty_like(empty, device="cpu"))
        self.table = self.make_table(len(self.table), like)
        return self


def sinusoids(length: int, width: int, layout: str = "interleaved") -> Tensor:
    """The table of section 3.5, in float64. With an odd width, the last sine has no cosine.

    "halves": all sines, then all cosines. "closed_halves": the same, and the last angle is pos / 10000 exactly.
    """
    position = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]  # (L, 1)
    pair = torch.arange(0, width, 2, dtype=torch.float64, device="cpu")
    if layout == "closed_halves":
        angle = position * torch.exp(pair[: width // 2] * (-math.log(10_000.0) / max(1, width - width % 2 - 2)))
        return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, width % 2))  # (L, W)
    angle = position * torch.exp(pair * (-math.log(10_000.0) / width))
    if layout == "halves":
        return torch.cat([angle.sin(), angle.cos()[:, : width // 2]], dim=1)  # (L, W)
    table = torch.empty(length, width, dtype=torch.float64, device="cpu")  # (L, W)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : width // 2]
    return table  # (L, W)


class Learned(nn.Module):
    """PE(pos) = weight[pos], a trained table of max_len rows; a longer sequence is refused."""

    def __init__(self, width: int, max_len: int, *, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset  # rows before that of position 0
        self.weight = nn.Parameter(torch.zeros(max_len + offset, width))

    def forward(self, positions: Tensor, span: int) -> Tensor:
        rows = len(self.weight) - self.offset
        if span > rows and int(positions.max()) >= rows:
            raise InputError(
                f"a sequence of {int(positions.max()) + 1} positions does not fit a learned table of max_len = {rows}. "
                f"Shorten it to {rows}, or use a model whose positions have no limit, such as 'rotary'"
            )
        return F.embedding(positions + self.offset, self.weight)  # (B, T, E)


class Rotary(nn.Module):
    """Rotates pair i of a head by the angle pos / base^(2i/R), so that q.k depends on relative position only.

    Pair i is the dimensions (i, i + R/2). Dimensions from R on are not rotated.
    """

    def __init__(self, config: StackConfig, kind: LayerKind) -> None:
        super().__init__()
        self.dim, self.base, self.scaling = config.rotary_dim, kind.rotary_base, kind.rotary_scaling

    def forward(self, positions: Tensor, span: int) -> tuple[Tensor, Tensor]:
        """The cosines and sines for `rotate`. All positions are below `span`."""
        frequency = rotary_frequencies(self.dim, self.base, self.scaling, span).to(positions.device)  # (R/2)
        angle = positions[..., None] * frequency  # (B, T, R/2)
        angle = torch.cat([angle, angle], dim=-1)[:, None]  # (B, 1, T, R)
        amplitude = self.scaling.amplitude if self.scaling else 1.0
        return angle.cos() * amplitude, angle.sin() * amplitude  # (B, 1, T, R), (B, 1, T, R)


def rotary_frequencies(dim: int, base: float, scaling: RotaryScaling | None, span: int) -> Tensor:
    """base^(-2i/R) for pair i, scaled by `RotaryScaling` for sequences longer than in training."""
    pair = torch.arange(0, dim, 2, dtype=torch.float32, device="cpu")  # (R/2)
    if scaling is None:
        return 1.0 / base ** (pair / dim)  # (R/2)
    factor, trained = scaling.factor, scaling.trained_len
    if scaling.type == "dynamic":
        stretch = factor * max(span, trained) / trained - (factor - 1)
        return 1.0 / (base * stretch ** (dim / (dim - 2))) ** (pair / dim)  # (R/2)
    plain = 1.0 / base ** (pair / dim)  # (R/2)
    if scaling.type == "linear":
        return plain / factor  # (R/2)
    if scaling.type == "longrope":
        return plain / torch.tensor(scaling.long_factors if span > trained else scaling.short_factors)  # (R/2)
    if scaling.type == "llama3":
        turns = trained * plain / (2 * math.pi)  # full rotations of each pair over trained_len
        low, high = scaling.low_frequency, scaling.high_frequency
        kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)  # (R/2)
    else:
        first, last = (
            dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))  # the pair with this many turns
            for turns in (scaling.fast_turns, scaling.slow_turns)
        )
        if scaling.whole_pairs:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, dim - 1)
        last = last + 0.001 if first == last else last
        kept = 1.0 - ((pair / 2 - first) / (last - first)).clamp(0.0, 1.0)  # (R/2)
    return plain / factor * (1.0 - kept) + plain * kept  # (R/2)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """x cos + rotate_90(x) sin on the first R dimensions of every head, where rotate_90(a, b) = (-b, a)."""
    cos, sin = (part.to(x.dtype) for part in rotation)
    turning, still = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]  # (B, ..., T, R), (B, ..., T, K-R)
    first, second = turning.chunk(2, dim=-1)  # (B, ..., T, R/2), (B, ..., T, R/2)
    turned = turning * cos + torch.cat([-second, first], dim=-1) * sin  # (B, ..., T, R)
    return torch.cat([turned, still], dim=-1)  # (B, ..., T, K)


class RelativeBias(nn.Module):
    """bias[h, i, j] = weight[bucket(j - i), h]: one bucket per short distance, wider buckets for long ones."""

    def __init__(self, config: StackConfig, causal: bool) -> None:
        super().__init__()
        self.buckets, self.max_distance, self.causal = config.relative_buckets, config.relative_max_distance, causal
        self.weight = nn.Parameter(torch.zeros(config.relative_buckets, config.num_heads))

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = key_positions[:, None, :] - query_positions[:, :, None]  # (B, T, S)
        bias = F.embedding(self.bucket(distance), self.weight)  # (B, T, S, H)
        return bias.permute(0, 3, 1, 2)  # (B, H, T, S)

    def bucket(self, distance: Tensor) -> Tensor:
        """Half of the buckets hold one distance each; the others grow logarithmically up to max_distance.

        An encoder uses half of all buckets for keys to the right, which a causal stack never attends to.
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
    """bias[h, i, j] = -slope[h] |i - j|: a fixed penalty on distance, with a different slope per head."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = key_positions[:, None, :] - query_positions[:, :, None]  # (B, T, S)
        slope = alibi_slopes(self.num_heads).to(distance.device)  # (H)
        return -slope[:, None, None] * distance.abs()[:, None]  # (B, H, T, S)


def alibi_slopes(num_heads: int) -> Tensor:
    """2^(-8h/H) for h = 1..H. If H is not a power of two: all slopes of the one below, then every other of the next."""
    below = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (h + 1) / below) for h in range(below)]
    between = [2 ** (-8 * (h + 1) / (2 * below)) for h in range(0, 2 * below, 2)]
    return torch.tensor(slopes + between[: num_heads - below])  # (H)


def make_added_positions(config: StackConfig, width: int, length: int) -> Sinusoidal | Learned | None:
    """The position encoding that is added to x, if the stack has one."""
    if config.positions == "sinusoidal":
        return Sinusoidal(width, length, layout=config.sinusoids, offset=config.position_offset)
    return Learned(width, length, offset=config.position_offset) if config.positions == "learned" else None


def make_position_bias(config: StackConfig, causal: bool) -> RelativeBias | Alibi | None:
    """The position bias that is added to the scores, if the stack has one. All layers share it."""
    if config.positions == "relative":
        return RelativeBias(config, causal)
    return Alibi(config) if config.positions == "alibi" else None
