"""The engine's two caches: `WindowCache` for reading a prompt, and `FixedCache`, which a compiled step writes in place.

In both, layers with a window keep only their window. `FixedCache` consists of tensors that stay the same from token to
token. They have room for more tokens; the mask hides the free places, and `attend` of `kernels.cpp` does not read them.
The next place and the number of tokens of each row are tensors, which a compiled step reads as data. The keys and
values of a source are stored once, however many rows read it. When rows are reordered, as in beam search, nothing is
copied: a table says in which row of the buffers each token is stored.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from glassformer.config import LayerKind, StackConfig
from glassformer.core.cache import Cache

SMALLEST_ROOM = 64


class WindowCache(Cache):
    """A growing cache for prompts without padding between tokens. A prompt may come in chunks."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config

    def visible(self, kind: LayerKind) -> tuple[Tensor | None, Tensor, int | None]:
        keep, positions, window = super().visible(kind)
        if window is None or not self._self:
            return keep, positions, window
        held = min(self.length - self.new, window - 1) + self.new  # keys that `append` will return
        return None if keep is None else keep[:, -held:], positions[:, -held:], window

    def extend(self, keep: Tensor | None, positions: Tensor) -> None:
        self.new = positions.shape[1]
        super().extend(keep, positions)

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        window = layer_kind(self.config, layer).window
        if window is None:
            return super().append(layer, k, v)
        if layer in self._self:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self._self[layer], (k, v), strict=True))
        self._self[layer] = tuple(x[:, :, -(window - 1) :] if window > 1 else x[:, :, :0] for x in (k, v))  # type: ignore[assignment]
        return k, v  # (B, G, S, K), (B, G, S, K)


@torch.library.custom_op("glassformer::arranged", mutates_args=())
def arranged(x: Tensor, rows: Tensor) -> Tensor:
    """(B, G, S, K), (B, S) -> (B, G, S, K): gathers each token from the row of `x` that the table gives.

    A compiled step does not call it, because `attend` reads the tokens in place.
    """
    places = torch.arange(rows.shape[1], device=rows.device)
    return x.transpose(1, 2)[rows, places].transpose(1, 2).contiguous()


@arranged.register_fake
def _(x: Tensor, rows: Tensor) -> Tensor:
    return x.new_empty(rows.shape[0], x.shape[1], rows.shape[1], x.shape[3])


class CachedPositions(NamedTuple):
    """Describes the places in the cache, for all layers of one kind."""

    keep: Tensor  # (B, S)
    positions: Tensor  # (B, S)
    rows: Tensor  # (B, S): the row of the buffers in which a token is stored


