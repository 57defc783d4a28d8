"""FLOPs of each step of a forward pass, from PyTorch's own counter: a multiply-add counts as two.

Only matrix products, convolutions and attention count, as is usual: norms and activations are negligible beside them.
A causal mask saves nothing. The counter is read when a module starts and ends, so the steps add up to its total.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core.attention import Attention
from glassformer.core.block import Block
from glassformer.core.model import Transformer
from glassformer.inspect.ledger.sites import of_layer, step_of_module


@torch.no_grad()
def flops_by_step(model: Transformer, inputs: Mapping[str, Tensor]) -> dict[str, int]:
    """FLOPs of one call by step. Attention is counted in its unfused form: the fused kernel needs the same number."""
    counter, found, running = FlopCounterMode(display=False), dict[str, int](), list[int]()
    layer = 0  # the running layer; several layers may share a block

    def begin(path: str, module: nn.Module, args: Any) -> None:
        nonlocal layer
        if isinstance(module, Block):
            layer = args[2]
        running.append(counter.get_total_flops())

    def end(path: str, module: nn.Module, args: Any, made: Any) -> None:
        now, before = counter.get_total_flops(), running.pop()
        running[:] = [start + now - before for start in running]  # do not count inner modules twice
        path = of_layer(path, layer)
        if isinstance(module, Attention):  # q k^T and weights v are products of the same size
            add(found, f"{path}.scores", (now - before) // 2)
            add(found, f"{path}.mixed", (now - before) // 2)
        else:
            add(found, step_of_module(path, model.config.head), now - before)

    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(_with(begin, path)))
        handles.append(module.register_forward_hook(_with(end, path)))
    try:
        with sdpa_kernel(SDPBackend.MATH), counter:
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    assert sum(found.values()) == counter.get_total_flops()
    return found


def add(found: dict[str, int], step: str, number: int) -> None:
    if number:
        found[step] = found.get(step, 0) + number


def _with(hook: Any, path: str) -> Any:
    return lambda *args: hook(path, *args)
