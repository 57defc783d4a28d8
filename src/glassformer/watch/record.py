"""Records attention weights and activations of a call. The output is bit for bit the same, recorded or not.

    with gf.record(model) as seen:
        model(input_ids)
    seen["decoder.blocks.0.attn"]  # (B, H, T, S)

    gf.record(model, attention="decoder.blocks.*.cross", heads=[2], rows=[0, 7])   # computes only these
    gf.record(model, attention=False, activations=["*.ffn.hidden", "*_residual"])  # any step of `activations.py`

Attention weights have the name of their module, everything else the name of its step. The weights are computed from q
and k separately, so the model itself keeps using the fused kernel.
Read next: `inspect/steps/step.py`, which explains every step and finds the line that computes it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.attention import AttentionInput, attention_scores, attention_weights
from glassformer.core.cache import Cache
from glassformer.errors import InputError, did_you_mean
from glassformer.watch.activations import activation_names, attention_names, stacks_of
from glassformer.watch.listen import Listener, listening

Names = bool | str | Sequence[str]  # all or none, a name, or several; `*` matches anything
RowSelection = slice | Sequence[int] | None


class RecordedPart(NamedTuple):
    """A tensor of the running call, the axis of its rows, and which rows it has (None: all)."""

    value: Tensor
    axis: int | None
    rows: list[int] | None = None
    over_keys: bool = False  # the last axis is the keys, which grow with every call


class Record(Mapping[str, Tensor], Listener):
    """The recorded tensors of the last pass, by name, in the order of computation.

    All calls with one cache are one pass, with rows numbered from the first call on. Steps of the head are those of
    the last call alone.
    """

    def __init__(
        self, model: nn.Module, attention: Names, heads: Sequence[int] | None, rows: RowSelection, also: Names
    ):
        self._attention = matching_names(attention, attention_names(model), "attention")
        self._activations = matching_names(also, activation_names(model), "activation")
        check_indices("heads", heads)
        check_indices("rows", None if isinstance(rows, slice) else rows)
        self._heads, self._rows = heads, rows
        for name in self._attention if heads is not None else ():
            check_heads(heads, name, model)
        self._call: dict[str, RecordedPart] = {}
        self._seen: dict[str, Tensor] = {}
        self._of_cache: WeakKeyDictionary[Cache, dict[str, tuple[Tensor, list[int], int]]] = WeakKeyDictionary()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._seen:
            raise KeyError(f"nothing was recorded as {name!r}{did_you_mean(name, self._seen)}")
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def has_steps(self) -> bool:
        """Whether anything but attention weights is recorded."""
        return bool(self._activations)

    def begins(self) -> None:
        self._call.clear()  # a call that raised may have left something

    @torch.no_grad()
    def attends(self, name: str, attending: AttentionInput, cache: Cache | None) -> None:
        self.passes(f"{name}.q", attending.q, 2)
        for part, tensor in (("k", attending.k), ("v", attending.v)):  # with a cache, of all rows so far
            if f"{name}.{part}" in self._activations:
                self._call[f"{name}.{part}"] = RecordedPart(
                    tensor.detach().clone(), None
                )  # the cache overwrites its buffers
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
            self._call[name] = RecordedPart(value.detach(), axis)

    def ends(self, cache: Cache | None, length: int) -> None:
        """Adds the call to the record: its rows follow those of earlier calls with the same cache."""
        for name, piece in self._call.items():
            self._seen[name] = piece.value if cache is None else self._continued(name, piece, cache, length)
        self._call.clear()

    def _compute(self, formula: Callable[..., Tensor], attending: AttentionInput, cache: Cache | None) -> RecordedPart:
        """The scores or weights of the chosen heads and rows."""
        attention, q, k, _, mask = attending
        chosen = range(attention.num_heads) if self._heads is None else self._heads
        heads = [head % attention.num_heads for head in chosen]
        if self._heads is not None:
            q, k = q[:, heads], k[:, [head * attention.num_kv_heads // attention.num_heads for head in heads]]
        start = 0 if cache is None else cache.length - mask.queries
        parts, rows = [q.new_zeros(len(q), len(heads), 0, mask.keys)], list[int]()
        for run in row_slices(self._rows, start, mask.queries, whole=cache is None):
            tile = mask.of_rows(run, q.dtype)  # (B, H, T, S), H may be 1
            if tile is not None and self._heads is not None and tile.shape[1] > 1:
                tile = tile[:, heads]
            parts.append(formula(q[:, :, run], k, tile, scale=attention.scale, cap=attention.cap))
            rows += range(start + run.start, start + run.stop) if self._rows is not None else ()
        made = torch.cat(parts, dim=2) if len(parts) > 2 else parts[-1]
        if cache is None and self._rows is not None and not isinstance(self._rows, slice):
            made = made[:, :, [rows.index(row % mask.queries) for row in self._rows]]  # in the requested order
        return RecordedPart(made, 2, None if self._rows is None else rows, over_keys=True)

    def _continued(self, name: str, piece: RecordedPart, cache: Cache, length: int) -> Tensor:
        """The rows of earlier calls with this cache, cropped and reordered like the cache, followed by these rows."""
        start, (value, axis, rows, over_keys) = cache.length - length, piece
        if axis is None:
            return value
        # In a call with a prefix, steps that see the tokens only have fewer rows.
        new = list(range(cache.length - value.shape[axis], cache.length)) if rows is None else rows
        known, kept, followed = self._of_cache.get(cache, {}).get(name, (None, [], 0))
        if known is not None:
            for order in cache.reorders[followed:]:
                known = known[order]
            kept = [row for row in kept if row < start]
            known = known.narrow(axis, 0, len(kept))
            if over_keys:  # later calls have more keys; after a crop, fewer
                masked, more = -torch.inf if name.endswith(".scores") else 0.0, value.shape[3] - known.shape[3]
                known = F.pad(known, (0, max(0, more)), value=masked)[..., : value.shape[3]]
            value = torch.cat([known, value], dim=axis)
        self._of_cache.setdefault(cache, {})[name] = (value, kept + new, len(cache.reorders))
        return value


@contextmanager
def record(
    model: nn.Module,
    *,
    attention: Names = True,
    heads: Sequence[int] | None = None,
    rows: RowSelection = None,
    activations: Names = (),
) -> Iterator[Record]:
    """Records attention weights and the named steps of `model` inside the `with` block, in this thread.

    `heads` and `rows` (queries) select which weights and scores are computed, in the given order (default: all). With a
    cache, rows are in the order of computation.
    """
    if not stacks_of(model):
        raise InputError(f"a {type(model).__name__} has no Stack inside: give a Transformer or a Stack")
    seen = Record(model, attention, heads, rows, activations)
    with listening(model, seen, steps=seen.has_steps):
        yield seen


def matching_names(wanted: Names, known: list[str], kind: str) -> frozenset[str]:
    """The known names that match. A pattern without a match is an error."""
    if isinstance(wanted, bool):
        return frozenset(known if wanted else ())
    found: set[str] = set()
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        matches = [name for name in known if fnmatchcase(name, pattern)]
        if not matches:
            raise InputError(f"this model has no {kind} {pattern!r}{did_you_mean(pattern, known)}")
        found.update(matches)
    return frozenset(found)


def check_indices(name: str, indices: Any) -> None:
    if indices is None:
        return
    are_numbers = isinstance(indices, Sequence) and all(type(index) is int for index in indices)
    if not are_numbers or not indices:
        raise InputError(f"{name} is {indices!r}: expected a list of one or more whole numbers, such as [0, 2]")


def check_heads(heads: Sequence[int] | None, name: str, model: nn.Module) -> None:
    number = next(stack.config.num_heads for prefix, stack in stacks_of(model) if name.startswith(prefix))
    for head in heads or ():
        if not -number <= head < number:
            raise InputError(f"{name} has no head {head}: expected a number from 0 to {number - 1}")


def row_slices(rows: RowSelection, start: int, length: int, *, whole: bool) -> list[slice]:
    """The chosen rows of a call, as slices of it. The call has `length` rows, from row `start` of the pass on.

    Negative rows, and a check of the upper bound, need a `whole` sequence: with a cache its end is unknown.
    """
    if rows is None:
        return [slice(0, length)]
    if isinstance(rows, slice):
        if not whole and min(rows.start or 0, rows.stop or 0) < 0:
            raise InputError(f"rows is {rows}: with a cache the end is not known yet. Count from the first row, 0")
        chosen = list(range(*rows.indices(start + length)))
    else:
        wrong = next((row for row in rows if (whole and not -length <= row < length) or (row < 0 and not whole)), None)
        if wrong is not None:
            raise InputError(f"rows holds {wrong}: expected rows from 0 to {start + length - 1}")
        chosen = [row % length if whole else row for row in rows]
    found: list[slice] = []
    for row in sorted({row - start for row in chosen if start <= row < start + length}):
        if found and found[-1].stop == row:
            found[-1] = slice(found[-1].start, row + 1)
        else:
            found.append(slice(row, row + 1))
    return found
