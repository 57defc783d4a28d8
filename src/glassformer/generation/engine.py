"""The engine: the core's own forward pass over packed weights, with a compiled step. Same tokens as the plain path.

    engine = gf.engine(model)                       # or weights="int8"
    engine.generate(input_ids, max_new_tokens=64)
    for token in engine.stream(input_ids): ...
    vectors = engine.encode([ids, ids, ...])

There is no second forward pass. `packing.py` makes a twin of the model whose linear layers call a kernel; the twin
reads prompts and encodes texts. `compiled.py` traces the twin's `decode` for one token per row, once for all batch
sizes and lengths, and caches the compiled code on disk. If compiling fails, the plain path runs and a message says so
once. Read next: `loop.py`, which chooses the tokens.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from glassformer.core.context import watch_for
from glassformer.core.model import Transformer
from glassformer.core.pair import Pair
from glassformer.core.positions import Learned, Sinusoidal
from glassformer.errors import InputError
from glassformer.generation.compiled import CompiledStep, OneStep, is_compiled
from glassformer.generation.encode import encode
from glassformer.generation.fixed_cache import FixedCache, WindowCache
from glassformer.generation.kernels import NoKernels
from glassformer.generation.loop import ModelReader, next_logits, run, stream
from glassformer.generation.pace import paced
from glassformer.generation.packing import Weights, packed
from glassformer.generation.plan import GenerationCall
from glassformer.generation.shelf import warn_once
from glassformer.terminal import make_console

Backend = Literal["inductor", "eager"]
SINUSOID_ROWS = 4096  # least length of a sinusoidal table
NO_END = 2**30
PREFILL_CHUNK = 1024  # tokens of a prompt read at a time
COMPILED_PACKAGES = ("torch", "glassformer")  # packages whose modules can be compiled


def engine(model: Transformer, *, weights: Weights = "float32", backend: Backend = "inductor") -> "Engine":
    """A fast version of the model: `engine(model).generate(...)` takes the keywords of `gf.generate` and gives the same
    tokens.

    `weights="int8"` rounds the weights of linear layers to 8 bits, with a scale per output channel: a quarter of the
    memory traffic, and nearly the same answers. Compiling takes about 20 seconds per model config, once on a machine;
    `backend="eager"` does not compile and serves for comparison.
    """
    return Engine(model, weights=weights, backend=backend)


class Engine:
    """One model, ready to generate and encode. It is thread-safe: each call has its own state."""

    def __init__(self, model: Transformer, *, weights: Weights = "float32", backend: Backend = "inductor") -> None:
        if weights not in get_args(Weights):
            raise InputError(f"weights is {weights!r}: expected 'float32' or 'int8'")
        if isinstance(model, Pair):
            raise InputError("gf.engine runs a single model, and this is a pair: give it pair.text or pair.image")
        if backend not in get_args(Backend):
            raise InputError(f"backend is {backend!r}: expected 'inductor' or 'eager'")
        self.model, self.weights, self.backend = model, weights, backend
        self._twin: Transformer | None = None
        self._packed_from = ParameterVersions([], [])
        self._steps = dict[int, CompiledStep | OneStep]()
        self._steps_fail = False
        self._lock = threading.RLock()

    def generate(self, input_ids: Tensor | None = None, **keywords: Any) -> Tensor:
        """The same as `gf.generate`, with the same keywords and tokens."""
        return run(self.reader(), input_ids, **keywords)

    def stream(self, input_ids: Tensor | None = None, **keywords: Any) -> Iterator[Tensor]:
        """Yields the new tokens as they are chosen, one (B) tensor of ids per step. You may stop at any time."""
        return stream(self.reader(), input_ids, **keywords)

    def encode(self, texts: Sequence[Tensor], **keywords: Any) -> list[Tensor]:
        """The last hidden states (T, D) of each text of ids, in the order of the texts; keywords as in `encode.py`."""
        model = self.twin() or self.model
        with paced(model, sum(len(text) for text in texts if isinstance(text, Tensor) and text.dim())):
            return encode(model, texts, **keywords)

    def reader(self) -> ModelReader:
        """The reader for one call: the engine's, or the plain one if the model is observed or cannot be compiled."""
        if self.model.decoder is None:
            raise InputError("only a model with a decoder generates; this one is an encoder alone")
        if self.backend == "eager":
            return EngineReader(self, self.model)
        twin = self.twin()
        if twin is None or not self.can_step():
            return ModelReader(twin or self.model)
        return EngineReader(self, twin)

    def twin(self) -> Transformer | None:
        """The model with packed weights; None if it must run unpacked. Packed again when a weight has changed."""
        if is_observed(self.model) or torch.is_autocast_enabled("cpu"):
            return None
        with self._lock:
            if self._packed_from.keys != states_of(self.model).keys:
                self._twin, self._steps = None, {}
            if self._twin is None:
                reason = self.reason_against()
                if reason is None:
                    try:
                        with announced("compiling the engine's kernels"):
                            self._twin = self.packed_twin()
                    except NoKernels as error:
                        reason = str(error)
                if reason is not None:
                    warn_once(f"the engine cannot run here, so the plain model is used: {reason}")
                    return None
            if self._twin is not None:
                self._twin.config = self.model.config  # its defaults may have changed
            return self._twin

    def reason_against(self) -> str | None:
        model = self.model
        if model.device.type != "cpu" or model.dtype != torch.float32:
            return f"it supports float32 on the CPU, and this model is {model.dtype} on {model.device}"
        if any(is_parametrized(x) for x in model.modules()):
            return "some weights of the model are computed by a parametrization"
        foreign = {
            type(x).__name__ for x in model.modules() if type(x).__module__.split(".")[0] not in COMPILED_PACKAGES
        }
        return f"the model has custom modules ({', '.join(sorted(foreign))})" if foreign else None

    def packed_twin(self) -> Transformer:
        twin = packed(self.model, self.weights)
        added = twin.decoder.embed.positions if twin.decoder is not None else None
        if isinstance(added, Sinusoidal) and len(added.table) < SINUSOID_ROWS:
            added.table = added.make_table(SINUSOID_ROWS + added.offset, added.table[:0])
        self._packed_from = states_of(self.model)
        return twin

    def can_step(self) -> bool:
        """Whether steps can be compiled. Compiles the first one to find out; a failure is not tried again."""
        if self._steps_fail:
            return False
        try:
            self.step_for(self.span_at(0) or NO_END)
        except NoKernels as error:
            warn_once(f"the engine cannot compile here, so the model runs uncompiled: {error}")
            self._steps_fail = True
        return not self._steps_fail

    def step_for(self, span: int) -> CompiledStep | OneStep:
        """The step for positions below `span`: loaded if this machine has compiled it before, else compiled now."""
        with self._lock:
            if span not in self._steps:
                if self.backend == "eager":
                    self._steps[span] = OneStep(self.model, span)
                else:
                    assert self._twin is not None
                    ready = is_compiled(self._twin, span)
                    with announced(
                        "" if ready else "compiling the engine for this model (about 20 s, once on this machine)"
                    ):
                        self._steps[span] = CompiledStep(self._twin, span)
            return self._steps[span]

    def span_at(self, length: int) -> int | None:
        """The upper bound of positions for a step after `length` tokens; None if a compiled step would be wrong.

        A table of positions ends, and some rotary angles change with the length: with every token in dynamic scaling,
        once in longrope.
        """
        decoder = self.model.decoder
        assert decoder is not None
        scalings = [kind.rotary_scaling for kind in decoder.kinds if kind.rotary_scaling]
        ends = [scaling.trained_len for scaling in scalings if scaling.type == "dynamic"]
        turns = [scaling.trained_len for scaling in scalings if scaling.type == "longrope"]
        if isinstance(decoder.embed.positions, Learned):
            ends.append(len(decoder.embed.positions.weight) - decoder.embed.positions.offset)
        if isinstance(decoder.embed.positions, Sinusoidal):
            ends.append(max(SINUSOID_ROWS, len(decoder.embed.positions.table) - decoder.embed.positions.offset))
        if any(length >= end for end in ends):
            return None
        return min([end for end in (*ends, *turns) if end > length], default=NO_END)


