"""The ledger of a model: every step from the raw input to the scalar loss, with its shape, its parameters and its cost.

One forward pass on the meta device produces it, through the code that runs the model: `watch/record.py` records the
shapes, `flops.py` counts the cost. So it works for any config, even with 70 billion parameters, and cannot drift from
the code. Read next: `memory.py`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.inspect.ledger.flops import flops_by_step
from glassformer.inspect.ledger.folding import fold_layers
from glassformer.inspect.ledger.memory import MemoryUse, readable_bytes, running_memory, training_memory
from glassformer.inspect.ledger.sites import parameters_by_step
from glassformer.inspect.ledger.sizes import Sizes, config_of_model, meta_model, sized_inputs
from glassformer.inspect.steps.step import LEGEND, rows_of_series, step_of
from glassformer.watch.names import join_name, split_name
from glassformer.watch.record import record

# The inputs of a model and their axes. All later values are steps of `inspect/steps/`.
INPUTS = {
    "input_ids": ("B", "T"),
    "decoder_input_ids": ("B", "T"),
    "pixel_values": ("B", "C", "height", "width"),
    "past_values": ("B", "L", "C"),
}


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """One step. A parameter is counted on the first line that uses it, and as `shared` on later lines."""

    name: str
    axes: tuple[str, ...]  # letters as in `core/__init__.py`
    shape: tuple[int, ...]
    dtype: str
    equation: str = ""
    parameters: int = 0
    shared: int = 0
    flops: int = 0
    bytes: int = 0
    cache_bytes: int = 0  # kept in the cache during generation
    is_fused: bool = False  # computed in blocks inside the fused attention kernel, never stored whole
    times: int = 1  # number of layers that this line stands for in a folded ledger

    @property
    def legend(self) -> str:
        """B=2 T=128 D=512"""
        sizes = zip(self.axes, self.shape, strict=True)
        return " ".join(axis if axis == "1" else f"{axis}={size}" for axis, size in sizes) or "a number"


@dataclass(frozen=True)
class Ledger:
    """The lines in the order of computation, with the config, sizes and dtype they were computed for."""

    config: TransformerConfig
    sizes: Sizes
    dtype: torch.dtype
    lines: tuple[LedgerLine, ...]

    @property
    def total_parameters(self) -> int:
        return sum(line.parameters * line.times for line in self.lines)

    @property
    def total_flops(self) -> int:
        """FLOPs of the forward pass. A training step takes about three times as many: the backward pass computes two
        products for each product of the forward pass."""
        return sum(line.flops * line.times for line in self.lines)

    @property
    def cache_bytes(self) -> int:
        return sum(line.cache_bytes * line.times for line in self.lines)

    @property
    def cache_bytes_per_token(self) -> int:
        """Growth of the cache per generated token. Keys and values of a source do not grow."""
        own = [line for line in self.lines if line.cache_bytes and ".cross." not in line.name]
        return sum(line.cache_bytes * line.times // (line.shape[0] * line.shape[2]) for line in own)

    @property
    def legend(self) -> dict[str, str]:
        """The meaning of the letters in its axes."""
        used = {letter for line in self.lines for axis in line.axes for letter in axis.split("*")}
        return {letter: english for letter, (english, _) in LEGEND.items() if letter in used}

    @cached_property
    def running(self) -> MemoryUse:
        return running_memory(self.config, **self.sizes, dtype=self.dtype)

    @cached_property
    def training(self) -> MemoryUse:
        return training_memory(self.config, **self.sizes, dtype=self.dtype)

    def fold(self) -> "Ledger":
        """The ledger with identical layers merged into one set of lines."""
        stacks = {"encoder": self.config.encoder, "decoder": self.config.decoder}
        kinds = {name: stack.layer_kinds for name, stack in stacks.items() if stack}
        return replace(self, lines=tuple(fold_layers(self.lines, kinds)))

    def summary(self) -> dict[str, str]:
        """Totals, printed below the table."""
        said = {
            "parameters": f"{self.total_parameters:,}",
            "forward pass": as_flops(self.total_flops),
            "training step": f"{as_flops(3 * self.total_flops)}, forward and backward",
            "memory to run": readable_bytes(self.running.peak),
            "memory to train": f"{readable_bytes(self.training.peak)} with AdamW",
        }
        if self.cache_bytes_per_token:
            said["cache"] = f"{readable_bytes(self.cache_bytes_per_token)} per generated token"
        given = ", ".join(f"{line.name} {line.shape}" for line in self.lines if line.name in INPUTS)
        return {"for": f"{given}, {str(self.dtype).removeprefix('torch.')}", **said}

    def to_dict(self) -> dict[str, Any]:
        totals = {"parameters": self.total_parameters, "flops": self.total_flops, "cache_bytes": self.cache_bytes}
        memory = {"running": self.running.to_dict(), "training": self.training.to_dict()}
        dtype = str(self.dtype).removeprefix("torch.")
        return {"dtype": dtype, **totals, "memory": memory, "lines": [asdict(line) for line in self.lines]}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def to_html(self, title: str = "ledger") -> str:
        """A self-contained HTML page."""
        from glassformer.inspect.ledger.page import ledger_page  # it imports this module

        return ledger_page(self, title)

    def as_table(self) -> Table:
        """A table for the terminal, with a title above the steps of each layer and each stack."""
        table = Table("step", "shape", "parameters", "FLOPs", "bytes", "cache", box=None, pad_edge=False)
        for i, column in enumerate(table.columns):
            column.no_wrap = i != 1  # only the shape wraps in a narrow terminal
            column.justify = "left" if i < 2 else "right"
        for title, lines in groupby(self.lines, title_of):
            for i, line in enumerate(lines):
                if title and i == 0:
                    table.add_row(title, f"x {line.times}" if line.times > 1 else "", style="bold")
                size = f"({readable_bytes(line.bytes)})" if line.is_fused else readable_bytes(line.bytes)
                cache = readable_bytes(line.cache_bytes) if line.cache_bytes else ""
                flops = readable_number(line.flops) if line.flops else ""
                name = f"  {step_name(line).removeprefix(f'{title}.')}" if title else line.name
                table.add_row(name, line.legend, parameters_in_words(line), flops, size, cache)
        return table

    def __str__(self) -> str:
        lines = [f"{line.name}  {line.legend}  {parameters_in_words(line)}".rstrip() for line in self.lines]
        return "\n".join([*lines, *(f"{name}: {value}" for name, value in self.summary().items())])


def ledger(
    model_or_config: Transformer | TransformerConfig,
    *,
    batch: int = 1,
    length: int | None = None,
    target_length: int | None = None,
    channels: int | None = None,
    dtype: torch.dtype | None = None,
) -> Ledger:
    """The ledger of one call with labels. Of a model, only the config is used, and the dtype unless one is given.

    Lengths default to 128 tokens, or to the model's maximum if that is shorter.
    """
    config = config_of_model(model_or_config)
    if dtype is None and isinstance(model_or_config, Transformer):
        dtype = model_or_config.dtype
    dtype = dtype or torch.float32
    sizes = Sizes(batch=batch, length=length, target_length=target_length, channels=channels)
    inputs = sized_inputs(config, **sizes, dtype=dtype)
    model = meta_model(config, dtype).eval()
    with record(model, activations=True) as seen, torch.no_grad():
        model(**inputs)
    counted, shared = parameters_by_step(model, [*seen])
    flops = flops_by_step(model, inputs)
    lines = tuple(
        LedgerLine(
            name=name,
            axes=line_axes(name, tuple(value.shape), config),
            equation=equation_of(name, config),
            shape=tuple(value.shape),
            dtype=str(value.dtype).removeprefix("torch."),
            parameters=counted.get(name, 0),
            shared=shared.get(name, 0),
            flops=flops.get(name, 0),
            bytes=value.nbytes,
            cache_bytes=value.nbytes if is_cached(name, config) else 0,
            is_fused=is_fused(name, config),
        )
        for name, value in with_inputs(seen, inputs)
    )
    return Ledger(config, sizes, dtype, lines)


def layer_name(line: LedgerLine) -> str:
    """decoder.blocks.0-11.attn.q -> decoder.blocks.0-11; "" outside the layers."""
    stack, layer, _ = split_name(line.name)
    return join_name(stack, layer, "") if layer else ""


def title_of(line: LedgerLine) -> str:
    """The name of the line's layer, or of its stack outside the layers."""
    return layer_name(line) or split_name(line.name)[0]


