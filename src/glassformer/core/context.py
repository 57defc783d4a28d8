"""The state of one call of a stack: masks, rotations, cache and watchers.

`Stack.forward` builds one `Context`; the blocks pass it on; only attention reads it. Masks follow one convention in
the whole package: boolean, True = may attend. Read next: `attention.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config import LayerKind
from glassformer.core.cache import Cache
from glassformer.errors import InputError

TILE = 2**25  # scores in one tile of rows: the most that a mask, a bias or dropout materialises at a time

# The watchers of this thread, called as watcher(stack, context, layer, step, value). They cannot change the result.
_watchers: ContextVar[tuple[Callable[..., None], ...]] = ContextVar("watchers", default=())
_watching = 0  # number of watchers in all threads: a plain int, which torch.compile can read


@dataclass(eq=False)
class Mask:
    """Which keys each query may attend to, and the bias of its scores. Stored as factors, built one tile at a time.

    allowed[i, j] = keep[j]  and  (j <= i if causal)  and  (|i - j| within the window)  and  document[i] = document[j]

    With a prefix, the first P keys belong to the source and attend to each other: j <= max(i, P - 1) if causal.
    With causal, the queries are the last T of the S keys: `i` starts at S - T (aligned bottom-right).
    """

    queries: int
    keys: int
    keep: Tensor | None = None  # (B, S), True = a token, False = padding
    causal: bool = False
    window: int | None = None
    bias: Callable[[Tensor, Tensor], Tensor] | None = None
    positions: Tensor | None = None  # (B, S): positions of the keys, for the bias
    asking: Tensor | None = None  # (B, T): positions of the queries; default: the last T of the keys
    documents: Tensor | None = None  # (B, S): the document of each token, in a row that packs several
    prefix: int = 0
    _whole: list[Tensor | None] = field(default_factory=list)  # the mask of all rows, once built
    _window_has_holes: bool = False

    def __post_init__(self) -> None:
        """Detects padding between tokens, as when a right-padded prompt is continued.

        A window then counts tokens instead of indices, so that padding does not use it up.
        """
        if self.asking is None and self.positions is not None:
            self.asking = self.positions[:, self.keys - self.queries :]
        if self.window is None or self.keep is None:
            return
        rises = self.keep[:, 0].int() + (self.keep[:, 1:] & ~self.keep[:, :-1]).sum(dim=1)  # (B)
        self._window_has_holes = bool((rises > 1).any())

    @property
    def is_plain_causal(self) -> bool:
        """Causal and nothing else: the case that the fused kernel handles without a mask."""
        only = self.keep is None and self.documents is None and not (self.bias or self.window or self.prefix)
        return self.causal and only and self.queries == self.keys

    def tiles(self, scores_per_row: int, materialises: bool) -> Iterator[tuple[slice, slice]]:
        """Yields ranges of rows, each with the range of keys it may attend to. One range if everything fits."""
        rows = self.queries
        if rows > 1 and (materialises or not (self.is_plain_causal or self._is_same_for_all_rows())):
            rows = max(1, TILE // scores_per_row)
        for start in range(0, self.queries, rows):
            stop = min(start + rows, self.queries)
            yield slice(start, stop), self._visible(start, stop) if rows < self.queries else slice(0, self.keys)

    def tile(self, rows: slice, keys: slice, dtype: torch.dtype) -> Tensor | None:
        """The mask of one tile: None if nothing is masked, boolean, or the bias as a float, -inf where masked."""
        if rows.stop - rows.start < self.queries:
            return self._build(rows, keys, dtype)
        if not self._whole:  # all layers of this kind share it
            self._whole.append(self._build(rows, keys, dtype))
        return self._whole[0]

    def of_rows(self, rows: slice, dtype: torch.dtype) -> Tensor | None:
        """The mask of some rows and all keys, for a watcher. Not stored: watching must not change the call's state."""
        return self._build(rows, slice(0, self.keys), dtype)

    def _build(self, rows: slice, keys: slice, dtype: torch.dtype) -> Tensor | None:
        allowed = None if self.keep is None else self.keep[:, None, None, keys]  # (B, 1, 1, S)
        if not self._sees_all(rows, keys):
            nearby = self._nearby(rows, keys)  # (B, 1, T, S)
            allowed = nearby if allowed is None else allowed & nearby
        first = self.keys - self.queries
        if self.documents is not None:
            own = self.documents[:, first + rows.start : first + rows.stop, None]  # (B, T, 1)
            same = (own == self.documents[:, None, keys])[:, None]  # (B, 1, T, S)
            allowed = same if allowed is None else allowed & same
        if self.bias is None or self.positions is None or self.asking is None:
            return allowed
        bias = self.bias(self.asking[:, rows], self.positions[:, keys]).to(dtype)  # (B, H, T, S)
        return bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)

    def _nearby(self, rows: slice, keys: slice) -> Tensor:
        """The causal and the window mask, which depend on the indices of query and key only."""
        device = None if self.positions is None else self.positions.device
        first = self.keys - self.queries
        i = torch.arange(rows.start, rows.stop, device=device)[:, None] + first  # (T, 1)
        j = torch.arange(keys.start, keys.stop, device=device)  # (S)
        back, ahead = self._reach()
        last = (i + ahead).clamp(min=self.prefix - 1) if self.prefix else i + ahead  # (T, 1)
        nearby = ((j >= i - back) & (j <= last))[None]  # (1, T, S)
        if self._window_has_holes and self.keep is not None:
            place = self.keep.cumsum(dim=1)  # (B, S)
            back, ahead = self._window_reach()
            distance = place[:, first + rows.start : first + rows.stop, None] - place[:, None, keys]  # (B, T, S)
            nearby = nearby & (distance <= back) & (-distance <= ahead)  # (B, T, S)
        return nearby[:, None]  # (B, 1, T, S)

    def _window_reach(self) -> tuple[int, int]:
        everything = self.keys + self.queries
        if self.window is None:
            return everything, 0 if self.causal else everything
        return (self.window - 1, 0) if self.causal else (self.window // 2, self.window // 2)

    def _reach(self) -> tuple[int, int]:
        """How many keys before and after its own index a query may attend to."""
        if self._window_has_holes:
            return self.keys + self.queries, 0 if self.causal else self.keys + self.queries
        return self._window_reach()

    def _visible(self, start: int, stop: int) -> slice:
        """The keys that at least one query of these rows may attend to."""
        offset, (back, ahead) = self.keys - self.queries, self._reach()
        last = max(stop + offset + ahead, self.prefix) if self.prefix else stop + offset + ahead
        return slice(max(0, start + offset - back), min(self.keys, last))

    def _sees_all(self, rows: slice, keys: slice) -> bool:
        offset, (back, ahead) = self.keys - self.queries, self._reach()
        last = rows.start + offset + ahead
        last = max(last, self.prefix - 1) if self.prefix else last  # keeps max() out of graphs of symbolic length
        covers = rows.stop - 1 + offset - back <= keys.start and keys.stop - 1 <= last
        return covers and not self._window_has_holes

    def _is_same_for_all_rows(self) -> bool:
        unmarked = self.bias is None and self.documents is None
        return unmarked and self._sees_all(slice(0, self.queries), slice(0, self.keys))


@dataclass(eq=False)
class Context:
    """One call's state: a mask and a rotation per kind of layer, the memory for cross-attention, and the cache."""

    kinds: tuple[LayerKind, ...]  # a pattern, repeated over the layers
    masks: dict[LayerKind, Mask]
    rotations: dict[LayerKind, tuple[Tensor, Tensor]]
    memory: Tensor | None = None  # (B, S, D): the encoder's output
    memory_mask: Mask = field(default_factory=lambda: Mask(0, 0))
    cache: Cache | None = None
    watch: Callable[..., None] | None = None

    def mask(self, layer: int) -> Mask:
        return self.masks[self.kinds[layer % len(self.kinds)]]

    def rotation(self, layer: int) -> tuple[Tensor, Tensor] | None:
        return self.rotations.get(self.kinds[layer % len(self.kinds)])

    def tell(self, layer: int, step: str, value: Any) -> None:
        """Passes the result of a layer's step to the watchers, if there are any."""
        if self.watch is not None:
            self.watch(self, layer, step, value)


def as_keep(mask: Tensor | None, shape: tuple[int, ...], name: str) -> Tensor | None:
    """Checks a padding mask from a tokenizer (1 or True = a token, 0 or False = padding) and makes it boolean."""
    if mask is None:
        return None
    if mask.dtype.is_floating_point or mask.dtype.is_complex:
        raise InputError(
            f"{name} has dtype {mask.dtype}: expected a boolean mask, True = a token that may be attended to, or "
            f"integers 1 and 0. If yours holds 0. and -inf, pass `mask == 0`; if it holds 1. and 0., pass `mask.bool()`"
        )
    if tuple(mask.shape) != shape:
        raise InputError(
            f"{name} has shape {tuple(mask.shape)}: expected {shape}, (batch, length), one entry per token"
        )
    return mask.bool()  # (B, S)


def as_document_ids(documents: Tensor | None, keep: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """Checks the document number of each token. Padding gets the number of the token before it, or of the first."""
    if documents is None:
        return None
    if documents.dtype.is_floating_point or documents.dtype.is_complex or documents.dtype == torch.bool:
        raise InputError(f"documents have dtype {documents.dtype}: expected integers, one number per document of a row")
    if tuple(documents.shape) != shape:
        raise InputError(f"documents have shape {tuple(documents.shape)}: expected {shape}, (batch, length)")
    if keep is not None:
        place = torch.arange(shape[1], device=documents.device)
        first = keep.int().argmax(dim=1, keepdim=True)  # (B, 1)
        documents = documents.gather(1, (place * keep).cummax(dim=1).values.maximum(first))  # (B, T)
    ordered = documents.sort(dim=1).values
    changes, kinds = ((x[:, 1:] != x[:, :-1]).sum(dim=1) for x in (documents, ordered))
    if (changes != kinds).any():
        row = int((changes != kinds).int().argmax())
        raise InputError(
            f"documents of row {row + 1} return to an earlier number: expected the tokens of a document side by side. "
            f"Number the documents of a row in order, such as 0 0 0 1 1 2"
        )
    return documents  # (B, T)


@contextmanager
def watched_by(watcher: Callable[..., None]) -> Iterator[None]:
    """Calls the watcher at every step computed inside the `with` block, in this thread only."""
    global _watching
    token = _watchers.set((*_watchers.get(), watcher))
    _watching += 1
    try:
        yield
    finally:
        _watching -= 1
        _watchers.reset(token)


def watch_for(stack: nn.Module) -> Callable[..., None] | None:
    """The function that passes this stack's steps to the watchers of this thread; None if there are none."""
    if not _watching:
        return None
    listening = _watchers.get()

    def watch(*seen: Any) -> None:
        for watcher in listening:
            watcher(stack, *seen)

    return watch if listening else None
