"""Estimates the memory of a model without allocating it: runs a training step on fake tensors, which hold no data.

Forward and backward pass run the usual code on a fake CPU. So the fused attention stores no (T, S), dropout keeps its
masks and the loss its log-probabilities, exactly as in the real step. Each result is counted until nothing refers to
it; the peak is the largest total at any time.

Not counted: temporary buffers inside a kernel, and the process itself with PyTorch.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError, did_you_mean
from glassformer.inspect.ledger.sizes import Sizes, config_of_model, sized_inputs

STATES = {"adamw": 2, "adam": 2, "sgd": 0}  # state tensors per parameter, each of the parameter's size


@dataclass(frozen=True)
class MemoryUse:
    """Bytes. Gradients are allocated while activations are freed, so `peak` may be less than the sum."""

    weights: int
    gradients: int
    optimizer: int
    activations: int  # their peak: those kept for the backward pass, and temporary ones
    peak: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def training_memory(
    model_or_config: Transformer | TransformerConfig,
    *,
    batch: int = 1,
    length: int | None = None,
    target_length: int | None = None,
    channels: int | None = None,
    optimizer: str = "adamw",
    dtype: torch.dtype = torch.float32,
) -> MemoryUse:
    """The memory of a training step: forward, backward, and the optimiser's update, which is in place."""
    if optimizer not in STATES:
        raise InputError(f"optimizer is {optimizer!r}, whose memory is not known{did_you_mean(optimizer, STATES)}")
    config = config_of_model(model_or_config)
    sizes = Sizes(batch=batch, length=length, target_length=target_length, channels=channels)
    with fake_tensors() as tally:
        model = make_model(config, dtype).train()
        weights = tally.now
        states = [torch.empty_like(p) for p in model.parameters() for _ in range(STATES[optimizer])]
        kept = tally.now
        tally.forget_peaks()
        inputs = sized_inputs(config, **sizes, device="cpu", dtype=dtype)
        with counting_gradients(model, tally):
            loss_of(model, inputs).backward()
        gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        del states  # only now: they exist during the whole step
    return MemoryUse(weights, gradients, kept - weights, tally.peak_beside_gradients - kept, tally.peak)


def running_memory(
    model_or_config: Transformer | TransformerConfig,
    *,
    batch: int = 1,
    length: int | None = None,
    target_length: int | None = None,
    channels: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> MemoryUse:
    """The memory of one forward pass without gradients."""
    config = config_of_model(model_or_config)
    sizes = Sizes(batch=batch, length=length, target_length=target_length, channels=channels)
    with fake_tensors() as tally, torch.no_grad():
        model = make_model(config, dtype).eval()
        weights = tally.now
        tally.forget_peaks()
        inputs = sized_inputs(config, **sizes, device="cpu", dtype=dtype)
        inputs.pop("labels", None)
        model(**inputs)
    return MemoryUse(weights, 0, 0, tally.peak - weights, tally.peak)


def loss_of(model: Transformer, inputs: dict[str, Tensor]) -> Tensor:
    """The loss; for a model without one, the sum of its outputs, which depends on all of them."""
    output = model(**inputs)
    if output.loss is not None:
        return output.loss
    answers = (output.logits, output.pooled, output.last_hidden_state)
    return next(answer for answer in answers if answer is not None).sum()


class MemoryTally(TorchDispatchMode):
    """Counts the bytes of every tensor that an operation creates, until nothing refers to it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = self.of_gradients = self.peak_beside_gradients = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_iter(made):
            if isinstance(tensor, Tensor):
                self._note(tensor.untyped_storage())
        return made

    def _note(self, storage: torch.UntypedStorage) -> None:
        if storage in self._known:  # a view, already counted
            return
        self._known.add(storage)
        self._count(storage.nbytes())
        weakref.finalize(storage, self._count, -storage.nbytes())

    def _count(self, number: int) -> None:
        self.now += number
        self.peak = max(self.peak, self.now)
        self.peak_beside_gradients = max(self.peak_beside_gradients, self.now - self.of_gradients)

    def forget_peaks(self) -> None:
        self.peak = self.peak_beside_gradients = self.now


@contextmanager
def fake_tensors() -> Iterator[MemoryTally]:
    """Tensors created inside are fake: they have a shape, a dtype and the device cpu, but no data."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # slow to import, and needed only here

    with FakeTensorMode(), MemoryTally() as tally:
        yield tally


def make_model(config: TransformerConfig, dtype: torch.dtype) -> Transformer:
    """Creates the model in this dtype: a fake tensor cannot be converted in place."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return Transformer(config)
    finally:
        torch.set_default_dtype(before)


@contextmanager
def counting_gradients(model: nn.Module, tally: MemoryTally) -> Iterator[None]:
    """Adds each gradient to the tally when the backward pass finishes it."""

    def note(parameter: Tensor) -> None:
        assert parameter.grad is not None
        tally.of_gradients += parameter.grad.nbytes

    hooks = [p.register_post_accumulate_grad_hook(note) for p in model.parameters()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def readable_bytes(number: float) -> str:
    """Bytes with a unit: 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB" if number < 1000 else f"{number:,.0f} TB"
