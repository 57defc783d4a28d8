"""Small trainings for the tests, and a fake clock for --minutes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.loop import Trainer
from glassformer.training.run import run
from glassformer.training.task import Scores


def tiny(out: Path, **changes: Any) -> TranslateSettings:
    """Settings of a date translation that trains in about a second, with a fixed warm-up."""
    small = {"steps": 3, "examples": 60, "d_model": 16, "num_layers": 1, "num_heads": 2, "batch_tokens": 128}
    settings = TranslateSettings.from_dict({"out": str(out), **small, "warmup": 10, "dropout": 0.0, **changes})
    return settings.as_given(["warmup"])


def few(task: Translate) -> Translate:
    """The task with few pairs for validation and testing, so that an evaluation is fast."""
    task.valid, task.test = task.valid[:8], task.test[:8]
    return task


def train(settings: TranslateSettings, task: Translate | None = None) -> tuple[Translate, Scores]:
    made = few(Translate(settings)) if task is None else task
    _, scores = run(lambda _: made, settings, Console(quiet=True), verb="train translate")
    return made, scores


def weights_of(task: Translate) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in task.model.parameters()])


class FakeClock:
    """A clock that only advances with the work of a training, so that a test of minutes takes no time: seconds per
    step, per validated example and per example of the final score."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *, step: float = 0.5, valid: float = 0.01, score: float = 0.02
    ) -> None:
        self.now, self.step, self.valid, self.score = 1000.0, step, valid, score
        self.rehearsed = 0  # steps that were only timed
        patch.setattr(time, "perf_counter", lambda: self.now)
        patch.setattr(Trainer, "compute", self.slow(Trainer.compute, self.after_step))
        patch.setattr(Translate, "cross_entropy", self.slow(Translate.cross_entropy, self.after_loss))
        patch.setattr(Translate, "scored", self.slow(Translate.scored, self.after_score))

    def slow(self, real: Callable[..., Any], after: Callable[..., None]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            found = real(*args, **options)
            after(*args, **options)
            return found

        return called

    def after_step(self, trainer: Trainer, examples: Any, *, step: int, rate: float) -> None:
        self.now += self.step
        self.rehearsed += rate == 0

    def after_loss(self, task: Translate, pairs: Any) -> None:
        self.now += self.valid * len(pairs)

    def after_score(self, task: Translate, pairs: Any, **_: Any) -> None:
        self.now += self.score * len(pairs)
