"""Attention maps and activations beside the computation: the output is the same to the last bit, watched or not.

    with gf.record(model) as seen:
        model(input_ids)
    seen["decoder.blocks.0.attn"]  # (B, H, T, S)

    gf.record(model, attention="decoder.blocks.*.cross", heads=[2], rows=[0, 7])   # only these are computed
    gf.record(model, attention=False, activations=["*.ffn.hidden", "*_residual"])  # any step of `activations.py`

Attention weights are called as the module that makes them, everything else as its step. The weights are worked out
from q and k beside the fused kernel, so that it need not be left for the sake of a look.
Read next: `inspect/steps/step.py`, which says of every step what it is and which line computes it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.attention import Attending, attention_scores, attention_weights
from glassformer.core.cache import Cache
from glassformer.errors import InputError, nearest
from glassformer.watch.activations import activation_names, attention_names, stacks_of
from glassformer.watch.listen import Listener, listening

Names = bool | str | Sequence[str]  # all or none, a name, or several; `*` stands for anything in one
Rows = slice | Sequence[int] | None


class Piece(NamedTuple):
    """A tensor of the call that runs, which axis its rows are counted along, and which rows it has: None for all."""

    value: Tensor
    axis: int | None
    rows: list[int] | None = None
    over_keys: bool = False  # the last axis grows with every call


class Record(Mapping[str, Tensor], Listener):
    """What was seen of the last pass, by name, in the order of computation. All calls with one cache are one pass.

    Only a head answers for each call by itself. Rows are counted from the first that the cache has seen.
    """

    def __init__(self, model: nn.Module, attention: Names, heads: Sequence[int] | None, rows: Rows, also: Names):
        self._attention = choose(attention, attention_names(model), "attention")
        self._activations = choose(also, activation_names(model), "activation")
        check_indices("heads", heads)
        check_indices("rows", None if isinstance(rows, slice) else rows)
        self._heads, self._rows = heads, rows
        for name in self._attention if heads is not None else ():
            check_heads(heads, name, model)
        self._call: dict[str, Piece] = {}
        self._seen: dict[str, Tensor] = {}
        self._of_cache: WeakKeyDictionary[Cache, dict[str, tuple[Tensor, list[int], int]]] = WeakKeyDictionary()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._seen:
            raise KeyError(f"nothing was recorded as {name!r}{nearest(name, self._seen)}")
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def has_steps(self) -> bool:
        """Whether it records anything but attention weights."""
        return bool(self._activations)

    def begins(self) -> None:
        self._call.clear()  # what a refused call left

    @torch.no_grad()
    def attends(self, name: str, attending: Attending, cache: Cache | None) -> None:
        self.passes(f"{name}.q", attending.q, 2)
        for part, tensor in (("k", attending.k), ("v", attending.v)):  # of all rows so far
            if f"{name}.{part}" in self._activations:
                self._call[f"{name}.{part}"] = Piece(tensor.detach().clone(), None)  # a cache writes over its own
        if f"{name}.scores" in self._activations:
            self._call[f"{name}.scores"] = self._compute(attention_scores, attending, cache)
        if name in self._attention:
            self._call[name] = self._compute(attention_weights, attending, cache)

    def passes(self, name: str, value: Tensor, axis: int | None) -> None:
        if name not in self._activations:
            return
        if axis is None:  # outside the stacks
            self._seen[name] = value.detach()
        else:
            self._call[name] = Piece(value.detach(), axis)

    def ends(self, cache: Cache | None, length: int) -> None:
        """The rows of this call come after those of the earlier calls with its cache."""
        for name, piece in self._call.items():
            self._seen[name] = piece.value if cache is None else self._continued(name, piece, cache, length)
        self._call.clear()

    def _compute(self, formula: Callable[..., Tensor], attending: Attending, cache: Cache | None) -> Piece:
        """Scores or weights of the chosen heads and rows."""
        attention, q, k, _, mask = attending
        chosen = range(attention.num_heads) if self._heads is None else self._heads
        heads = [head % attention.num_heads for head in chosen]
        if self._heads is not None:
            q, k = q[:, heads], k[:, [head * attention.num_kv_heads // attention.num_heads for head in heads]]
        start = 0 if cache is None else cache.length - mask.queries
        parts, rows = [q.new_zeros(len(q), len(heads), 0, mask.keys)], list[int]()
        for run in runs_of(self._rows, start, mask.queries, whole=cache is None):
            tile = mask.of_rows(run, q.dtype)  # (B, H, T, S), H may be 1
            if tile is not None and self._heads is not None and tile.shape[1] > 1:
                tile = tile[:, heads]
            parts.append(formula(q[:, :, run], k, tile, scale=attention.scale, cap=attention.cap))
            rows += range(start + run.start, start + run.stop) if self._rows is not None else ()
        made = torch.cat(parts, dim=2) if len(parts) > 2 else parts[-1]
        if cache is None and self._rows is not None and not isinstance(self._rows, slice):
            made = made[:, :, [rows.index(row % mask.queries) for row in self._rows]]  # as they were asked for
        return Piece(made, 2, None if self._rows is None else rows, over_keys=True)

    def _continued(self, name: str, piece: Piece, cache: Cache, length: int) -> Tensor:
        """These rows after those of the earlier calls with this cache, cropped and reordered as it was since."""
        start, (value, axis, rows, over_keys) = cache.length - length, piece
        if axis is None:
            return value
        # Of a call with a prefix, what is made of the tokens alone has fewer rows.
        new = list(range(cache.length - value.shape[axis], cache.length)) if rows is None else rows
        known, kept, followed = self._of_cache.get(cache, {}).get(name, (None, [], 0))
        if known is not None:
            for order in cache.reorders[followed:]:
                known = known[order]
            kept = [row for row in kept if row < start]
            known = known.narrow(axis, 0, len(kept))
            if over_keys:  # each later call sees more of them; a cropped one, fewer
                nothing, more = -torch.inf if name.endswith(".scores") else 0.0, value.shape[3] - known.shape[3]
                known = F.pad(known, (0, max(0, more)), value=nothing)[..., : value.shape[3]]
            value = torch.cat([known, value], dim=axis)
        self._of_cache.setdefault(cache, {})[name] = (value, kept + new, len(cache.reorders))
        return value


@contextmanager
def record(
    model: nn.Module,
    *,
    attention: Names = True,
    heads: Sequence[int] | None = None,
    rows: Rows = None,
    activations: Names = (),
) -> Iterator[Record]:
    """Records what `model` does inside the `with`, in this thread: attention weights, and the steps that are named.

    `heads` and `rows` (the queries) choose what is computed of weights and scores, in this order; of both, all if not
    given. With a cache, rows come as they are computed.
    """
    if not stacks_of(model):
        raise InputError(f"a {type(model).__name__} has no Stack inside: give a Transformer or a Stack")
    seen = Record(model, attention, heads, rows, activations)
    with listening(model, seen, steps=seen.has_steps):
        yield seen


def choose(wanted: Names, known: list[str], kind: str) -> frozenset[str]:
    """The known names that are meant. One that means none is an error."""
    if isinstance(wanted, bool):
        return frozenset(known if wanted else ())
    found: set[str] = set()
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        matches = [name for name in known if fnmatchcase(name, pattern)]
        if not matches:
            raise InputError(f"this model has no {kind} {pattern!r}{nearest(pattern, known)}")
        found.update(matches)
    return frozenset(found)


def check_indices(name: str, indices: Any) -> None:
    if indices is None:
        return
    are_numbers = isinstance(indices, Sequence) and all(type(index) is int for index in indices)
    if not are_numbers or not indices:
        raise InputError(f"{name} are {indices!r}: expected one or more whole numbers, such as [0, 2]")


def check_heads(heads: Sequence[int] | None, name: str, model: nn.Module) -> None:
    number = next(stack.config.num_heads for prefix, stack in stacks_of(model) if name.startswith(prefix))
    for head in heads or ():
        if not -number <= head < number:
            raise InputError(f"{name} has no head {head}: it has {number}, counted from 0 to {number - 1}")


def runs_of(rows: Rows, start: int, length: int, *, whole: bool) -> list[slice]:
    """The chosen rows of a call as slices of it. The call has `length` rows and begins at row `start` of all.

    Only a `whole` sequence has an end to count back from, or to be beyond.
    """
    if rows is None:
        return [slice(0, length)]
    if isinstance(rows, slice):
        if not whole and min(rows.start or 0, rows.stop or 0) < 0:
            raise InputError(f"rows are {rows}: with a cache the end is not known yet. Count from the first row, 0")
        chosen = list(range(*rows.indices(start + length)))
    else:
        wrong = next((row for row in rows if (whole and not -length <= row < length) or (row < 0 and not whole)), None)
        if wrong is not None:
            raise InputError(f"rows hold {wrong}: this pass has rows 0 to {start + length - 1}")
        chosen = [row % length if whole else row for row in rows]
    found: list[slice] = []
    for row in sorted({row - start for row in chosen if start <= row < start + length}):
        if found and found[-1].stop == row:
            found[-1] = slice(found[-1].start, row + 1)
        else:
            found.append(slice(row, row + 1))
    return found
