"""Attention weights as bytes: one head of one layer, or all heads as small maps, computed on request.

A pass keeps q, k, v and the factored mask, all linear in the length. The weights are quadratic and are computed in
blocks of rows. They are sent in this format, which `page/state/slices.js` reads:

    heads, rows, columns, bits           4 bytes each; bits are 8, or 16 in an exported file
    the largest weight of each head      4 bytes each, a float
    the high bytes of all weights        head by head, row by row; then, of 16 bits, the low bytes in the same order

The square root is stored, for more precision at small weights: weight = largest * (code / (2 ** bits - 1)) ** 2.
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

SMALL_MAP = 64  # rows and columns of a small map
SCORES_AT_ONCE = 2**22  # scores computed at a time


@dataclass(frozen=True)
class AttentionInputs:
    """The inputs of one attention layer's weights, for one row of the batch."""

    q: Tensor  # (1, H, T, K)
    k: Tensor  # (1, G, S, K)
    v: Tensor  # (1, G, S, K)
    mask: Mask
    row: int  # of the batch: the mask covers all rows
    scale: float
    cap: float | None

    @property
    def num_heads(self) -> int:
        return self.q.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """The number of queries and keys."""
        return self.q.shape[2], self.k.shape[2]

    @property
    def bytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in (self.q, self.k, self.v))

    def kv_head(self, head: int) -> int:
        """The index of the keys and values that a head uses."""
        return head * self.k.shape[1] // self.num_heads

    def mask_of(self, rows: slice) -> Tensor | None:
        """The bias or boolean mask of the scores of these rows: (1, H or 1, rows, S)."""
        tile = self.mask.of_rows(rows, self.q.dtype)
        return None if tile is None else tile[self.row if len(tile) > 1 else 0][None]

    def of(self, rows: slice, head: int | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries, keys and mask of some rows, for one head or all heads."""
        tile = self.mask_of(rows)
        if head is None:
            return self.q[:, :, rows], self.k, tile
        own = slice(head, head + 1)
        keys = self.k[:, self.kv_head(head)][:, None]  # (1, 1, S, K)
        return self.q[:, own, rows], keys, tile if tile is None or tile.shape[1] == 1 else tile[:, own]

    def weights(self, rows: slice, head: int | None) -> Tensor:
        """Attention weights (1 or H, rows, S)."""
        return attention_weights(*self.of(rows, head), scale=self.scale, cap=self.cap)[0]

    def scores(self, rows: slice, head: int) -> Tensor:
        """The softmax inputs (rows, S), -inf where a query may not attend."""
        return attention_scores(*self.of(rows, head), scale=self.scale, cap=self.cap)[0, 0]

    def blocks(self, multiple: int = 1) -> Iterator[slice]:
        """Blocks of rows that fit in memory for all heads; their size is a multiple, so that each is pooled alone."""
        rows, keys = self.size
        step = max(1, SCORES_AT_ONCE // (self.num_heads * keys))
        step = max(multiple, step // multiple * multiple)
        for start in range(0, rows, step):
            check_time()
            yield slice(start, min(start + step, rows))


def whole_map(layer: AttentionInputs, head: int | None) -> Tensor:
    """The weights of one head, or the mean of all heads: (T, S)."""
    if head is None:
        return torch.cat([layer.weights(rows, None).mean(dim=0) for rows in layer.blocks()])
    return torch.cat([layer.weights(rows, head)[0] for rows in layer.blocks()])


def mixed(layer: AttentionInputs) -> Tensor:
    """The output of every head for each query, the weighted sum of values: (H, T, K)."""
    values = layer.v[0, [layer.kv_head(head) for head in range(layer.num_heads)]]  # (H, S, K)
    return torch.cat([layer.weights(rows, None) @ values for rows in layer.blocks()], dim=1)


def map_bytes(layer: AttentionInputs, head: int | None) -> bytes:
    return pack_map(whole_map(layer, head)[None])


def heads_bytes(layer: AttentionInputs) -> bytes:
    """All heads, max-pooled to at most 64 rows and columns, so that no peak is lost."""
    rows, keys = layer.size
    tall, wide = -(-rows // SMALL_MAP), -(-keys // SMALL_MAP)
    pooled = torch.cat(
        [F.max_pool2d(layer.weights(part, None), (tall, wide), ceil_mode=True) for part in layer.blocks(multiple=tall)],
        dim=1,
    )  # (H, at most 64, at most 64)
    return pack_map(pooled)


def pack_map(weights: Tensor, bits: int = 8) -> bytes:
    """Packs weights (heads, rows, columns) into the format at the top of this file."""
    largest = weights.amax(dim=(1, 2))  # (heads)
    scaled = weights / largest.where(largest > 0, 1.0)[:, None, None]
    codes = (scaled.sqrt() * (2**bits - 1)).round()
    planes = [codes] if bits == 8 else [codes // 256, codes % 256]
    header = struct.pack(f"<4I{len(largest)}f", *weights.shape, bits, *largest.tolist())
    return b"".join([header, *(plane.to(torch.uint8).numpy().tobytes() for plane in planes)])
