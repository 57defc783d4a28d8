"""How much memory a model takes, before there is any: a training step is run with tensors that have no numbers.

Forward and backward pass through the same code as always, on a CPU that PyTorch only imagines. So the fused attention
stores no (T, S), dropout keeps its masks, and the loss its log-probabilities, just where the real step does. What each
operation makes is counted until nothing refers to it any more; the peak is the most that there is at once.

Not seen is what a kernel takes and gives back while it runs, and what the process had before (PyTorch itself).
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
from glassformer.errors import InputError, nearest
from glassformer.inspect.ledger.sizes import Sizes, config_of_model, sized_inputs

STATES = {"adamw": 2, "adam": 2, "sgd": 0}  # tensors of a parameter's size that an optimiser keeps for it


@dataclass(frozen=True)
class Memory:
    """In bytes. Gradients appear while activations go, so `peak`, the most at once, may be less than the sum."""

    weights: int
    gradients: int
    optimizer: int
    activations: int  # the most of them at once: what is kept for the backward pass, and what is passing by
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
) -> Memory:
    """What a step of training takes: forward, backward, and the optimiser's update, which writes in place."""
    if optimizer not in STATES:
        raise InputError(f"optimizer is {optimizer!r}, and what it keeps is not known{nearest(optimizer, STATES)}")
    config = config_of_model(model_or_config)
    sizes = Sizes(batch=batch, length=length, target_length=target_length, channels=channels)
    with imagined() as tally:
        model = make_model(config, dtype).train()
        weights = tally.now
        states = [torch.empty_like(p) for p in model.parameters() for _ in range(STATES[optimizer])]
        kept = tally.now
        tally.forget_peaks()
        inputs = sized_inputs(config, **sizes, device="cpu", dtype=dtype)
        with told_of_gradients(model, tally):
            answer_of(model, inputs).backward()
        gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        del states  # they were there all the time
    return Memory(weights, gradients, kept - weights, tally.peak_beside_gradients - kept, tally.peak)


def running_memory(
    model_or_config: Transformer | TransformerConfig,
    *,
    batch: int = 1,
    length: int | None = None,
    target_length: int | None = None,
    channels: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Memory:
    """What one forward pass takes when nothing is kept for a backward pass."""
    config = config_of_model(model_or_config)
    sizes = Sizes(batch=batch, length=length, target_length=target_length, channels=channels)
    with imagined() as tally, torch.no_grad():
        model = make_model(config, dtype).eval()
        weights = tally.now
        tally.forget_peaks()
        inputs = sized_inputs(config, **sizes, device="cpu", dtype=dtype)
        inputs.pop("labels", None)
        model(**inputs)
    return Memory(weights, 0, 0, tally.peak - weights, tally.peak)


def answer_of(model: Transformer, inputs: dict[str, Tensor]) -> Tensor:
    """The loss; of a model that ends in vectors, a number that depends on all of them."""
    output = model(**inputs)
    if output.loss is not None:
        return output.loss
    answers = (output.logits, output.pooled, output.last_hidden_state)
    return next(answer for answer in answers if answer is not None).sum()


class Tally(TorchDispatchMode):
    """Counts the bytes of every tensor that an operation makes, from when it is made to when nobody refers to it."""

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
        if storage in self._known:  # a view: it is counted already
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
def imagined() -> Iterator[Tally]:
    """Everything that is made inside has a shape, a dtype and a device, the CPU, and no numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # heavy, and nobody else needs it

    with FakeTensorMode(), Tally() as tally:
        yield tally


def make_model(config: TransformerConfig, dtype: torch.dtype) -> Transformer:
    """A model of this dtype from the start: a tensor without numbers cannot be converted in place."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return Transformer(config)
    finally:
        torch.set_default_dtype(before)


@contextmanager
def told_of_gradients(model: nn.Module, tally: Tally) -> Iterator[None]:
    """Tells the tally which of the bytes are gradients, as the backward pass finishes them."""

    def note(parameter: Tensor) -> None:
        assert parameter.grad is not None
        tally.of_gradients += parameter.grad.nbytes

    hooks = [p.register_post_accumulate_grad_hook(note) for p in model.parameters()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def as_bytes(number: float) -> str:
    """1.2 GB: what a person reads."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB" if number < 1000 else f"{number:,.0f} TB"
