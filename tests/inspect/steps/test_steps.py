"""Every recordable step has a description, and the line of code that it names computes it."""

import ast
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from helpers.step_models import MODELS, labels_for, make
from torch import Tensor

import glassformer as gf
from glassformer import core
from glassformer.checkpoints.example import make_example
from glassformer.inspect.steps.step import LEGEND, line_of, step_of
from glassformer.watch.activations import activation_names, attention_names
from glassformer.watch.names import StepName

CODE = Path(core.__file__).parent.parent
INSIDE_A_LINE = {
    "ffn.gate": "gate",
    "head.project": "project",
    "memory.project": "project",
}  # computed by this submodule inside its line, without a name


class Follower:
    """Keeps every tensor that the given lines assign or return."""

    def __init__(self, places: set[tuple[str, int]]) -> None:
        self.made: dict[tuple[str, int], list[Tensor]] = {place: [] for place in places}
        self.frames: dict[tuple[str, int], list[dict[str, Any]]] = {place: [] for place in places}
        self.spans = {place: self.span(*place) for place in places}

    @staticmethod
    def span(file: str, line: int) -> range:
        nodes = ast.walk(ast.parse((CODE / file).read_text()))
        found = [n for n in nodes if isinstance(n, ast.stmt) and n.lineno == line]
        assert found, f"no statement starts at {file}:{line}"
        return range(line, (found[0].end_lineno or line) + 1)

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(CODE / "core"):
            return None
        file, pending = path.relative_to(CODE).as_posix(), set[tuple[str, int]]()

        def follow(frame: FrameType, event: str, arg: Any) -> Any:
            for place in [place for place in pending if event == "return" or frame.f_lineno not in self.spans[place]]:
                pending.discard(place)
                values = [*frame.f_locals.values(), *(arg if isinstance(arg, tuple) else [arg])]
                self.made[place] += [value for value in values if isinstance(value, Tensor)]
                self.frames[place].append(dict(frame.f_locals))
            if event == "line" and (file, frame.f_lineno) in self.made:
                pending.add((file, frame.f_lineno))
            return follow

        return follow(frame, event, arg)


@pytest.mark.parametrize("name", MODELS)
def test_the_line_of_a_step_makes_what_is_recorded_of_it(name: str) -> None:
    model = make(name)
    inputs = make_example(model.config)
    names = [*activation_names(model), *attention_names(model)]
    steps = {step: step_of(step, model.config) for step in names}
    follower = Follower({(step.place.file, step.place.line) for step in steps.values()})
    labels = labels_for(model, inputs)
    with torch.no_grad(), gf.record(model, activations=["*"]) as seen:
        before = sys.gettrace()
        sys.settrace(follower.trace)
        try:
            model(**inputs, labels=labels)
        finally:
            sys.settrace(before)
    assert set(seen) == set(names)
    for step, described in steps.items():
        place = (described.place.file, described.place.line)
        inner = StepName.parse(step).step
        candidates = follower.made[place]
        if inner in INSIDE_A_LINE:
            with torch.no_grad():
                candidates = [getattr(at["self"], INSIDE_A_LINE[inner])(at["x"]) for at in follower.frames[place]]
        expected = seen[step]
        if inner.endswith(".scores"):  # the line computes the product; bias, cap and mask come later
            q, k = (seen[step.removesuffix("scores") + part] for part in "qk")
            k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
            expected = q @ k.transpose(2, 3) * getattr(model, step.split(".")[0]).config.attention_scale
        assert any(torch.equal(expected, made) for made in candidates), f"{step} is not computed at {described.place}"
        assert len(described.axes) == seen[step].ndim, (step, described.axes, seen[step].shape)


@pytest.mark.parametrize("name", MODELS)
def test_axes_are_the_sizes_of_the_model(name: str) -> None:
    """A letter whose size the config fixes has that size everywhere."""
    model = make(name)
    inputs = make_example(model.config)
    with torch.no_grad(), gf.record(model, activations=["*"]) as seen:
        model(**inputs, labels=labels_for(model, inputs))
    for step, tensor in seen.items():
        config = getattr(model.config, StepName.parse(step).stack or "", None) or model.config.last_stack
        known = {"D": config.d_model, "G": config.num_kv_heads, "K": config.head_dim} | {"H": 3, "F": 20, "V": 17}
        known |= {"Z": 3, "N": 3}
        for axis, size in zip(step_of(step, model.config).axes, tensor.shape, strict=True):
            assert all(letter in LEGEND for letter in axis.split("*")), axis
            expected = model.config.embed_dim or 12 if axis == "E" else known.get(axis, size)
            assert size == expected, f"{step} has {axis} = {size}, but the model has {expected}"


def test_every_step_speaks_both_languages_and_an_unknown_one_is_refused() -> None:
    model = make("paper")
    for name in activation_names(model):
        step = step_of(name, model.config)
        assert step.equation
        assert step.english.endswith(".")
        assert any("가" <= letter <= "힣" for letter in step.korean)
        assert step.place.code.startswith(step.statement)
    with pytest.raises(gf.InputError, match=r"no step 'encoder.blocks.0.attn.r'"):
        step_of("encoder.blocks.0.attn.r", model.config)
    with pytest.raises(LookupError, match="0 lines of step_of start with"):
        line_of(step_of, "nothing begins so")
