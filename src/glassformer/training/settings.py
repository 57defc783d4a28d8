"""The settings that all tasks share: training time, optimiser, evaluation, checkpoints, machine.

The tasks add their data and their model (`tasks/settings.py`). Nothing heavy is imported here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from glassformer.errors import InputError
from glassformer.settings import Settings

# Settings that may change when a run is resumed: how long and on what machine it trains, never what it computes.
FREE = (
    *(
        "out",
        "resume",
        "overwrite",
        "accept_changed_data",
        "steps",
        "minutes",
        "patience",
        "checkpoint_every",
        "keep",
        "tensorboard",
    ),
    *("accumulate", "device", "shard", "compile"),
)
NOT_STORED = ("resume", "overwrite", "accept_changed_data")  # a run does not remember them
DATA = ("data", "valid", "test")  # the settings that name the data of a run, in tasks that have them


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """The settings of every task."""

    task: ClassVar[str]  # name of the task

    out: Path
    """Output folder for the model, curves and report."""
    resume: bool = False
    """Continue the run in --out with the settings it was started with."""
    overwrite: bool = False
    """Replace the run in --out."""
    accept_changed_data: bool = False
    """With --resume: continue even if the data has changed since the run started."""

    steps: int | None = None
    """Number of training steps (default: chosen by the task, or by --minutes)."""
    minutes: float | None = None
    """Total time in minutes: reading the data, training, evaluation and the final score. The number of steps is chosen
    to fit."""
    optimizer: Literal["adamw", "adam", "muon"] = "adamw"
    """Optimizer. muon: orthogonalised updates for the matrices inside the blocks, AdamW for the rest."""
    rate: float | None = None
    """Peak learning rate; the inverse-sqrt schedule has a default, the paper's (d_model warmup)^-0.5."""
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt", "stable-decay"] = "cosine"
    """Learning rate schedule after the warm-up. stable-decay: constant, then decays over the last fifth of training."""
    warmup: int = 100
    """Warm-up steps, over which the learning rate rises to its peak; the default is reduced for short runs."""
    final_rate: float = 0.1
    """Final learning rate of linear, cosine and stable-decay, as a fraction of the peak."""
    weight_decay: float = 0.01
    """Weight decay of weight matrices and embeddings, with adamw and muon."""
    beta1: float = 0.9
    """Decay of the running mean of the gradient (Adam's beta1)."""
    beta2: float = 0.98
    """Decay of the running mean of the squared gradient (Adam's beta2)."""
    clip: float = 1.0
    """Maximum gradient norm; larger gradients are scaled down. 0 turns clipping off."""
    accumulate: int = 1
    """Gradient accumulation: compute each batch in this many parts to save memory. The updates stay the same."""
    ema: float | None = None
    """Evaluate and save an exponential moving average of the weights with this decay, such as 0.999."""
    average: int = 1
    """Save the mean of the weights from this many recent evaluations."""
    r_drop: float = 0.0
    """Weight of the R-Drop loss, the divergence between two passes with different dropout (Liang et al., 2021)."""
    seed: int = 0
    """Random seed of the initial weights, the order of the data and dropout."""

    eval_every: int | None = None
    """Steps between evaluations on the validation set (default: a tenth of all steps)."""
    metric: str | None = None
    """Metric that selects the best weights (default: chosen by the task)."""
    patience: int | None = None
    """Early stopping: stop after this many evaluations without improvement (default: never stop early)."""
    checkpoint_every: int | None = None
    """Steps between checkpoints (default: a checkpoint about every two minutes)."""
    keep: int = 1
    """Number of recent checkpoints to keep; 0 keeps all."""
    tensorboard: bool = False
    """Also write the curves for TensorBoard, into the run folder."""

    device: str | None = None
    """Device to train on, such as cpu or cuda (default: a GPU if there is one)."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of matrix products; the weights stay float32."""
    compile: bool = False
    """Compile the model with torch.compile: slower to start, then faster."""
    shard: bool = False
    """With torchrun: shard weights, gradients and optimizer state across the processes (FSDP2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "minutes", "rate", "eval_every", "patience", "checkpoint_every", "warmup", "accumulate"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise self._refuse(name, "expected a number above 0")
        for name in ("weight_decay", "clip", "r_drop", "keep"):
            if getattr(self, name) < 0:
                raise self._refuse(name, "expected 0 or more")
        for name in ("beta1", "beta2", "ema"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise self._refuse(name, "expected at least 0 and below 1")
        if not 0 <= self.final_rate <= 1:
            raise self._refuse("final_rate", "expected a fraction from 0 to 1")
        if self.average < 1:
            raise self._refuse("average", "expected at least 1")
        if self.rate is None and self.schedule != "inverse-sqrt":
            raise self._refuse("rate", f"the {self.schedule} schedule needs a learning rate, such as 0.001")
        if self.resume and self.overwrite:
            raise InputError("--resume continues a run and --overwrite replaces it: choose one")
        if self.accept_changed_data and not self.resume:
            raise InputError("--accept-changed-data only works with --resume. Add --resume or leave it out")

    @property
    def files(self) -> dict[str, list[Path]]:
        """The data files and folders by setting name; empty for built-in data."""
        given = {name: getattr(self, name, None) or () for name in DATA}
        return {name: [paths] if isinstance(paths, Path) else list(paths) for name, paths in given.items() if paths}

    @property
    def given(self) -> frozenset[str]:
        """Fields set by a flag or keyword of this call: the program must not adjust them."""
        given: frozenset[str] = self.__dict__.get("_given", frozenset())
        return given

    def as_given(self, names: Iterable[str]) -> Self:
        """The same settings, with these fields marked as `given`."""
        marked = super().replace()
        object.__setattr__(marked, "_given", frozenset(names))
        return marked

    def replace(self, **changes: Any) -> Self:
        changed = super().replace(**changes)
        object.__setattr__(changed, "_given", self.given)
        return changed
