"""Attention maps beside the fused kernel: the output is the same to the last bit, watched or not.

    with gf.record(model, attention=True) as seen:
        model(input_ids)
    seen["decoder.blocks.0.attn"]  # (B, H, T, S)

The names are the paths of the attention modules in the model.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.attention import Attention, attention_weights
from glassformer.core.cache import Cache
from glassformer.core.context import Context, Mask, watched_by
from glassformer.core.stack import Stack
from glassformer.errors import InputError, nearest


class Record(Mapping[str, Tensor]):
    """What was seen of the last pass, by name. All calls with one cache are one pass."""

    def __init__(self, model: nn.Module) -> None:
        self._prefix = {module: f"{name}." if name else "" for name, module in _stacks(model)}
        self._seen: dict[str, Tensor] = {}
        self._of_cache: WeakKeyDictionary[Cache, dict[str, tuple[Tensor, int, int]]] = WeakKeyDictionary()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._seen:
            raise KeyError(f"nothing was recorded as {name!r}{nearest(name, self._seen)}")
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    @torch.no_grad()
    def watch(
        self, stack: Stack, context: Context, layer: int, attention: Attention, q: Tensor, k: Tensor, mask: Mask
    ) -> None:
        if stack not in self._prefix:
            return
        name = f"{self._prefix[stack]}blocks.{layer}.{'cross' if attention.is_cross else 'attn'}"
        weights = attention_weights(q, k, mask.whole(q.dtype), scale=attention.scale, cap=attention.cap)
        if context.cache is not None:
            weights = self._continued(name, weights, context.cache)
        self._seen[name] = weights

    def _continued(self, name: str, weights: Tensor, cache: Cache) -> Tensor:
        """These rows after those of the earlier calls with this cache, cropped and reordered as it was since."""
        start = cache.length - weights.shape[2]
        known, first, followed = self._of_cache.get(cache, {}).get(name, (None, start, 0))
        if known is not None:
            for rows in cache.reorders[followed:]:
                known = known[rows]
            known = known[:, :, : max(0, start - first)]
            wider = max(known.shape[3], weights.shape[3])  # each later call sees more keys; a cropped one, fewer
            known = F.pad(known, (0, wider - known.shape[3]))[..., : weights.shape[3]]
            weights = torch.cat([known, weights], dim=2)
        self._of_cache.setdefault(cache, {})[name] = (weights, min(first, start), len(cache.reorders))
        return weights


@contextmanager
def record(model: nn.Module, *, attention: bool = True) -> Iterator[Record]:
    """Records the attention weights of every layer of `model` that runs inside the `with`, in this thread."""
    if not _stacks(model):
        raise InputError(f"a {type(model).__name__} has no Stack inside: give a Transformer or a Stack")
    seen = Record(model)
    with watched_by(seen.watch) if attention else nullcontext():
        yield seen


def _stacks(model: nn.Module) -> list[tuple[str, Stack]]:
    return [(name, module) for name, module in model.named_modules() if isinstance(module, Stack)]
