"""The mechanism of watching: a `Listener` gets every step of a model's calls and decides what to keep.

    class Shapes(Listener):
        def passes(self, name, value, axis):
            print(name, tuple(value.shape))

    with listening(model, Shapes()):
        model(input_ids)

The core itself reports each attention step and the residual stream after each branch; hooks on modules report the
other steps. Only calls of this model in this thread are reported, and the outputs do not change.
Read next: `record.py`, which keeps tensors.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from glassformer.core.attention import Attention, AttentionInput, split_heads
from glassformer.core.block import Block
from glassformer.core.cache import Cache
from glassformer.core.context import Context, watched_by
from glassformer.core.heads import ClassHead, SpanHead
from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.watch.activations import bridge_outputs, parts_of_block, parts_of_stack, stacks_of

See = Callable[[str, Tensor, int | None], None]  # name, value, axis: the arguments of `Listener.passes`


class Listener:
    """The events of a call. Override the ones you need; names are those of `activations.py`."""

    def begins(self) -> None:
        """A stack was called."""

    def attends(self, name: str, attending: AttentionInput, cache: Cache | None) -> None:
        """Attention is about to be computed from these q, k, v and mask."""

    def passes(self, name: str, value: Tensor, axis: int | None) -> None:
        """A step was computed. `axis` is the axis of its rows (tokens); None for steps outside the stacks."""

    def ends(self, cache: Cache | None, length: int) -> None:
        """A stack finished a call on `length` rows, or a layer called on its own finished attention."""


@contextmanager
def listening(model: nn.Module, listener: Listener, *, steps: bool = True) -> Iterator[None]:
    """Reports calls inside the `with` block to the listener; without `steps`, only what the core itself reports."""
    calls = Calls(model, listener)
    handles = calls.hooks(model, steps)
    try:
        with watched_by(calls.told):
            yield
    finally:
        for handle in handles:
            handle.remove()


class Calls:
    """Passes the calls of one model in one thread to a listener: other threads may call the same hooked modules."""

    def __init__(self, model: nn.Module, listener: Listener) -> None:
        self.listener = listener
        self.prefixes = {stack: prefix for prefix, stack in stacks_of(model)}
        self.thread = threading.get_ident()
        self.running: nn.Module | None = None

    @property
    def is_ours(self) -> bool:
        return threading.get_ident() == self.thread

    def hooks(self, model: nn.Module, steps: bool) -> list[Any]:
        handles = []
        for stack, prefix in self.prefixes.items():
            handles += hooks_on_stack(stack, prefix, self.seen) if steps else []
            handles.append(stack.register_forward_pre_hook(self.begin))
            handles.append(stack.register_forward_hook(self.end, with_kwargs=True))
        return handles + (hooks_outside(model, self.seen) if steps and isinstance(model, Transformer) else [])

    def begin(self, stack: nn.Module, args: Any) -> None:
        if self.is_ours:
            self.running = stack
            self.listener.begins()

    def told(self, stack: Stack, context: Context, layer: int, step: str, value: Any) -> None:
        """Called by the core, for every model that runs in this thread."""
        if stack not in self.prefixes:
            return
        name = f"{self.prefixes[stack]}blocks.{layer}.{step}"
        if not isinstance(value, AttentionInput):
            self.listener.passes(name, value, 1)
            return
        self.listener.attends(name, value, context.cache)
        if stack is not self.running:  # a layer called on its own, outside a stack
            self.listener.ends(context.cache, value.mask.queries)

    def seen(self, name: str, value: Tensor, axis: int | None) -> None:
        """Called by a hook, in any thread."""
        if self.is_ours:
            self.listener.passes(name, value, axis)

    def end(self, stack: nn.Module, args: Any, kwargs: dict[str, Any], made: Tensor) -> None:
        if self.is_ours:
            self.running = None
            self.listener.ends(kwargs.get("cache"), made.shape[1])


def hooks_on_stack(stack: Stack, prefix: str, see: See) -> list[Any]:
    """Hooks for the steps inside a stack that the core does not report."""
    layer = 0  # the running layer: several layers may share a block

    def of_stack(path: str, module: nn.Module, args: Any, made: Tensor) -> None:
        see(prefix + path, made, 1)

    def of_layer(step: str, module: nn.Module, args: Any, made: Tensor) -> None:
        see(f"{prefix}blocks.{layer}.{step}", made, 1)

    def enter(block: nn.Module, args: Any) -> None:
        nonlocal layer
        layer = args[2]
        if layer == 0:
            see(f"{prefix}placed", args[0], 1)

    def mixed(site: str, heads: int, module: nn.Module, args: Any) -> None:
        see(f"{prefix}blocks.{layer}.{site}.mixed", split_heads(args[0], heads), 2)

    def hidden(module: nn.Module, args: Any) -> None:
        see(f"{prefix}blocks.{layer}.ffn.hidden", args[0], 1)

    handles = [module.register_forward_hook(partial(of_stack, path)) for path, module in parts_of_stack(stack)]
    for block in stack.blocks:
        assert isinstance(block, Block)
        handles.append(block.register_forward_pre_hook(enter))
        handles += [module.register_forward_hook(partial(of_layer, step)) for step, module in parts_of_block(block)]
        for site, attention in block.named_children():
            if isinstance(attention, Attention):
                seen = partial(mixed, site, attention.num_heads)
                handles.append(attention.out.register_forward_pre_hook(seen))
        handles.append(block.ffn.down.register_forward_pre_hook(hidden))
    return handles


def hooks_outside(model: Transformer, see: See) -> list[Any]:
    """Hooks for the steps between and after the stacks."""

    def part(name: str, module: nn.Module, args: Any, made: Tensor) -> None:
        see(name, made, None)

    def answer(module: nn.Module, args: Any, made: Any) -> None:
        if isinstance(module, SpanHead):
            named = {"start_logits": made[0], "end_logits": made[1]}
        elif isinstance(module, ClassHead):
            named = {"head.pooled": made[1], "logits": made[0]}
        else:
            named = {"logits": made}
        for name, value in named.items():
            if value is not None:
                see(name, value, None)

    def whole(module: nn.Module, args: Any, made: Any) -> None:
        for name in ("logits", "loss"):  # logits again: instance norm is undone after the head
            if getattr(made, name) is not None:
                see(name, getattr(made, name), None)

    handles = [
        module.register_forward_hook(partial(part, f"{site}.{name}"))
        for site, outside in (("memory", model.memory), ("head", model.head))
        for name, module in bridge_outputs(outside)
    ]
    if model.head is not None:
        handles.append(model.head.register_forward_hook(answer))
    return [*handles, model.register_forward_hook(whole)]
