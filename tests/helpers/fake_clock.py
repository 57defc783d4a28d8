"""A clock that stands still but for what a training computes: so a test of minutes takes none."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from glassformer.tasks.translate import Translate
from glassformer.training.loop import Trainer


class FakeClock:
    """Seconds of a step, of an example that is validated, and of one that is scored at the end."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *, step: float = 0.5, valid: float = 0.01, score: float = 0.02
    ) -> None:
        self.now, self.step, self.valid, self.score = 1000.0, step, valid, score
        self.rehearsed = 0  # steps that were timed, and not taken
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
