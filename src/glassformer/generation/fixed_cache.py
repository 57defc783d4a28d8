"""Two caches of the engine: one that a prompt is read into, and one that a compiled step writes to in place.

Layers with a window keep only their window in both. `FixedCache` consists of tensors that stay the same from token to
token. Its room is larger than what was written; the other places are not kept, so the mask hides them, and `attend` of
`kernels.cpp` does not read them. Which place is next, and how many tokens each row has, are tensors: a compiled step
reads them as data. The keys and values of a source are held once, however many rows read it.
"""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from glassformer.config import LayerKind, StackConfig
from glassformer.core.cache import Cache

SMALLEST_ROOM = 64


class WindowCache(Cache):
    """A growing cache for prompts without padding between tokens, which may come in chunks."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.kinds = config.layer_kinds

    def window(self, layer: int) -> int | None:
        return self.kinds[layer % len(self.kinds)].window

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
        window = self.window(layer)
        if window is None:
            return super().append(layer, k, v)
        if layer in self._self:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self._self[layer], (k, v), strict=True))
        self._self[layer] = tuple(x[:, :, -(window - 1) :] if window > 1 else x[:, :, :0] for x in (k, v))  # type: ignore[assignment]
        return k, v  # (B, G, S, K), (B, G, S, K)


class FixedCache(Cache):
    """The interface of `Cache`, one token at a time.

    tensors:  at (1), the place of the next token;  counted (B, 1), its position in each row;
              keep (B, S) and positions (B, S), and the same for each kind of layer that has a window;
              keys and values of each layer (B, G, S, K), with a window (B, G, W, K);
              with a source: the row of it that each row reads (B), memory_keep (sources, S), keys and values by layer

    With a window, the token at place i stands at i mod W: it takes the place of the one that leaves the window.
    """

    def __init__(self, tensors: Sequence[Tensor], config: StackConfig, span: int) -> None:
        """`span` is what positions are below, for angles that depend on it."""
        self.tensors, self.config = list(tensors), config
        self.windows = windows_of(config)
        marks = 4 + 2 * len(self.windows)
        self.at, self.counted, keep, positions, *rings = tensors[:marks]
        own, source = tensors[marks : marks + 2 * config.num_layers], tensors[marks + 2 * config.num_layers :]
        super().__init__(
            length=keep.shape[1] - 1,
            keep=keep,
            positions=positions,
            _self={layer: (own[2 * layer], own[2 * layer + 1]) for layer in range(config.num_layers)},
        )
        self.rings = {kind: (rings[2 * i], rings[2 * i + 1]) for i, kind in enumerate(self.windows)}
        self.span = span
        if source:
            self.row_of, memory_keep, *shared = source
            self.memory_keep = memory_keep.index_select(0, self.row_of)  # (B, S)
            self._cross = {layer: (shared[2 * layer], shared[2 * layer + 1]) for layer in range(config.num_layers)}

    @classmethod
    def taken_over(cls, cache: Cache, config: StackConfig, span: int, max_length: int) -> Self:
        """What a growing cache holds after the prompt, with room for more, up to `max_length`.

        No padding may stand between tokens, where there are windows.
        """
        length, k = cache.length, cache._self[0][0]
        batch, device = k.shape[0], k.device
        room = min(max(SMALLEST_ROOM, 2 * length), max(max_length, length + 1))
        assert cache.positions is not None
        keep = (
            torch.ones(batch, length, dtype=torch.bool, device=device) if cache.keep is None else cache.keep
        )  # (B, S)
        positions = cache.positions.expand(batch, -1)  # (B, S)
        tensors = [torch.tensor([length], device=device), keep.sum(dim=1, keepdim=True)]
        tensors += [placed(keep, 1, length, room), placed(positions, 1, length, room)]
        for kind in windows_of(config):
            size = min(kind.window or room, max_length)
            tensors += [placed(keep, 1, length, size), placed(positions, 1, length, size)]
        for layer in range(config.num_layers):
            window = config.layer_kinds[layer % len(config.layer_kinds)].window
            size = room if window is None else min(window, max_length)
            tensors += [placed(x[:, :, :length], 2, length, size) for x in cache._self[layer]]
        if cache._cross:
            k = cache._cross[0][0]
            everything = torch.ones(k.shape[0], k.shape[2], dtype=torch.bool, device=device)  # (B, S)
            tensors += [
                torch.arange(batch, device=device),
                everything if cache.memory_keep is None else cache.memory_keep,
            ]
            tensors += [x.contiguous() for layer in range(config.num_layers) for x in cache._cross[layer]]
        return cls(tensors, config, span)

    @property
    def room(self) -> int:
        return self.tensors[2].shape[1]

    def give_back(self) -> Cache:
        """A growing cache that holds the same; what has left a window is not there, and nobody looks at it."""
        assert self.keep is not None
        assert self.positions is not None
        written = int(self.at)
        cache = Cache(length=written, keep=self.keep[:, :written], positions=self.positions[:, :written])
        for layer, pair in self._self.items():
            cache._self[layer] = tuple(unplaced(x, written) for x in pair)  # type: ignore[assignment]  # two
        cache._cross = {layer: self.cross(layer) for layer in self._cross}  # type: ignore[misc]  # they are there
        cache.memory_keep = self.memory_keep
        return cache

    def kept(self, keep: Tensor | None, batch: int, length: int) -> Tensor | None:
        assert self.keep is not None
        return self.keep.index_fill_(1, self.at, True)  # (B, S)

    def numbered(self, keep: Tensor | None, length: int, device: torch.device) -> tuple[Tensor, int]:
        return self.counted, self.span  # (B, 1)

    def extend(self, keep: Tensor | None, positions: Tensor) -> None:
        assert self.positions is not None
        self.positions.index_copy_(1, self.at, positions)  # (B, S)
        for kept, numbers in self.rings.values():
            place = self.at % kept.shape[1]
            kept.index_fill_(1, place, True)
            numbers.index_copy_(1, place, positions)

    def visible(self, kind: LayerKind) -> tuple[Tensor | None, Tensor, int | None]:
        """Of a window nothing is left to apply: what has left it is overwritten."""
        if kind.window is not None:
            return *self.rings[kind], None
        assert self.positions is not None
        return self.keep, self.positions, None

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._self[layer]
        windowed = self.config.layer_kinds[layer % len(self.config.layer_kinds)].window is not None
        place = self.at % keys.shape[2] if windowed else self.at
        return keys.index_copy_(2, place, k), values.index_copy_(2, place, v)  # (B, G, S, K), (B, G, S, K)

    def cross(self, layer: int) -> tuple[Tensor, Tensor] | None:
        """Row by row, of keys and values that each source has once."""
        if layer not in self._cross:
            return None
        k, v = self._cross[layer]
        return k.index_select(0, self.row_of), v.index_select(0, self.row_of)  # (B, G, S, K), (B, G, S, K)

    def advance(self) -> None:
        """After a step: the next token has the next place."""
        self.at += 1
        self.counted += 1

    def grown(self, max_length: int) -> "FixedCache":
        """The same with twice the room, or room for `max_length`. A window needs no more."""
        old, room = self.room, min(2 * self.room, max(max_length, self.room + 1))
        tensors = list(self.tensors)
        marks = 4 + 2 * len(self.windows)
        for i in (2, 3):
            tensors[i] = placed(tensors[i], 1, old, room)
        for layer in range(self.config.num_layers):
            if self.config.layer_kinds[layer % len(self.config.layer_kinds)].window is None:
                for i in (marks + 2 * layer, marks + 2 * layer + 1):
                    tensors[i] = placed(tensors[i], 2, old, room)
        return FixedCache(tensors, self.config, self.span)

    def reordered(self, rows: Tensor) -> "FixedCache":
        """Row i becomes what row rows[i] was. Of a source nothing moves; of the rest, what was written and changes."""
        marks, count = 4 + 2 * len(self.windows), 2 * self.config.num_layers
        (at, *marked), own = self.tensors[:marks], self.tensors[marks : marks + count]
        source, written = self.tensors[marks + count :], int(self.at)
        if len(rows) == self.tensors[2].shape[0]:
            moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(1)  # (M)
            if not len(moved):
                return self
            for buffer in own:
                part = buffer[:, :, :written]
                part[moved] = part.index_select(0, rows[moved])
        else:
            own = [x.index_select(0, rows) for x in own]
        marked = [x.index_select(0, rows) for x in marked]
        if source:
            source = [source[0].index_select(0, rows), *source[1:]]
        return FixedCache([at, *marked, *own, *source], self.config, self.span)


def windows_of(config: StackConfig) -> list[LayerKind]:
    """The kinds of layers that have a window, each once."""
    return [kind for kind in dict.fromkeys(config.layer_kinds) if kind.window is not None]


def placed(x: Tensor, axis: int, length: int, size: int) -> Tensor:
    """The last of `length` places, which `x` ends with, in a buffer of this size: place i stands at i mod size."""
    shape = list(x.shape)
    shape[axis] = size
    held = min(x.shape[axis], size)
    at = torch.arange(length - held, length, device=x.device) % size
    return x.new_zeros(shape).index_copy_(axis, at, x.narrow(axis, x.shape[axis] - held, held))


def unplaced(x: Tensor, length: int) -> Tensor:
    """(B, G, size, K) -> (B, G, length, K): the places of `placed` in their order, and zeros for what is gone."""
    size = x.shape[2]
    places = torch.arange(max(0, length - size), length, device=x.device)
    whole = x.new_zeros(*x.shape[:2], length, x.shape[3])
    return whole.index_copy_(2, places, x.index_select(2, places % size))
