"""Computes one update of a small model in float64 with the loop, and writes its loss and gradients to a file.

python one_update.py OUT 1,0,8 2,0,8 match,2,8           or with torchrun, on several processes
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from glassformer.tasks.pictures.match import Match
from glassformer.tasks.settings import MatchSettings
from glassformer.tasks.translate import Translate
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.loop import Trainer
from glassformer.training.ranks import Ranks
from glassformer.training.report import Report
from helpers.tiny_runs import tiny


class Told(Report):
    """Stores what is reported."""

    loss = 0.0

    def step(self, step: int, *, loss: float, **_: object) -> None:  # type: ignore[override]
        self.loss = loss


def update(folder: Path, ranks: Ranks, accumulate: int, shard: bool, count: int) -> dict[str, Any]:
    settings = tiny(folder / "run", accumulate=accumulate, shard=shard, clip=0)
    task = Translate(settings)
    lengths = {len(target) for _, target in task.examples[:count]}
    assert count < 3 or len(lengths) > 2, "the batch must be ragged"
    return updated(task, settings, ranks, count)


def update_match(folder: Path, ranks: Ranks, accumulate: int, count: int) -> dict[str, Any]:
    """The same for a task whose loss compares all examples of the batch."""
    small = {"examples": 60, "d_model": 16, "num_layers": 1, "num_heads": 2, "patch": 8, "optimizer": "adam"}
    settings = MatchSettings.from_dict({"out": str(folder / "run"), **small, "accumulate": accumulate, "clip": 0})
    task = Match(settings)
    assert len({one.text for _, one in task.train.looked[:count]}) > 1, "the captions must differ"
    return updated(task, settings, ranks, count)


def updated(task: Any, settings: Any, ranks: Ranks, count: int) -> dict[str, Any]:
    task.model.double()
    make = task.collate
    task.collate = lambda examples, epoch: {
        name: value.double() if value.is_floating_point() else value for name, value in make(examples, epoch).items()
    }
    report = Told(Path("/dev/null"), Console(quiet=True), unit="tokens", steps=1)
    trainer = Trainer(task, settings, ranks, Checkpoints(settings.out, ranks, 1), report)
    gradients: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        for name, parameter in trainer.own.named_parameters():
            gradient = parameter.grad
            gradients[name] = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient.clone()

    trainer.optimizers[0].register_step_pre_hook(keep)
    trainer.update(range(count))
    return {"loss": report.loss, "gradients": gradients}


def main() -> None:
    """Each argument is accumulate,shard,examples, such as 2,0,8; or match,accumulate,examples."""
    out, *ways = sys.argv[1:]
    ranks = Ranks()
    found = {}
    for way in ways:
        first, second, count = way.split(",")
        if first == "match":
            found[way] = update_match(Path(out).parent, ranks, int(second), int(count))
        else:
            found[way] = update(Path(out).parent, ranks, int(first), bool(int(second)), int(count))
    if ranks.is_first:
        torch.save(found, out)
    ranks.close()
    sys.stdout.flush()
    os._exit(0)  # as in __main__.py, for the same reason


main()
