"""The key-value cache of one generation: a step computes keys and values for its new tokens only.

A cache is an argument of a call, never an attribute of the model, so one model can serve many callers. It is for
inference only, because its buffers are overwritten in place. Read next: `attention.py`, which appends to it.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config import LayerKind
from glassformer.errors import InputError


@dataclass(eq=False)
class Cache:
    """The past of a batch: the padding mask and positions of its tokens, and each layer's keys and values."""

    length: int = 0
    prefix: int = 0  # how many of `length` are source vectors placed before the tokens
    keep: Tensor | None = None  # (B, S), True = a token; None if there was no padding so far
    positions: Tensor | None = None  # (B, S), or (1, S) if all rows have the same
    memory_keep: Tensor | None = None  # (B, S) of the source
    reorders: list[Tensor] = field(default_factory=list)  # the arguments of every `reorder`, to trace rows back
    _self: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # buffers with room to grow
    _cross: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def kept(self, keep: Tensor | None, batch: int, length: int) -> Tensor | None:
        """The padding mask of past and new tokens; None if there was no padding so far."""
        if keep is None and self.keep is not None:
            return torch.cat([self.keep[:, self.prefix :], self.keep.new_ones(batch, length)], dim=1)  # (B, S)
        return keep

    def numbered(self, keep: Tensor | None, length: int, device: torch.device) -> tuple[Tensor, int]:
        """The positions of the new tokens, counted on from the past, and an exclusive upper bound for them."""
        return count_positions(keep, self.tokens, length, device), self.tokens + length

    def extend(self, keep: Tensor | None, positions: Tensor) -> None:
        """Registers the tokens of a call, before each layer appends its keys and values for them."""
        if self.positions is not None:
            rows = max(len(self.positions), len(positions))
            positions = torch.cat([self.positions.expand(rows, -1), positions.expand(rows, -1)], dim=1)
        self.keep, self.positions, self.length = keep, positions, positions.shape[1]

    def visible(self, kind: LayerKind) -> tuple[Tensor | None, Tensor, int | None]:
        """The keys that layers of this kind hold: their padding mask, their positions, and the window to apply."""
        assert self.positions is not None  # `extend` was called before
        return self.keep, self.positions, kind.window

    @property
    def tokens(self) -> int:
        """The number of tokens in each sequence so far, padding included."""
        return self.length - self.prefix

    @property
    def batch(self) -> int | None:
        """The number of sequences; None while the cache is empty."""
        return self._self[0][0].shape[0] if self._self else None

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Appends new keys and values of a layer, and returns all that it has."""
        start = self.length - k.shape[2]
        stored = self._self.get(layer)
        if stored is None or stored[0].shape[2] < self.length:
            stored = self._self[layer] = (
                _grown(stored and stored[0], k, start),
                _grown(stored and stored[1], v, start),
            )
        for buffer, new in zip(stored, (k, v), strict=True):
            buffer[:, :, start : self.length] = new
        return stored[0][:, :, : self.length], stored[1][:, :, : self.length]  # (B, G, S, K), (B, G, S, K)

    def cross(self, layer: int) -> tuple[Tensor, Tensor] | None:
        """The layer's keys and values of the source, if it has computed them."""
        return self._cross.get(layer)

    def keep_cross(self, layer: int, k: Tensor, v: Tensor) -> None:
        self._cross[layer] = (k, v)

    def crop(self, length: int) -> None:
        """Drops everything after the first `length` positions."""
        if not (0 <= length <= self.length and length in (0, max(length, self.prefix))):
            raise InputError(
                f"cannot crop the cache to {length}: expected 0, or {self.prefix} (its prefix) to {self.length}"
            )
        self.length, self.prefix = length, min(length, self.prefix)
        self.keep = None if self.keep is None else self.keep[:, :length]
        self.positions = None if self.positions is None else self.positions[:, :length]

    def reorder(self, rows: Tensor, *, same_source: bool = False) -> None:
        """Replaces row i by row rows[i]: for surviving beams, and to drop or repeat sequences.

        Set `same_source` if rows i and rows[i] have the same source: its keys and values are then left in place.
        """
        self.reorders.append(rows)
        for store in (self._self,) if same_source else (self._self, self._cross):
            for layer, (k, v) in store.items():
                store[layer] = (k.index_select(0, rows), v.index_select(0, rows))  # k[rows] is 8 times slower on a CPU
        self.keep = None if self.keep is None else self.keep[rows]
        if self.memory_keep is not None and not same_source:
            self.memory_keep = self.memory_keep[rows]
        if self.positions is not None and len(self.positions) > 1:
            self.positions = self.positions[rows]


def _grown(old: Tensor | None, new: Tensor, length: int) -> Tensor:
    """A buffer that begins with the first `length` positions of `old`. Twice the length needed, so it rarely grows."""
    room = max(64, 2 * (length + new.shape[2]))
    buffer = new.new_empty(*new.shape[:2], room, new.shape[3])
    if old is not None:
        buffer[:, :, :length] = old[:, :, :length]
    return buffer


def document_starts(documents: Tensor) -> Tensor:
    """True at the first token of each document."""
    return F.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)  # (B, T)


def count_positions(
    keep: Tensor | None, past: int, length: int, device: torch.device, documents: Tensor | None = None
) -> Tensor:
    """The positions of the last `length` tokens. Padding is not counted, so left and right padding agree.

    Every document in a row starts at 0.
    """
    if keep is None:
        counted = torch.arange(past, past + length, device=device)[None]  # (1, T)
    else:
        counted = (keep.cumsum(dim=1) - 1).clamp(min=0)[:, past:]  # (B, T)
    if documents is None:
        return counted  # (B, T)
    return counted - (counted * document_starts(documents)).cummax(dim=1).values  # (B, T)