def step_name(line: LedgerLine) -> str:
    """The name without its layer. Attention weights are recorded under the bare name of their module."""
    name = line.name.removeprefix(f"{layer_name(line)}.")
    return f"{name} (weights)" if name in ("attn", "cross") else name


def with_inputs(seen: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The recorded values, with each input before the first step that reads it."""
    first = [name for name in inputs if not name.startswith(("decoder", "labels"))]
    for name in first:
        yield name, inputs[name]
    for name, value in seen.items():
        if name == "decoder.embed" and "decoder_input_ids" in inputs:
            yield "decoder_input_ids", inputs["decoder_input_ids"]
        yield name, value


def line_axes(name: str, shape: tuple[int, ...], config: TransformerConfig) -> tuple[str, ...]:
    if name in INPUTS:
        return INPUTS[name]
    axes = step_of(name, config).axes
    if name.endswith(".embed.positions") and shape[0] == 1:
        return ("1", *axes[1:])  # the same for every row, so stored once
    if config.series and name.startswith("encoder.") and axes[0] == "B":
        return (rows_of_series(config), *axes[1:])  # every channel is a separate row
    return axes


def equation_of(name: str, config: TransformerConfig) -> str:
    return "" if name in INPUTS else step_of(name, config).equation


def is_fused(name: str, config: TransformerConfig) -> bool:
    """Whether this stays inside the fused kernel: scores and weights, unless the scores are capped."""
    is_score = name.endswith((".scores", ".attn", ".cross"))
    return is_score and getattr(config, split_name(name)[0]).score_cap is None


def is_cached(name: str, config: TransformerConfig) -> bool:
    """Whether generation caches it: the keys and values of a decoder with a language head."""
    return config.head == "language" and name.startswith("decoder.") and name.endswith((".k", ".v"))


def parameters_in_words(line: LedgerLine) -> str:
    """12,345, or 12,345 (678) with 678 parameters already counted on an earlier line."""
    own = f"{line.parameters:,}" if line.parameters else ""
    return f"{own} ({line.shared:,})".strip() if line.shared else own


def as_flops(number: float) -> str:
    return f"{readable_number(number)}FLOPs"


def readable_number(number: float) -> str:
    """A number with a unit prefix: 1.2 G."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} E"
