"""A record of one forward pass: q, k and v of every layer, norms of the residual stream, a pooled feed-forward.

Only tensors linear in the length are kept. Attention weights, which are quadratic, are computed from q and k on request
(`slices.py`). Of every other step, only name and shape are kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch.nn.functional as F
from torch import Tensor

from glassformer.core.attention import AttentionInput
from glassformer.core.cache import Cache
from glassformer.core.model import Transformer
from glassformer.explore.view.slices import AttentionInputs
from glassformer.watch.listen import Listener, listening

HIDDEN = 128  # numbers per token, pooled from the feed-forward's hidden layer


@dataclass
class RecordedPage(Listener):
    """The record, under the names of `gf.record`."""

    row: int = 0  # of the batch: the recorded one
    layers: dict[str, AttentionInputs] = field(default_factory=dict)
    norms: dict[str, Tensor] = field(default_factory=dict)  # of the stream, (T)
    hidden: dict[str, Tensor] = field(default_factory=dict)  # of the feed-forward, pooled: (T, at most 128)
    active: dict[str, Tensor] = field(default_factory=dict)  # fraction of it above 0: (T)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of every step, in order

    @property
    def bytes(self) -> int:
        rest = [*self.norms.values(), *self.hidden.values(), *self.active.values()]
        return sum(layer.bytes for layer in self.layers.values()) + sum(x.numel() * 4 for x in rest)

    def attends(self, name: str, attending: AttentionInput, cache: Cache | None) -> None:
        attention, q, k, v, mask = attending
        square = (*q.shape[:3], k.shape[2])
        shapes = {".q": q.shape, ".k": k.shape, ".v": v.shape, ".scores": square, "": square}
        self.shapes |= {f"{name}{part}": tuple(shape) for part, shape in shapes.items()}
        q, k, v = (x if len(x) == 1 else x[self.row][None].clone() for x in (q, k, v))
        without_tiles = replace(mask, _whole=[])  # drops the call's cached full mask
        self.layers[name] = AttentionInputs(q, k, v, without_tiles, self.row, attention.scale, attention.cap)

    def passes(self, name: str, value: Tensor, axis: int | None) -> None:
        self.shapes[name] = tuple(value.shape)
        if name.endswith((".placed", "_residual")):
            self.norms[name] = value[self.row].norm(dim=-1)
        elif name.endswith(".ffn.hidden"):
            self.hidden[name] = pooled(value[self.row])
            self.active[name] = (value[self.row] > 0).float().mean(dim=-1)


@contextmanager
def seeing(model: Transformer, row: int = 0) -> Iterator[RecordedPage]:
    """Records the forward passes inside the `with`, in this thread, for one row of the batch."""
    seen = RecordedPage(row)
    with listening(model, seen):
        yield seen


def pooled(hidden: Tensor) -> Tensor:
    """Pools (T, F) to at most 128 numbers per token: the largest of each group in absolute value."""
    size = -(-hidden.shape[1] // HIDDEN)
    filled = F.pad(hidden, (0, -hidden.shape[1] % size)).unflatten(1, (-1, size))  # (T, at most 128, size)
    return filled.gather(2, filled.abs().argmax(dim=2, keepdim=True)).squeeze(2)
