"""Decides whether to use the engine: compares the time of the plain path with the time to prepare the engine.

    choice = EngineChoice(model, "auto")
    with choice.running(Work(reads=40_000)) as (model, engine):   # packed weights and the engine, or the model and None
        ...

The engine needs at most half the time of the plain path. But first it packs the weights and compiles what this machine
has not compiled yet: the kernels, and for generation the step of this model. `auto` uses the engine when the plain path
would take three times as long as this preparation. Calls add up: many short ones justify the engine as a long one does.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import nn

from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.errors import InputError
from glassformer.generation.compiled import is_compiled
from glassformer.generation.engine import NO_END, Engine
from glassformer.generation.engine import engine as make_engine
from glassformer.generation.kernels import NoKernels, kernels_ready
from glassformer.generation.pace import paced

Use = Literal["auto", "on", "off"]

# The best speed of the plain path, so that its time is not overestimated.
READS, COMPUTES = 20e9, 100e9  # bytes of weights per second; operations per second and thread
CALL = 1e-4  # least seconds per layer

LOAD, PACK = 0.5, 0.5  # seconds to load compiled code; seconds to pack a GB of weights
KERNELS, STEP = 6.0, 20.0  # seconds to compile them
MARGIN = 3  # how many times longer the plain path must take

_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Work:
    """The size of a call."""

    reads: int  # tokens
    writes: int = 0  # tokens, those of all beams
    rows: int = 1  # texts or beams that are generated at the same time


@dataclass(frozen=True, kw_only=True)
class Size:
    """The number of weights that a model multiplies by for a token it reads and for one it writes, and of all."""

    reads: int
    writes: int
    layers: int  # of the stack that writes
    packed: int


def model_size(model: Transformer) -> Size:
    first, last = model.encoder or model.decoder, model.decoder or model.encoder
    assert first is not None
    assert last is not None
    head = 0 if model.head is None else sum(x.numel() for x in model.head.parameters())
    linears = {id(x.weight): x.weight.numel() for x in model.modules() if isinstance(x, nn.Linear)}
    return Size(
        reads=weights_of(first),
        writes=weights_of(last) + head,
        layers=last.config.num_layers,
        packed=sum(linears.values()),
    )


def weights_of(stack: Stack) -> int:
    """The number of weights that a token passes. A block shared by several layers counts once for each."""
    stored = sum(x.numel() for x in stack.blocks.parameters())
    return stored * stack.config.num_layers // len(stack.blocks)


def plain_seconds(size: Size, work: Work, threads: int) -> float:
    """The least time of the plain path. Reading is bound by compute, writing by memory or Python."""
    computes = COMPUTES * threads
    step = max(4 * size.writes / READS, 2 * size.writes * work.rows / computes, CALL * size.layers)
    return 2 * size.reads * work.reads / computes + work.writes / work.rows * step


def preparation_seconds(size: Size, *, kernels: bool, step: bool) -> float:
    """The time until the engine runs; `kernels` and `step` say what is already compiled."""
    compiling = (0.0 if kernels else KERNELS) + (0.0 if step else STEP)
    return LOAD + PACK * 4 * size.packed / 1e9 + compiling


def pays_off(seconds: float, size: Size, *, kernels: bool, step: bool) -> bool:
    """Whether to use the engine for work that takes the plain path this many seconds."""
    return seconds > MARGIN * preparation_seconds(size, kernels=kernels, step=step)


class EngineChoice:
    """A model, and its engine once the calls justify it."""

    def __init__(self, model: Transformer, use: Use = "auto") -> None:
        if use not in get_args(Use):
            raise InputError(f"engine is {use!r}: expected 'auto', 'on' or 'off'")
        if use == "on" and not isinstance(model, Transformer):
            raise InputError("--engine on: the engine runs a single model, and this is a pair. Leave it out")
        self.model, self.use = model, use if isinstance(model, Transformer) else "off"
        self.engine: Engine | None = None
        self.used: str | None = None  # how the engine ran, if it was used
        self.steps = True  # whether steps compile, as far as is known
        self.seconds = 0.0  # of the plain path, for all calls so far

    @contextmanager
    def running(self, work: Work) -> Iterator[tuple[Transformer, Engine | None]]:
        """The model for this work, packed or not, and the engine for generation, if it is used."""
        engine = self.engine_for(work)
        twin = None if engine is None else engine.twin()
        if engine is None or twin is None:  # the engine has printed why
            yield self.model, None
            return
        if work.writes:
            self.steps = self.steps and engine.can_step()  # checked once: a failure takes seconds
            self.used = f"{'compiled' if self.steps else 'packed weights'} ({engine.weights})"
            yield twin, engine if self.steps else None
            return
        self.used = f"compiled ({engine.weights})"
        with paced(twin, work.reads):
            yield twin, engine

    def engine_for(self, work: Work) -> Engine | None:
        """The engine, if it is switched on or pays off with this call."""
        with _lock:
            if self.engine is None and (self.use == "on" or (self.use == "auto" and self.is_worth_it(work))):
                self.engine = make_engine(self.model)
        return self.engine

    def settle(self, work: Work) -> Use:
        """Decides now for all of this work, so that all its calls run in the same way."""
        if self.use == "auto":
            self.use = "on" if self.is_worth_it(work) else "off"
        return self.use

    def is_worth_it(self, work: Work) -> bool:
        """Checks what is compiled only if the work is long enough for the best case, everything compiled."""
        size = model_size(self.model)
        self.seconds += plain_seconds(size, work, torch.get_num_threads())
        if not pays_off(self.seconds, size, kernels=True, step=True):
            return False
        if Engine(self.model).reason_against() is not None or not fits_memory(4 * size.packed):
            return False
        try:
            kernels = kernels_ready()
            step = not work.writes or (kernels and step_ready(self.model))
        except NoKernels:
            return False
        return pays_off(self.seconds, size, kernels=kernels, step=step)


def step_ready(model: Transformer) -> bool:
    """Whether the step of this model is compiled. Uses a copy on the meta device, which takes no memory."""
    with torch.device("meta"):
        engine = Engine(Transformer(model.config))
        return is_compiled(engine.packed_twin(), engine.span_at(0) or NO_END)


def fits_memory(size: int) -> bool:
    """Whether a second copy of the weights leaves half of the free memory; True if that is unknown."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        return 2 * size <= 1024 * int(free.split()[1])
    return True
