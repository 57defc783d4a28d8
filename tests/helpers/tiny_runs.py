"""Small trainings for the tests."""

from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.run import run
from glassformer.training.task import Scores


def tiny(out: Path, **changes: Any) -> TranslateSettings:
    """A translation of dates that trains in a second or so, with its warm-up as it is given."""
    small = {"steps": 3, "examples": 60, "d_model": 16, "num_layers": 1, "num_heads": 2, "batch_tokens": 128}
    settings = TranslateSettings.from_dict({"out": str(out), **small, "warmup": 10, "dropout": 0.0, **changes})
    return settings.as_given(["warmup"])


def few(task: Translate) -> Translate:
    """With few pairs to validate and to test, so that an evaluation costs little."""
    task.valid, task.test = task.valid[:8], task.test[:8]
    return task


def train(settings: TranslateSettings, task: Translate | None = None) -> tuple[Translate, Scores]:
    made = few(Translate(settings)) if task is None else task
    _, scores = run(lambda _: made, settings, Console(quiet=True), verb="train translate")
    return made, scores


def weights_of(task: Translate) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in task.model.parameters()])
