"""Attention as bytes: one head of one layer, or all heads as small maps, computed when asked for.

What is kept of a pass is q, k, v and the mask as factors, which grows with the length. The weights, which grow with its
square, are computed a block of rows at a time, and leave as 8 bits each. The square root is stored, so that small
weights keep more steps: weight = largest * (byte / 255) ** (1 / power) with a power of 1/2.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core.attention import attention_scores, attention_weights
from glassformer.core.context import Mask
from glassformer.explore.view.bounds import check_time

POWER = 0.5
SMALL = 64  # rows and columns of a small map
BLOCK = 2**22  # scores that are computed at a time


@dataclass(frozen=True)
class Layer:
    """What one attention layer computed its weights from, of one row of the batch."""

    q: Tensor  # (1, H, T, K)
    k: Tensor  # (1, G, S, K)
    v: Tensor  # (1, G, S, K)
    mask: Mask
    row: int  # of the batch, which the mask is for as a whole
    scale: float
    cap: float | None

    @property
    def num_heads(self) -> int:
        return self.q.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """Queries and keys."""
        return self.q.shape[2], self.k.shape[2]

    @property
    def bytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in (self.q, self.k, self.v))

    def kv_head(self, head: int) -> int:
        """Which keys and values a head reads, where several share them."""
        return head * self.k.shape[1] // self.num_heads

    def mask_of(self, rows: slice) -> Tensor | None:
        """What is added to the scores of these rows, or where they may look: (1, H or 1, rows, S)."""
        tile = self.mask.of_rows(rows, self.q.dtype)
        return None if tile is None else tile[self.row if len(tile) > 1 else 0][None]

    def of(self, rows: slice, head: int | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries, keys and mask of some rows, of one head or of all."""
        tile = self.mask_of(rows)
        if head is None:
            return self.q[:, :, rows], self.k, tile
        own = slice(head, head + 1)
        keys = self.k[:, self.kv_head(head)][:, None]  # (1, 1, S, K)
        return self.q[:, own, rows], keys, tile if tile is None or tile.shape[1] == 1 else tile[:, own]

    def weights(self, rows: slice, head: int | None) -> Tensor:
        """(1 or H, rows, S)."""
        return attention_weights(*self.of(rows, head), scale=self.scale, cap=self.cap)[0]

    def scores(self, rows: slice, head: int) -> Tensor:
        """What the softmax is taken of, -inf where a query may not look: (rows, S)."""
        return attention_scores(*self.of(rows, head), scale=self.scale, cap=self.cap)[0, 0]

    def blocks(self, multiple: int = 1) -> Iterator[slice]:
        """Rows that fit into memory together, all heads; as many as a multiple, so that each is pooled by itself."""
        rows, keys = self.size
        step = max(1, BLOCK // (self.num_heads * keys))
        step = max(multiple, step // multiple * multiple)
        for start in range(0, rows, step):
            check_time()
            yield slice(start, min(start + step, rows))


def whole_map(layer: Layer, head: int | None) -> Tensor:
    """The weights of a head, or of all heads averaged: (T, S)."""
    if head is None:
        return torch.cat([layer.weights(rows, None).mean(dim=0) for rows in layer.blocks()])
    return torch.cat([layer.weights(rows, head)[0] for rows in layer.blocks()])


def map_bytes(layer: Layer, head: int | None) -> bytes:
    weights = whole_map(layer, head)
    largest = float(weights.max())
    return struct.pack("<IIff", *weights.shape, largest, POWER) + quantised(weights, largest)


def heads_bytes(layer: Layer) -> bytes:
    """All heads, each pooled by its maximum to at most 64 rows and columns, so that no peak is lost."""
    rows, keys = layer.size
    tall, wide = -(-rows // SMALL), -(-keys // SMALL)
    pooled = torch.cat(
        [F.max_pool2d(layer.weights(part, None), (tall, wide), ceil_mode=True) for part in layer.blocks(multiple=tall)],
        dim=1,
    )  # (H, at most 64, at most 64)
    largest = pooled.amax(dim=(1, 2)).tolist()
    header = struct.pack("<IIIf", *pooled.shape, POWER)
    return b"".join(
        [header, *(struct.pack("<f", top) + quantised(head, top) for head, top in zip(pooled, largest, strict=True))]
    )


def quantised(weights: Tensor, largest: float) -> bytes:
    scaled = weights / (largest or 1.0)
    return bytes((scaled.pow(POWER) * 255).round().to(torch.uint8).numpy().tobytes())
