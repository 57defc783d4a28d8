"""The training loop: one for all tasks. A task says what a batch is and what its loss; the loop does the rest."""

import math
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, Protocol

import torch
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.settings import TrainSettings
from glassformer.train.report import Report
from glassformer.train.schedule import paper_rate


class Task(Protocol):
    """Data, model, loss and metric of one kind of training."""

    model: Transformer

    def batches(self, epoch: int) -> list[Any]:
        """What the batches of an epoch are made of: a function of the seed and the epoch."""

    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """The mean loss per target token of a batch, and how many of them it has."""

    def evaluate(self) -> dict[str, float]:
        """The metrics on what was held out."""


def train(task: Task, settings: TrainSettings, report: Report) -> float:
    """Runs the steps, leaves the model ready to run, and returns the seconds it took."""
    model = task.model
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    d_model = model.config.last_stack.d_model
    model.train()
    started = time.perf_counter()
    for step, batch in zip(range(1, settings.steps + 1), endless(task), strict=False):
        rate = settings.rate_scale * paper_rate(step, d_model, settings.warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss, tokens = task.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
        if not math.isfinite(value):
            raise InputError(f"the loss is {value} at step {step}: lower --rate-scale ({settings.rate_scale})")
        report.step(step, loss=value, rate=rate, tokens=tokens)
    model.eval()
    return time.perf_counter() - started


def endless(task: Task) -> Iterator[Any]:
    """The batches of epoch 0, 1, 2, ..."""
    for epoch in count():
        yield from task.batches(epoch)
