"""One update of a small model in float64, by the loop: its loss and its gradients, written to a file.

python one_update.py OUT 1,0,8 2,0,8            or with torchrun, on several processes
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from glassformer.tasks.translate import Translate
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.loop import Trainer
from glassformer.training.ranks import Ranks
from glassformer.training.report import Report
from helpers.tiny_runs import tiny


class Told(Report):
    """Keeps what it is told."""

    loss = 0.0

    def step(self, step: int, *, loss: float, **_: object) -> None:  # type: ignore[override]
        self.loss = loss


def update(folder: Path, ranks: Ranks, accumulate: int, shard: bool, count: int) -> dict[str, Any]:
    settings = tiny(folder / "run", accumulate=accumulate, shard=shard, clip=0)
    task = Translate(settings)
    task.model.double()
    report = Told(Path("/dev/null"), Console(quiet=True), unit="tokens", steps=1)
    trainer = Trainer(task, settings, ranks, Checkpoints(settings.out, ranks, 1), report)
    gradients: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        for name, parameter in trainer.own.named_parameters():
            gradient = parameter.grad
            gradients[name] = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient.clone()

    trainer.optimizers[0].register_step_pre_hook(keep)
    lengths = {len(target) for _, target in task.examples[:count]}
    assert count < 3 or len(lengths) > 2, "the batch must be ragged"
    trainer.update(range(count))
    return {"loss": report.loss, "gradients": gradients}


def main() -> None:
    """Each way is accumulate,shard,examples, such as 2,0,8."""
    out, *ways = sys.argv[1:]
    ranks = Ranks()
    chosen = {way: tuple(map(int, way.split(","))) for way in ways}
    found = {
        way: update(Path(out).parent, ranks, accumulate, bool(shard), count)
        for way, (accumulate, shard, count) in chosen.items()
    }
    if ranks.is_first:
        torch.save(found, out)
    ranks.close()
    sys.stdout.flush()
    os._exit(0)  # as __main__.py does, and for its reason


main()
