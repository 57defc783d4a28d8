"""One trial of the norm study: a small pre-norm or post-norm language model, its gradients, and its training.

The models differ only in norm order, depth, learning rate and warm-up. They read characters of the built-in
documentation and are trained by the package's one training loop. Read next: `norms.py`.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import Stopped
from glassformer.schema import Config
from glassformer.tasks.lm import LanguageModel
from glassformer.tasks.settings import LmSettings
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.loop import DivergedError, Trainer
from glassformer.training.ranks import Ranks
from glassformer.training.report import Report
from glassformer.training.signals import Signals

D_MODEL, HEADS, CONTEXT, WINDOWS = 32, 4, 32, 16
NOTHING = 0.05  # nats by which a model must beat character frequencies to count as having learned

Order = Literal["pre", "post"]
ORDERS: tuple[Order, ...] = ("pre", "post")


@dataclass(frozen=True, kw_only=True)
class Trial(Config):
    """The settings that differ between runs; 0 warm-up steps mean no warm-up."""

    order: Order
    depth: int
    rate: float
    warmup: int

    def __str__(self) -> str:
        warmup = f"warm-up {self.warmup}" if self.warmup else "no warm-up"
        return f"{self.order + ' norm':9}  {self.depth:2} layers  learning rate {self.rate:g}  {warmup}"


@dataclass(frozen=True, kw_only=True)
class TrialResult(Config):
    """The outcome of a trial. The loss is on held-out text; None if the training diverged."""

    trial: Trial
    losses: tuple[float, ...]  # at each step
    loss: float | None
    gradients: tuple[float, ...]  # of each layer after the last step; empty if the training diverged
    seconds: float


@dataclass(frozen=True, kw_only=True)
class InitialGradient(Config):
    """The gradient of each layer before the first step."""

    order: Order
    depth: int
    gradients: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Study(Config):
    """All results, and the settings that further results must share."""

    steps: int
    warmup: int
    seed: int
    frequencies: float  # the loss of predicting by character frequency
    starts: tuple[InitialGradient, ...] = ()
    results: tuple[TrialResult, ...] = ()

    def is_stuck(self, result: TrialResult) -> bool:
        """Whether a run learned no more than character frequencies."""
        return result.loss is not None and result.loss > self.frequencies - NOTHING

    def outcome(self, result: TrialResult) -> str:
        if result.loss is None:
            return f"diverged at step {len(result.losses) + 1}"
        return f"loss {result.loss:.2f}" + (", stuck" if self.is_stuck(result) else "")


def make_task(seed: int) -> LanguageModel:
    """The task: text tokenised into characters; its model is replaced in each trial."""
    return LanguageModel(train_settings(steps=1, rate=1.0, warmup=1, seed=seed))


def train_settings(*, steps: int, rate: float, warmup: int, seed: int) -> LmSettings:
    """Plain Adam without clipping and a constant learning rate after the warm-up: nothing hides an instability."""
    return LmSettings(
        out=Path("unused"), device="cpu", tokenizer="characters", context=CONTEXT, batch_tokens=WINDOWS * CONTEXT,
        sample=0, optimizer="adam", clip=0.0, schedule="constant", steps=steps, eval_every=steps, rate=rate,
        warmup=warmup, seed=seed,
    )  # fmt: skip


def make_model(task: LanguageModel, order: Order, depth: int, seed: int) -> Transformer:
    """The paper's decoder with Xavier initialisation, which the theorem assumes."""
    stack = StackConfig(d_model=D_MODEL, num_layers=depth, num_heads=HEADS, max_len=CONTEXT, norm_order=order)
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(decoder=stack, vocab_size=len(task.tokenizer), init="paper"))


def character_loss(task: LanguageModel) -> float:
    """The held-out loss of predicting by character frequency in the training text."""
    assert task.corpora.valid is not None
    counts = np.bincount(task.corpora.trained.tokens, minlength=len(task.tokenizer)) + 1
    return float(-np.log(counts / counts.sum())[task.corpora.valid.tokens].mean())


def gradient_norms(model: Transformer, loss: Tensor) -> list[float]:
    """For each layer, the norm of the gradient of its second feed-forward matrix, as in the theorem."""
    stack = "encoder" if model.decoder is None else "decoder"
    layers = range(model.config.last_stack.num_layers)
    weights = [model.get_parameter(f"{stack}.blocks.{layer}.ffn.down.weight") for layer in layers]
    gradients = torch.autograd.grad(loss, weights)
    return [float(gradient.norm()) for gradient in gradients]


def measured_gradients(task: LanguageModel, model: Transformer, number: int = 0) -> list[float]:
    """`gradient_norms` on a batch of the training text."""
    batch = task.collate(task.batches(0)[number], 0)
    labels = batch.pop("labels")
    return gradient_norms(model, task.loss(model(**batch).logits, labels) / task.weight(labels))


class LossCurve(Report):
    """Records the loss at each step and the final held-out loss; writes nothing."""

    def __init__(self, steps: int, tell: Callable[[], None]) -> None:
        super().__init__(Path(os.devnull), Console(quiet=True), unit="tokens", steps=steps)
        self.curve: list[float] = []
        self.final: float | None = None
        self.tell = tell

    def step(self, step: int, *, loss: float, **told: Any) -> None:
        self.curve.append(round(loss, 4))
        self.tell()

    def evaluation(self, step: int, metrics: dict[str, float], *, best: bool) -> None:
        self.final = round(metrics["loss"], 4)


class NoCheckpoints(Checkpoints):
    """Writes no checkpoints: a trial takes seconds, and its weights are not needed."""

    def write(self, name: str, values: dict[str, Any], about: dict[str, Any]) -> None:
        pass


def train(task: LanguageModel, trial: Trial, *, steps: int, seed: int, tell: Callable[[], None]) -> TrialResult:
    """Trains one run with the common loop; `tell` is called after each step."""
    began = time.perf_counter()
    task.model = make_model(task, trial.order, trial.depth, seed)
    settings = train_settings(steps=steps, rate=trial.rate, warmup=max(1, trial.warmup), seed=seed)
    ranks, gradients, number = Ranks("cpu"), list[float](), 0
    with Signals() as signals, LossCurve(steps, tell) as curve:
        trainer = Trainer(task, settings, ranks, NoCheckpoints(settings.out, ranks, keep=1), curve)
        try:
            number = trainer.run(signals)
            gradients = [round(norm, 6) for norm in measured_gradients(task, task.model)]
        except DivergedError:
            pass  # divergence is a result: there is no final loss
    if number:
        raise Stopped(number, "stopped. Finished runs are kept; run the same command again to train the others")
    return TrialResult(
        trial=trial, losses=tuple(curve.curve), loss=curve.final, gradients=tuple(gradients),
        seconds=round(time.perf_counter() - began, 2),
    )  # fmt: skip
