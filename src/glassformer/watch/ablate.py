"""Runs a model with some attention heads switched off (Michel et al., 2019).

    with ablate(model, ["decoder.blocks.0.cross.3"]):
        model(...)

A head is named by the path of its attention and its number; `*` matches anything. Paths count layers, so a head can be
switched off in one of several layers that share a block. The output of the head is set to 0 before the output
projection; the bias of the projection stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import local
from typing import Any

from torch import Tensor, nn

from glassformer.core.attention import Attention
from glassformer.errors import InputError, did_you_mean
from glassformer.watch.activations import attention_names, stacks_of
from glassformer.watch.names import StepName, split_head, split_name


@dataclass(frozen=True)
class Site:
    """The attention module of a layer, and the layer: layers that share a block share the module."""

    attention: Attention
    layer: int


@contextmanager
def ablate(model: nn.Module, heads: Sequence[str]) -> Iterator[list[str]]:
    """Switches heads off inside the `with` block, in every thread. Yields their names, with patterns expanded."""
    sites, chosen = attention_sites(model), choose_heads(model, heads)
    by_module: dict[Attention, dict[int, list[int]]] = {}
    for name in chosen:
        path, head = split_head(name)
        site = sites[path]
        by_module.setdefault(site.attention, {}).setdefault(site.layer, []).append(int(head))
    with ExitStack() as hooks:
        for attention, lost in by_module.items():
            hooks.enter_context(_without(attention, lost))
        yield chosen


@contextmanager
def _without(attention: Attention, lost: Mapping[int, Sequence[int]]) -> Iterator[None]:
    """Zeroes heads of one module, per layer. Two hooks, because only the attention knows the layer, not its `out`."""
    current, width = local(), attention.head_dim

    def remember(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        current.layer = named["layer"] if "layer" in named else inputs[2]

    def silence(_: nn.Module, inputs: tuple[Tensor]) -> Tensor | None:
        heads = lost.get(current.layer)
        if heads is None:
            return None
        mixed = inputs[0].unflatten(-1, (-1, width)).clone()  # (B, T, H, K)
        mixed[..., heads, :] = 0.0
        return mixed.flatten(-2)  # (B, T, H*K)

    handles = (
        attention.register_forward_pre_hook(remember, with_kwargs=True),
        attention.out.register_forward_pre_hook(silence),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def attention_sites(model: nn.Module) -> dict[str, Site]:
    """All attention modules by path, such as `decoder.blocks.0.cross`."""
    sites = {}
    for prefix, stack in stacks_of(model):
        for path in attention_names(stack):
            _, layer, part = StepName.parse(path)
            assert layer is not None
            sites[prefix + path] = Site(getattr(stack.block_of(layer), part), layer)
    if not sites:
        raise InputError(f"a {type(model).__name__} has no Stack inside: give a Transformer or a Stack")
    return sites


def choose_heads(model: nn.Module, heads: Sequence[str]) -> list[str]:
    """The heads that match these names and patterns, without duplicates, in the order of the model."""
    if isinstance(heads, str):
        raise InputError(f"heads is {heads!r}: expected a list of names, such as [{heads!r}]")
    if not heads:
        raise InputError("no head given. Name at least one, such as decoder.blocks.0.attn.2, or * for all")
    sites = attention_sites(model)
    known = [f"{path}.{head}" for path, site in sites.items() for head in range(site.attention.num_heads)]
    chosen = set()
    for wanted in heads:
        found = [name for name in known if fnmatchcase(name, wanted)]
        if not found:
            raise _no_such_head(wanted, sites)
        chosen.update(found)
    return [name for name in known if name in chosen]


def _no_such_head(wanted: str, sites: Mapping[str, Site]) -> InputError:
    path, head = split_head(wanted)
    matched = [name for name in sites if fnmatchcase(name, path)]
    if matched:
        number = sites[matched[0]].attention.num_heads
        return InputError(f"{path} has no head {head!r}: expected a number from 0 to {number - 1}")
    if wanted in sites:
        return InputError(f"{wanted} is not a head: add its number, as in {wanted}.0, or give {wanted}.* for all")
    stack, layer, _ = split_name(wanted)
    layers = sorted({site.layer for name, site in sites.items() if name.startswith(f"{stack}.")})
    if layers and layer.isdigit() and int(layer) not in layers:
        count = len(layers)
        return InputError(f"{wanted}: the {stack} has no layer {layer}, expected a number from 0 to {count - 1}")
    return InputError(
        f"{wanted} is not a head; expected a path and a number, such as "
        f"{next(iter(sites))}.0{did_you_mean(path, sites)}"
    )
