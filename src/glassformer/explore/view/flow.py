"""Every step of one call from input to answer, in order: name, axes, sizes and cost. Also a description per kind."""

from collections.abc import Mapping
from math import prod
from typing import Any

from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.explore.view.shown import describe_name
from glassformer.inspect.ledger.ledger import ledger
from glassformer.inspect.steps.step import Step, step_of
from glassformer.watch.activations import activation_names, attention_names
from glassformer.watch.names import StepName

ROWS_OF_SERIES = {"B*C": ("batch times channels", "배치 × 채널")}


class StepCosts:
    """The parameters and FLOPs of every step for inputs of any length, from one ledger.

    A step has a fixed cost per output number, so its FLOPs grow with its shape. Only the weighted sum of the values
    grows with the scores.
    """

    def __init__(self, model: Transformer) -> None:
        self.lines = {line.name: line for line in ledger(model).lines}

    def parameters(self, name: str) -> int:
        return self.lines[name].parameters

    def flops(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
        step = StepName.parse(name)
        grows = str(step._replace(step=f"{step.site}.scores")) if step.part == "mixed" else name
        return self.lines[name].flops * prod(shapes[grows]) // prod(self.lines[grows].shape)


def flow_of(shapes: Mapping[str, tuple[int, ...]], config: TransformerConfig, costs: StepCosts) -> list[dict[str, Any]]:
    return [
        {
            **describe_name(name),
            "axes": step_axes(name, config),
            "shape": list(shape),
            "parameters": costs.parameters(name),
            "flops": costs.flops(name, shapes),
        }
        for name, shape in shapes.items()
    ]


def step_axes(name: str, config: TransformerConfig) -> list[str]:
    """The axes of a step. In the stack that reads a series, every channel is a row of the batch."""
    axes = step_of(name, config).axes
    is_of_channels = config.series is not None and StepName.parse(name).stack == "encoder"
    return ["B*C", *axes[1:]] if is_of_channels else list(axes)


def steps_of(model: Transformer) -> dict[str, dict[str, Any]]:
    """Descriptions of a model's steps without stack and layer: decoder.blocks.2.attn.q is attn.q.

    A step that differs between encoder and decoder is listed under its full name for the encoder.
    """
    steps: dict[str, dict[str, Any]] = {}
    names = [*attention_names(model), *activation_names(model)]
    for name in sorted(names, key=lambda name: StepName.parse(name).stack == "encoder"):  # decoder first
        described = describe(step_of(name, model.config), step_axes(name, model.config))
        if steps.setdefault(StepName.parse(name).step, described) != described:
            steps[name] = described
    return steps


def describe(step: Step, axes: list[str]) -> dict[str, Any]:
    return {
        "axes": axes,
        "equation": step.equation,
        "english": step.english,
        "korean": step.korean,
        "file": step.place.file,
        "line": step.place.line,
        "code": step.place.code,
    }
