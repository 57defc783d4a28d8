"""Checkpoints that survive a kill: each is written atomically, and the old one is deleted after the new one exists.

    checkpoints/step-00000400/    weights, optimiser and averages (torch.distributed.checkpoint), and state.json
    checkpoints/best-00000300/    the weights that were best on the validation set
    checkpoints/weights-00000400/ weights at an evaluation, for --average

The files do not depend on the number of processes, so a run may continue with more or fewer.
"""

import re
import shutil
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.optim import Optimizer

from glassformer.errors import InputError
from glassformer.io import discard, parse_json, remove_partial, sync, write_json
from glassformer.training.ranks import Ranks

FOLDER, STATE = "checkpoints", "state.json"


@dataclass
class State:
    """The progress of a run. The next batch is number `batch` of `epoch`."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0  # of training, over all restarts
    scale: dict[str, Any] = field(default_factory=dict)  # of the loss scaler, for float16
    best: float | None = None
    best_loss: float | None = None  # of the same evaluation; breaks ties between equal scores
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    evaluated: int = 0  # step of the last evaluation


def has_checkpoint(out: Path) -> bool:
    """Whether a run has a complete checkpoint to resume from."""
    return bool(numbered(out / FOLDER, "step"))


def numbered(folder: Path, kind: str) -> list[Path]:
    """The complete checkpoints of a kind, the newest last."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if re.fullmatch(rf"{kind}-\d{{8}}", entry.name))


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, out: Path, ranks: Ranks, keep: int) -> None:
        self.folder, self.ranks, self.keep = out / FOLDER, ranks, keep

    def last(self) -> Path | None:
        """The newest complete checkpoint."""
        steps = self.numbered("step")
        return steps[-1] if steps else None

    def numbered(self, kind: str) -> list[Path]:
        return numbered(self.folder, kind)

    def save(self, state: State, model: nn.Module, optimizers: list[Optimizer], average: Mapping[str, Tensor]) -> None:
        """Saves the progress of the run, then deletes old checkpoints."""
        name = f"step-{state.step:08}"
        if (self.folder / name).exists():
            return
        weights, moments = get_state_dict(model, optimizers)
        self.write(name, {"model": weights, "optimizer": moments, "average": dict(average)}, asdict(state))
        best = f"best-{state.best_step:08}"
        old = [folder for folder in self.numbered("best") if folder.name != best]
        self.remove([*old, *(self.numbered("step")[: -self.keep] if self.keep else ())])

    def save_weights(self, kind: str, step: int, weights: Mapping[str, Tensor], keep: int = 0) -> None:
        """Saves only the weights and keeps the last `keep`; 0 keeps all."""
        self.write(f"{kind}-{step:08}", {"model": dict(weights)}, {"step": step})
        if keep:
            self.remove(self.numbered(kind)[:-keep])

    def forget_after(self, step: int) -> None:
        """Deletes weights saved after `step`: the resumed run repeats those steps."""
        later = [entry for kind in ("best", "weights") for entry in self.numbered(kind)]
        self.remove([entry for entry in later if int(entry.name.split("-")[1]) > step])

    def remove(self, folders: Iterable[Path]) -> None:
        """All processes wait, so that all see the same list of folders."""
        if self.ranks.is_first:
            for folder in folders:
                discard(folder)
        self.ranks.wait()

    def write(self, name: str, values: dict[str, Any], about: dict[str, Any]) -> None:
        partial, place = self.folder / f".{name}.partial", self.folder / name
        try:
            with self.ranks.together():
                if self.ranks.is_first:
                    shutil.rmtree(partial, ignore_errors=True)  # left by a killed process
                    partial.mkdir(parents=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch's warnings about its internals
                save(values, checkpoint_id=partial, no_dist=self.ranks.size == 1)
            with self.ranks.together():
                if self.ranks.is_first:
                    write_json(partial / STATE, about, durable=True)
                    discard(place)  # the same step, saved before a kill
                    partial.rename(place)
                    sync(self.folder)
        except (OSError, CheckpointException) as error:
            shutil.rmtree(partial, ignore_errors=True)
            reason = str(error).strip().splitlines()[-1]
            last = self.last()
            kept = f"the last complete one is {last}" if last else "there is no earlier one"
            raise InputError(
                f"the checkpoint {place} could not be written ({reason}); {kept}. Free some disk space, "
                "then continue with --resume"
            ) from error

    def restore(
        self, folder: Path, model: nn.Module, optimizers: list[Optimizer], average: Mapping[str, Tensor]
    ) -> State:
        weights, moments = get_state_dict(model, optimizers)
        values: dict[str, Any] = {"model": weights, "optimizer": moments, "average": dict(average)}
        self.read(folder, values)
        set_state_dict(model, optimizers, model_state_dict=values["model"], optim_state_dict=values["optimizer"])
        for name, value in values["average"].items():
            average[name].copy_(value)
        known = {entry.name for entry in fields(State)}  # earlier versions stored more
        return State(**{name: value for name, value in parse_json(folder / STATE).items() if name in known})

    def read(self, folder: Path, values: dict[str, Any]) -> None:
        """Loads a checkpoint into these tensors."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(values, checkpoint_id=folder, no_dist=self.ranks.size == 1)
        except CheckpointException as error:
            reason = next(iter(error.failures.values()))
            raise InputError(
                f"{folder} does not fit this model ({reason}). Resume with the settings the run was started with"
            ) from None

    def clean(self) -> None:
        """Deletes half-written checkpoints of killed processes."""
        if self.ranks.is_first and self.folder.is_dir():
            remove_partial(self.folder)