class FixedCache(Cache):
    """The interface of `Cache`, one token at a time.

    tensors:  at (1), the place of the next token;  counted (B, 1), its position in each row;
              `CachedPositions` of layers without a window, and of each kind of layer that has one;
              keys and values of each layer (B, G, S, K), with a window (B, G, W, K);
              with a source: which source each row reads (B), memory_keep (sources, S), keys and values by layer

    With a window, token i is stored at i mod W: it overwrites the token that leaves the window.
    """

    def __init__(self, tensors: Sequence[Tensor], config: StackConfig, span: int) -> None:
        """All positions are below `span`, on which some rotary angles depend."""
        self.tensors, self.config, self.span = list(tensors), config, span
        self.at, self.counted = tensors[:2]
        kinds = [None, *windows_of(config)]
        self.marks = {kind: CachedPositions(*tensors[2 + 3 * i : 5 + 3 * i]) for i, kind in enumerate(kinds)}
        self.first = 2 + 3 * len(kinds)  # of the keys
        own, source = tensors[self.first : self.last], tensors[self.last :]
        super().__init__(
            length=self.marks[None].keep.shape[1] - 1,
            keep=self.marks[None].keep,
            positions=self.marks[None].positions,
            _self={layer: (own[2 * layer], own[2 * layer + 1]) for layer in range(config.num_layers)},
        )
        if source:
            self.row_of, memory_keep, *shared = source
            self.memory_keep = memory_keep.index_select(0, self.row_of)  # (B, S)
            self._cross = {layer: (shared[2 * layer], shared[2 * layer + 1]) for layer in range(config.num_layers)}

    @classmethod
    def taken_over(cls, cache: Cache, config: StackConfig, span: int, max_length: int) -> Self:
        """Copies a growing cache after the prompt, with room for up to `max_length` tokens.

        With windows, there must be no padding between tokens.
        """
        length, k = cache.length, cache._self[0][0]
        batch, device = k.shape[0], k.device
        room = min(max(SMALLEST_ROOM, 2 * length), max(max_length, length + 1))
        assert cache.positions is not None
        keep = (
            torch.ones(batch, length, dtype=torch.bool, device=device) if cache.keep is None else cache.keep
        )  # (B, S)
        positions = cache.positions.expand(batch, -1)  # (B, S)
        rows = torch.arange(batch, device=device)  # (B)
        tensors = [torch.tensor([length], device=device), keep[:, cache.prefix :].sum(dim=1, keepdim=True)]
        for kind in (None, *windows_of(config)):
            size = room if kind is None or kind.window is None else min(kind.window, max_length)
            tensors += [placed(keep, 1, length, size), placed(positions, 1, length, size), own_rows(rows, size)]
        for layer in range(config.num_layers):
            window = layer_kind(config, layer).window
            size = room if window is None else min(window, max_length)
            tensors += [placed(x[:, :, :length], 2, length, size) for x in cache._self[layer]]
        if cache._cross:
            k = cache._cross[0][0]
            everything = torch.ones(k.shape[0], k.shape[2], dtype=torch.bool, device=device)  # (B, S)
            tensors += [rows, everything if cache.memory_keep is None else cache.memory_keep]
            tensors += [x.contiguous() for layer in range(config.num_layers) for x in cache._cross[layer]]
        return cls(tensors, config, span)

    @property
    def last(self) -> int:
        return self.first + 2 * self.config.num_layers

    @property
    def room(self) -> int:
        return self.marks[None].keep.shape[1]

    def give_back(self, prefix: int = 0) -> Cache:
        """A growing cache with the same content. Tokens that have left a window are missing, and nothing reads them."""
        written, (keep, positions, _) = int(self.at), self.marks[None]
        cache = Cache(length=written, prefix=prefix, keep=keep[:, :written], positions=positions[:, :written])
        for layer, pair in self._self.items():
            rows = self.marks_of(layer).rows
            cache._self[layer] = tuple(unplaced(arranged(x, rows), written) for x in pair)  # type: ignore[assignment]
        cache._cross = {layer: self.cross(layer) for layer in self._cross}  # type: ignore[misc]  # they are there
        cache.memory_keep = self.memory_keep
        return cache

    def marks_of(self, layer: int) -> CachedPositions:
        kind = layer_kind(self.config, layer)
        return self.marks[None if kind.window is None else kind]

    def kept(self, keep: Tensor | None, batch: int, length: int) -> Tensor | None:
        return self.marks[None].keep.index_fill_(1, self.at, True)  # (B, S)

    def numbered(self, keep: Tensor | None, length: int, device: torch.device) -> tuple[Tensor, int]:
        return self.counted, self.span  # (B, 1)

    def extend(self, keep: Tensor | None, positions: Tensor) -> None:
        own = torch.arange(positions.shape[0], device=positions.device)[:, None]  # (B, 1)
        for kind, marks in self.marks.items():
            place = self.at if kind is None else self.at % marks.keep.shape[1]
            marks.keep.index_fill_(1, place, True)
            marks.positions.index_copy_(1, place, positions)
            marks.rows.index_copy_(1, place, own)

    def visible(self, kind: LayerKind) -> tuple[Tensor | None, Tensor, int | None]:
        """No window is applied: tokens that left it are already overwritten."""
        marks = self.marks[None if kind.window is None else kind]
        return marks.keep, marks.positions, None

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._self[layer]
        place = self.at if layer_kind(self.config, layer).window is None else self.at % keys.shape[2]
        rows = self.marks_of(layer).rows
        keys.index_copy_(2, place, k)
        values.index_copy_(2, place, v)
        return arranged(keys, rows), arranged(values, rows)  # (B, G, S, K), (B, G, S, K)

    def cross(self, layer: int) -> tuple[Tensor, Tensor] | None:
        """The keys and values for each row, from those stored once per source."""
        if layer not in self._cross:
            return None
        k, v = self._cross[layer]
        return k.index_select(0, self.row_of), v.index_select(0, self.row_of)  # (B, G, S, K), (B, G, S, K)

    def advance(self) -> None:
        """Moves to the next place, after a step."""
        self.at += 1
        self.counted += 1

    def grown(self, max_length: int) -> "FixedCache":
        """A copy with twice the room, at most `max_length`. Windows do not grow."""
        old, room = self.room, min(2 * self.room, max(max_length, self.room + 1))
        tensors = list(self.tensors)
        tensors[2:5] = [placed(x, 1, old, room) for x in self.marks[None]]
        for layer in range(self.config.num_layers):
            if layer_kind(self.config, layer).window is None:
                at = self.first + 2 * layer
                tensors[at : at + 2] = [placed(x, 2, old, room) for x in self._self[layer]]
        return FixedCache(tensors, self.config, self.span)

    def reordered(self, rows: Tensor) -> "FixedCache":
        """Row i becomes a copy of row rows[i]. Keys and values are copied only if the number of rows changes."""
        tensors = list(self.tensors)
        tensors[1 : self.first] = [x.index_select(0, rows) for x in tensors[1 : self.first]]
        if len(rows) != self.marks[None].keep.shape[0]:
            own = torch.arange(len(rows), device=rows.device)  # (B)
            for i, marks in enumerate(self.marks.values()):
                tensors[4 + 3 * i] = own_rows(own, marks.keep.shape[1])
            for layer in range(self.config.num_layers):
                table, at = self.marks_of(layer).rows.index_select(0, rows), self.first + 2 * layer
                tensors[at : at + 2] = [arranged(x, table) for x in self._self[layer]]
        if self._cross:
            tensors[self.last] = self.row_of.index_select(0, rows)
        return FixedCache(tensors, self.config, self.span)


