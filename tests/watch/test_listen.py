"""Listening: reports every step in `activations.py`, of one model in one thread, and removes its hooks."""

import threading
from typing import Any

import pytest
import torch
from helpers.step_models import MODELS, make
from torch import Tensor

import glassformer as gf
from glassformer.checkpoints.example import make_example
from glassformer.core.attention import AttentionInput
from glassformer.core.cache import Cache
from glassformer.core.stack import Stack
from glassformer.watch.activations import activation_names, attention_names
from glassformer.watch.listen import Listener, listening


class Heard(Listener):
    """Keeps all events, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def begins(self) -> None:
        self.told.append(("begins",))

    def attends(self, name: str, attending: AttentionInput, cache: Cache | None) -> None:
        self.told.append(("attends", name, tuple(attending.q.shape)))

    def passes(self, name: str, value: Tensor, axis: int | None) -> None:
        self.told.append(("passes", name, axis))

    def ends(self, cache: Cache | None, length: int) -> None:
        self.told.append(("ends", cache, length))

    def of(self, kind: str) -> list[Any]:
        return [told[1] if len(told) > 1 else None for told in self.told if told[0] == kind]


@pytest.mark.parametrize("name", MODELS)
def test_every_step_is_told_by_its_name(name: str) -> None:
    model = make(name)
    inputs = make_example(model.config)
    with torch.no_grad(), listening(model, heard := Heard()):
        model(**inputs)
    inside = {f"{site}.{part}" for site in attention_names(model) for part in ("q", "k", "v", "scores")}  # of `attends`
    assert heard.of("attends") == attention_names(model)
    assert set(heard.of("passes")) == set(activation_names(model)) - inside - {"loss"}
    stacks = [part for part in model.modules() if isinstance(part, Stack)]
    assert len(heard.of("begins")) == len(heard.of("ends")) == len(stacks)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with torch.no_grad():
        model(**inputs)
    assert len(heard.of("begins")) == len(stacks)  # the listener is removed


def test_without_steps_only_the_core_tells() -> None:
    model = make("llama")
    with torch.no_grad(), listening(model, heard := Heard(), steps=False):
        model(torch.zeros(1, 3, dtype=torch.long))
    assert heard.of("attends") == attention_names(model)
    assert all(name.endswith("_residual") for name in heard.of("passes"))


def test_other_models_and_other_threads_are_not_heard() -> None:
    model, other, ids = make("llama"), make("neox"), torch.zeros(1, 3, dtype=torch.long)
    with torch.no_grad(), listening(model, heard := Heard()):
        other(ids)
        thread = threading.Thread(target=lambda: model(ids))
        thread.start()
        thread.join()
        assert heard.told == []
        model(ids)
    assert heard.of("attends") == attention_names(model)


def test_a_stack_by_itself_is_recorded_row_after_row() -> None:
    """All steps are continued with the cache, including those without a dot in their name."""
    stack = make("llama").decoder
    assert stack is not None
    ids = torch.arange(5)[None]
    with torch.no_grad(), gf.record(stack, activations=["*"]) as whole:
        stack(ids)
    cache = gf.Cache()
    with torch.no_grad(), gf.record(stack, activations=["*"]) as seen:
        stack(ids[:, :3], cache=cache)
        stack(ids[:, 3:], cache=cache)
    assert {"embed", "placed", "norm"} <= set(seen)
    assert list(seen) == list(whole)
    for name in ("embed", "placed", "norm", "blocks.0.attn", "blocks.1.ffn.hidden"):
        torch.testing.assert_close(seen[name], whole[name], rtol=1e-4, atol=1e-5)
