"""Attention maps beside the fused kernel: the output is the same to the last bit, watched or not.

with gf.record(model, attention=True) as seen:
    model(input_ids)
seen["decoder.blocks.0.attn"]   # (B, H, T, S)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.attention import Attention, attention_weights
from glassformer.core.context import Context, Mask, watchers
from glassformer.core.stack import Stack
from glassformer.errors import InputError, nearest


class Record(Mapping[str, Tensor]):
    """What was seen of the last pass, by name. The steps of a generation with a cache are one pass."""

    def __init__(self, model: nn.Module) -> None:
        self._prefix = {module: f"{name}." if name else "" for name, module in _stacks(model)}
        self._seen: dict[str, Tensor] = {}

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
        weights = attention_weights(q, k, mask.tile(slice(0, mask.queries), slice(0, mask.keys), q.dtype))
        continues = context.cache is not None and context.cache.length > q.shape[2]
        if continues and name in self._seen:
            before = self._seen[name]
            weights = torch.cat([F.pad(before, (0, weights.shape[3] - before.shape[3])), weights], dim=2)
        self._seen[name] = weights


@contextmanager
def record(model: nn.Module, *, attention: bool = True) -> Iterator[Record]:
    """Records the attention weights of every layer of `model` that runs inside the `with`, in this thread."""
    if not _stacks(model):
        raise InputError(f"a {type(model).__name__} has no Stack inside: give a Transformer or a Stack")
    seen = Record(model)
    token = watchers.set((*watchers.get(), seen.watch)) if attention else None
    try:
        yield seen
    finally:
        if token is not None:
            watchers.reset(token)


def _stacks(model: nn.Module) -> list[tuple[str, Stack]]:
    return [(name, module) for name, module in model.named_modules() if isinstance(module, Stack)]
