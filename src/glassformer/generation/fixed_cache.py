"""A cache of fixed room: the shapes of a step stay the same from token to token, so that a step can be compiled.

Places that nothing was written to yet are not kept, so the mask hides them. Which place is next, and how many tokens
each row has, are tensors: a compiled step reads them as data.
"""

from typing import Any, Self

import torch
from torch import Tensor

from glassformer.core.cache import Cache


class FixedCache(Cache):
    """The interface of `Cache`, one token at a time, over tensors that are made once and written in place."""

    def __init__(self, parts: dict[str, Any], span: int) -> None:
        """`span` is what positions are below, for angles that depend on it."""
        keys, values, cross = parts["keys"], parts["values"], parts["cross"]
        super().__init__(
            length=parts["keep"].shape[1] - 1,
            keep=parts["keep"],  # (B, S)
            positions=parts["positions"],  # (B, S)
            memory_keep=parts["memory_keep"],
            gaps=True,
            _self=dict(enumerate(zip(keys, values, strict=True))),
            _cross=dict(enumerate(cross)),
        )
        self.at: Tensor = parts["at"]  # (1), the place of the next token
        self.counted: Tensor = parts["counted"]  # (B, 1), the kept tokens of each row: the next one's position
        self.span, self.parts = span, parts

    @classmethod
    def taken_over(cls, cache: Cache, room: int, span: int) -> Self:
        """What a growing cache holds after the prompt, with room for so many tokens in all."""
        stored = [cache._self[layer] for layer in range(len(cache._self))]
        batch, length, device = len(stored[0][0]), cache.length, stored[0][0].device
        keep = torch.zeros(batch, room, dtype=torch.bool, device=device)  # (B, S)
        keep[:, :length] = True if cache.keep is None else cache.keep
        positions = torch.zeros(batch, room, dtype=torch.long, device=device)  # (B, S)
        assert cache.positions is not None
        positions[:, :length] = cache.positions
        return cls(
            {
                "keys": [_with_room(k, length, room) for k, _ in stored],
                "values": [_with_room(v, length, room) for _, v in stored],
                "cross": [cache._cross[layer] for layer in range(len(cache._cross))],
                "keep": keep,
                "positions": positions,
                "memory_keep": cache.memory_keep,
                "at": torch.tensor([length], device=device),
                "counted": keep.sum(dim=1, keepdim=True),  # (B, 1)
            },
            span,
        )

    def give_back(self, cache: Cache) -> None:
        """What was written since, to the growing cache that this one was taken over from."""
        assert self.keep is not None
        assert self.positions is not None
        written = int(self.at)
        cache.length, cache.positions = written, self.positions[:, :written]
        cache.keep = self.keep[:, :written]
        cache._self = dict(self._self)

    def kept(self, keep: Tensor | None, batch: int, length: int) -> Tensor | None:
        assert self.keep is not None
        return self.keep.index_fill_(1, self.at, True)  # (B, S)

    def numbered(self, keep: Tensor | None, length: int, device: torch.device) -> tuple[Tensor, int]:
        return self.counted, self.span  # (B, 1)

    def extend(self, keep: Tensor | None, positions: Tensor) -> Tensor:
        assert self.positions is not None
        return self.positions.index_copy_(1, self.at, positions)  # (B, S)

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._self[layer]
        return keys.index_copy_(2, self.at, k), values.index_copy_(2, self.at, v)  # (B, G, S, K), (B, G, S, K)

    def advance(self) -> None:
        """After a step: the next token has the next place."""
        self.at += 1
        self.counted += 1

    def reorder(self, rows: Tensor, *, same_source: bool = False) -> None:
        """As in `Cache`, in place, and only what moves: rows that change, and the places that were written."""
        if len(rows) != len(self.parts["keep"]) or not same_source:
            raise ValueError("a cache of fixed room keeps its rows and their sources: reorder before it is taken over")
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(1)  # (M)
        if not len(moved):
            return
        written, origin = int(self.at), rows[moved]
        for buffer in (*self.parts["keys"], *self.parts["values"]):
            part = buffer[:, :, :written]
            part[moved] = part.index_select(0, origin)
        for name in ("keep", "positions", "counted"):
            self.parts[name][moved] = self.parts[name].index_select(0, origin)


def _with_room(x: Tensor, length: int, room: int) -> Tensor:
    buffer = x.new_zeros(*x.shape[:2], room, x.shape[3])
    buffer[:, :, :length] = x[:, :, :length]
    return buffer
