"""The keys and values of one generation, so that a step computes those of its own tokens only.

A cache is an argument of a call, never an attribute of a model: one model serves many callers. It is for running a
model, not for training: what it holds is overwritten in place. Read next: `attention.py`, which appends to it.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config import LayerKind
from glassformer.errors import InputError


@dataclass(eq=False)
class Cache:
    """What was seen so far: for each position whether it is kept and its number, for each layer its keys and values."""

    length: int = 0
    prefix: int = 0  # how many of these are vectors of a source that stand before the tokens
    keep: Tensor | None = None  # (B, S), True = a token; None while no padding was seen
    positions: Tensor | None = None  # (B, S), or (1, S) where all rows count alike
    memory_keep: Tensor | None = None  # (B, S) of the source
    reorders: list[Tensor] = field(default_factory=list)  # what `reorder` was told, for those who follow the rows
    _self: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # buffers with room to grow
    _cross: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def kept(self, keep: Tensor | None, batch: int, length: int) -> Tensor | None:
        """Which tokens are kept, past and present; None while no padding was seen."""
        if keep is None and self.keep is not None:
            return torch.cat([self.keep[:, self.prefix :], self.keep.new_ones(batch, length)], dim=1)  # (B, S)
        return keep

    def numbered(self, keep: Tensor | None, length: int, device: torch.device) -> tuple[Tensor, int]:
        """The positions of the tokens at hand, which come after all that was seen; and what these are below."""
        return count_positions(keep, self.tokens, length, device), self.tokens + length

    def extend(self, keep: Tensor | None, positions: Tensor) -> None:
        """Announces the tokens of a call, before the layers append what they make of them."""
        if self.positions is not None:
            rows = max(len(self.positions), len(positions))
            positions = torch.cat([self.positions.expand(rows, -1), positions.expand(rows, -1)], dim=1)
        self.keep, self.positions, self.length = keep, positions, positions.shape[1]

    def visible(self, kind: LayerKind) -> tuple[Tensor | None, Tensor, int | None]:
        """What the layers of a kind have keys of: which are kept, their positions, and the window still to apply."""
        assert self.positions is not None  # tokens were announced
        return self.keep, self.positions, kind.window

    @property
    def tokens(self) -> int:
        """How many tokens each sequence has so far, padding included."""
        return self.length - self.prefix

    @property
    def batch(self) -> int | None:
        """How many sequences it holds; None while it is empty."""
        return self._self[0][0].shape[0] if self._self else None

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds one layer's new keys and values, and returns all of them."""
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
        """The keys and values of the source, if this layer has made them."""
        return self._cross.get(layer)

    def keep_cross(self, layer: int, k: Tensor, v: Tensor) -> None:
        self._cross[layer] = (k, v)

    def crop(self, length: int) -> None:
        """Forgets everything after the first `length` positions."""
        if not (0 <= length <= self.length and length in (0, max(length, self.prefix))):
            raise InputError(
                f"cannot crop a cache of {self.length} positions to {length}, of a prefix of {self.prefix}"
            )
        self.length, self.prefix = length, min(length, self.prefix)
        self.keep = None if self.keep is None else self.keep[:, :length]
        self.positions = None if self.positions is None else self.positions[:, :length]

    def reorder(self, rows: Tensor, *, same_source: bool = False) -> None:
        """Row i becomes what row rows[i] was: beams that survive, or sequences that are dropped or doubled.

        `same_source` promises that the two rows read one source, so that its keys and values may stay.
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
    """A buffer with room for at least twice what it must hold, beginning with the first `length` of the old one."""
    room = max(64, 2 * (length + new.shape[2]))
    buffer = new.new_empty(*new.shape[:2], room, new.shape[3])
    if old is not None:
        buffer[:, :, :length] = old[:, :, :length]
    return buffer


def starts_of(documents: Tensor) -> Tensor:
    """True where a text begins."""
    return F.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)  # (B, T)


def count_positions(
    keep: Tensor | None, past: int, length: int, device: torch.device, documents: Tensor | None = None
) -> Tensor:
    """Numbers the last `length` tokens, counting kept tokens only, so that left and right padding agree.

    Each of the documents in a row is counted from 0.
    """
    if keep is None:
        counted = torch.arange(past, past + length, device=device)[None]  # (1, T)
    else:
        counted = (keep.cumsum(dim=1) - 1).clamp(min=0)[:, past:]  # (B, T)
    if documents is None:
        return counted  # (B, T)
    return counted - (counted * starts_of(documents)).cummax(dim=1).values  # (B, T)
