"""A model made fast: the core's own step, compiled for a fixed room, with the tokens of the plain path.

    engine = gf.engine(model)
    engine.generate(input_ids, max_new_tokens=64)

There is no second forward pass. The prompt is read as `loop.py` reads it; what its cache holds is taken over by one of
fixed room (`fixed_cache.py`), and from there on every step has the same shapes: one graph for a batch size and a room.
Angles that change with the length (dynamic, longrope) are right as long as they are those of the short text; a longer
one is read on the plain way.
"""

import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch._inductor.config as inductor
from torch import Tensor, nn

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.fixed_cache import FixedCache
from glassformer.generation.loop import Reader, next_logits, run
from glassformer.generation.plan import Plan

Backend = Literal["inductor", "eager"]
SMALLEST_ROOM = 64
GRAPHS = 4  # that are kept: each has a copy of the weights, laid out for its products
OPTIONS = {
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
    "cpp.enable_concat_linear": True,
    "autotune_num_choices_displayed": 0,
}

Step = Callable[..., Tensor]


def engine(model: Transformer, *, backend: Backend = "inductor") -> "Engine":
    """The model compiled: `engine(model).generate(...)` has the keywords and the tokens of `gf.generate`.

    Compiling takes half a minute for a batch size and a length, once in a process; `backend="eager"` compiles nothing.
    """
    return Engine(model, backend=backend)


class Engine:
    """One model, ready to generate. Two threads may call it: a call's state is its own."""

    def __init__(self, model: Transformer, *, backend: Backend = "inductor") -> None:
        if model.decoder is None:
            raise InputError("only a model with a decoder generates; this one is an encoder alone")
        if backend not in ("inductor", "eager"):
            raise InputError(f"backend is {backend!r}: expected 'inductor' or 'eager'")
        self.model, self.backend = model.eval(), backend
        self._steps: OrderedDict[tuple[int, int, int], Step] = OrderedDict()
        self._lock = threading.Lock()

    def generate(self, input_ids: Tensor, **keywords: Any) -> Tensor:
        """As `gf.generate`, with its keywords: the same tokens."""
        return run(CompiledReader(self), input_ids, **keywords)

    def step_for(self, batch: int, room: int, span: int) -> Step:
        """The step for so many rows and places: compiled when it is first asked for."""
        key = (batch, room, span)
        with self._lock:
            if key not in self._steps:
                module = OneStep(self.model, span)
                self._steps[key] = module if self.backend == "eager" else Compiled(module)
                while len(self._steps) > GRAPHS:
                    self._steps.popitem(last=False)
            self._steps.move_to_end(key)
            return self._steps[key]


class Compiled:
    """A step that its first call compiles, with the weights as constants in the layout of the quickest kernel.

    PyTorch reads what decides this from its global settings: they are changed while that call runs, one at a time.
    Where nothing can be compiled, the step runs as it is, and that is said once.
    """

    lock = threading.Lock()

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.run: Step = torch.compile(module, fullgraph=True, dynamic=False)
        self.is_ready = False

    def __call__(self, token: Tensor, parts: dict[str, Any]) -> Tensor:
        return self.run(token, parts) if self.is_ready else self.first(token, parts)

    def first(self, token: Tensor, parts: dict[str, Any]) -> Tensor:
        with self.lock, inductor.patch(OPTIONS), warnings.catch_warnings(action="ignore"):
            try:
                logits = self.run(token, parts)
            except Exception as error:  # no C++ compiler, or one that fails: nothing has run yet
                reason = str(error).strip().splitlines()[0]
                print(f"the engine cannot compile here and runs uncompiled ({reason})", file=sys.stderr)
                self.run = self.module
                logits = self.run(token, parts)
        self.is_ready = True
        return logits


class OneStep(nn.Module):
    """One token per row in, the logits that follow out. The cache comes in parts: tensors that are written in place."""

    def __init__(self, model: Transformer, span: int) -> None:
        super().__init__()
        self.model, self.span = model, span

    def forward(self, token: Tensor, parts: dict[str, Any]) -> Tensor:
        hidden = self.model.decode(token[:, None], cache=FixedCache(parts, self.span))  # (B, 1, D)
        return next_logits(self.model, hidden[:, -1])  # (B, V)


class CompiledReader(Reader):
    """Reads the prompt the plain way, and each further token by a step of fixed shapes."""

    fixed: FixedCache | None = None
    room = span = 0

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.model)
        self.engine = engine

    def prefill(self, input_ids: Tensor, mask: Tensor | None, prompt: Tensor, plan: Plan) -> Tensor:
        self.room = room_for(plan.max_length)
        self.span = self.span_for()
        return super().prefill(input_ids, mask, prompt, plan)

    def span_for(self) -> int:
        """What positions are below: for angles that change with the length, that of a text as in training."""
        assert self.model.decoder is not None
        scalings = [kind.rotary_scaling for kind in self.model.decoder.kinds if kind.rotary_scaling]
        trained = [scaling.trained_len for scaling in scalings if scaling.type in ("dynamic", "longrope")]
        return min([self.room, *trained])

    def step(self, token: Tensor) -> Tensor:
        if self.cache.length >= self.span:  # the angles change from here on
            if self.fixed is not None:
                self.fixed.give_back(self.cache)
                self.fixed = None
            return super().step(token)
        if self.fixed is None:
            self.fixed = FixedCache.taken_over(self.cache, self.room, self.span)
        token = token.clone(memory_format=torch.contiguous_format)  # a column's stride would change with each token
        logits = self.engine.step_for(len(token), self.room, self.span)(token, self.fixed.parts)
        self.fixed.advance()
        self.cache.length += 1
        return logits

    def read_again(self, history: Tensor) -> Tensor:
        self.fixed = None
        return super().read_again(history)

    def reorder(self, rows: Tensor, *, same_source: bool = False) -> None:
        (self.cache if self.fixed is None else self.fixed).reorder(rows, same_source=same_source)


def room_for(length: int) -> int:
    """Places for a text of this length: a power of two, so that few graphs serve all."""
    room = SMALLEST_ROOM
    while room < length:
        room *= 2
    return room
