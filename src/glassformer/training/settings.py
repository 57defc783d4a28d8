"""What every training can be told, whatever the task: budget, optimiser, evaluation, checkpoints, machine.

The tasks add their data and their model (`tasks/settings.py`). Nothing heavy is imported here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from glassformer.errors import InputError
from glassformer.settings import Settings

# What a resumed run may be told anew: how far and how it is computed, never what is computed.
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
OF_THE_CALL = ("resume", "overwrite", "accept_changed_data")  # a run does not remember them
DATA = ("data", "valid", "test")  # the settings that name the data of a run, in tasks that have them


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """What every training has."""

    task: ClassVar[str]  # its name

    out: Path
    """The run folder to write."""
    resume: bool = False
    """Go on with the run in that folder; its settings are taken from it."""
    overwrite: bool = False
    """Replace the run in that folder."""
    accept_changed_data: bool = False
    """With --resume: go on although the data has changed since the run began."""

    steps: int | None = None
    """Updates of the weights; what the task suggests, if neither this nor --minutes is given."""
    minutes: float | None = None
    """Minutes to wait for everything: reading, training, evaluation and the final score. The plan is made to fit."""
    optimizer: Literal["adamw", "adam", "muon"] = "adamw"
    """muon: orthogonalised updates for the matrices inside the blocks, AdamW for the rest."""
    rate: float | None = None
    """The highest learning rate; with the inverse-sqrt schedule, the paper's (d_model warmup)^-0.5 if not given."""
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt", "stable-decay"] = "cosine"
    """How the rate goes on after the warm-up; stable-decay stays and falls in the last fifth."""
    warmup: int = 100
    """Steps over which the rate rises to its highest; a default that does not fit a short training is scaled down."""
    final_rate: float = 0.1
    """Where linear, cosine and stable-decay end, as a part of the highest rate."""
    weight_decay: float = 0.01
    """Of matrices and tables, with adamw and muon."""
    beta1: float = 0.9
    """Memory of the gradient's mean."""
    beta2: float = 0.98
    """Memory of its square."""
    clip: float = 1.0
    """Largest norm of the gradient; larger ones are scaled down to it. 0 for none."""
    accumulate: int = 1
    """Parts in which a batch is computed, one after the other, for less memory: the update stays the same."""
    ema: float | None = None
    """Evaluate and keep a moving average of the weights with this memory, such as 0.999."""
    average: int = 1
    """Keep the mean of the weights at the last so many evaluations."""
    r_drop: float = 0.0
    """Weight of the divergence between two passes with different dropout (R-Drop: Liang et al., 2021)."""
    seed: int = 0
    """Decides the initial weights, the order of the data and dropout."""

    eval_every: int | None = None
    """Steps between evaluations on the validation set; a tenth of the training if not given."""
    metric: str | None = None
    """What decides which weights are best; what the task suggests, if not given."""
    patience: int | None = None
    """Stop when so many evaluations in a row brought nothing better."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; about every two minutes if not given."""
    keep: int = 1
    """How many of the last checkpoints to keep; 0 for all."""
    tensorboard: bool = False
    """Also write the curves for TensorBoard, to a folder of the run."""

    device: str | None = None
    """Where to train, such as cpu or cuda; a GPU if there is one."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """In what matrices are multiplied; the weights stay float32."""
    compile: bool = False
    """Compile the model with torch.compile: slow to start, then faster."""
    shard: bool = False
    """With torchrun: share weights, gradients and optimiser among the processes (FSDP2)."""

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
                raise self._refuse(name, "expected a fraction from 0 up to, not including, 1")
        if not 0 <= self.final_rate <= 1:
            raise self._refuse("final_rate", "expected a fraction from 0 to 1")
        if self.average < 1:
            raise self._refuse("average", "expected at least 1")
        if self.rate is None and self.schedule != "inverse-sqrt":
            raise self._refuse("rate", f"the {self.schedule} schedule needs one, such as 0.001")
        if self.resume and self.overwrite:
            raise InputError("--resume goes on with a run and --overwrite replaces it: choose one")
        if self.accept_changed_data and not self.resume:
            raise InputError("--accept-changed-data is for a run that goes on: give --resume, too, or leave it out")

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files and folders of data that were given, by the name of their setting; none for built-in data."""
        given = {name: getattr(self, name, None) or () for name in DATA}
        return {name: [paths] if isinstance(paths, Path) else list(paths) for name, paths in given.items() if paths}

    @property
    def given(self) -> frozenset[str]:
        """The fields that a flag or a keyword of this call set: what the program must not adjust."""
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