def layer_kind(config: StackConfig, layer: int) -> LayerKind:
    return config.layer_kinds[layer % len(config.layer_kinds)]


def own_rows(rows: Tensor, size: int) -> Tensor:
    """(B) -> (B, size): every token is stored in its own row."""
    return rows[:, None].expand(-1, size).contiguous()


def windows_of(config: StackConfig) -> list[LayerKind]:
    """The kinds of layers that have a window, each once."""
    return [kind for kind in dict.fromkeys(config.layer_kinds) if kind.window is not None]


def placed(x: Tensor, axis: int, length: int, size: int) -> Tensor:
    """Stores the last of `length` places, at the end of `x`, in a buffer of this size: place i at i mod size."""
    shape = list(x.shape)
    shape[axis] = size
    held = min(x.shape[axis], size)
    at = torch.arange(length - held, length, device=x.device) % size
    return x.new_zeros(shape).index_copy_(axis, at, x.narrow(axis, x.shape[axis] - held, held))


def unplaced(x: Tensor, length: int) -> Tensor:
    """(B, G, size, K) -> (B, G, length, K): inverse of `placed`, with zeros for overwritten places."""
    size = x.shape[2]
    places = torch.arange(max(0, length - size), length, device=x.device)
    whole = x.new_zeros(*x.shape[:2], length, x.shape[3])
    return whole.index_copy_(2, places, x.index_select(2, places % size))