class EngineReader(ModelReader):
    """Reads the prompt with packed weights, in chunks, and each further token with the compiled step."""

    drops_rows = True
    fixed: FixedCache | None = None
    max_length = 0

    def __init__(self, engine: Engine, model: Transformer) -> None:
        super().__init__(model)
        assert model.decoder is not None
        self.engine, self.stack = engine, model.decoder.config

    def prefill(self, call: GenerationCall) -> Tensor:
        self.max_length = call.plan.max_length
        if call.keep is not None:  # padding to the left: none may lie between the prompt and the new tokens
            order = call.keep.int().argsort(dim=1, stable=True)  # (B, T)
            call = replace(call, prompt=call.prompt.gather(1, order), keep=call.keep.gather(1, order))
        if self.model.encoder is not None:
            logits = super().prefill(call)  # (B, V)
            self.max_length += self.cache.prefix
            self.take_over()
            return logits
        return self.read(call.prompt, call.keep)

    def read(self, ids: Tensor, keep: Tensor | None) -> Tensor:
        """Reads a prompt in chunks: the same numbers as in one pass, with only a chunk's activations in memory."""
        self.cache, length = WindowCache(self.stack), ids.shape[1]
        whole = self.engine.span_at(0) or length
        chunk = (
            PREFILL_CHUNK if length <= whole else length
        )  # angles that change with the length depend on the whole text
        for start in range(0, length, chunk):
            stop = min(length, start + chunk)
            hidden = self.model.decode(
                ids[:, start:stop], None if keep is None else keep[:, :stop], cache=self.cache
            )  # (B, T, D)
        logits = next_logits(self.model, hidden[:, -1])  # (B, V)
        self.take_over()
        return logits

    def take_over(self) -> None:
        """Moves the growing cache into one that the compiled step writes to."""
        span = self.engine.span_at(self.cache.tokens)
        self.fixed = None if span is None else FixedCache.taken_over(self.cache, self.stack, span, self.max_length)

    def step(self, token: Tensor) -> Tensor:
        fixed, length = self.fixed, self.cache.length
        if fixed is not None and self.cache.tokens >= fixed.span:  # the angles change, or the table ends
            self.cache = fixed.give_back(self.cache.prefix)
            self.take_over()
            fixed = self.fixed
        if fixed is None:
            return super().step(token)
        if length >= fixed.room:
            fixed = self.fixed = fixed.grown(self.max_length)
        logits = self.engine.step_for(fixed.span)(token.contiguous(), *fixed.tensors)  # (B, V)
        fixed.advance()
        self.cache.length += 1
        return logits

    def read_again(self, history: Tensor) -> Tensor:
        keep = history < self.model.config.output_vocab_size  # (B, T)
        return self.read(history.masked_fill(~keep, 0), keep)

    def reorder(self, rows: Tensor, *, same_source: bool = False) -> None:
        if self.fixed is None:
            self.cache.reorder(rows, same_source=same_source)
        else:
            self.fixed = self.fixed.reordered(rows)


class ParameterVersions(NamedTuple):
    """The parameters of a model at one moment. References are kept, so that no new tensor reuses an id."""

    parameters: list[Tensor]
    keys: Sequence[tuple[object, ...]]


def states_of(model: nn.Module) -> ParameterVersions:
    """A snapshot that differs once a parameter is replaced, moved or written to; writes to `x.data` go unnoticed."""
    parameters: list[Tensor] = list(model.parameters())
    versions = [0 if x.is_inference() else x._version for x in parameters]
    keys = [(id(x), x.data_ptr(), x.dtype, x.device, v) for x, v in zip(parameters, versions, strict=True)]
    return ParameterVersions(parameters, keys)


def is_observed(model: nn.Module) -> bool:
    """Whether hooks watch or change this model's calls: then its own modules must run."""
    return watch_for(model) is not None or any(x._forward_hooks or x._forward_pre_hooks for x in model.modules())


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Announces something slow: a spinner on a terminal, a line elsewhere."""
    if not what:
        yield
    elif sys.stderr is not None and sys.stderr.isatty():
        with make_console(stderr=True).status(what):
            yield
    else:
        start = time.perf_counter()
        yield
        if time.perf_counter() - start > 2:
            print(f"{what}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
