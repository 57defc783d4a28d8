"""The interface between the loop and a task. A task is data, model, loss and metric; each has its file in `tasks/`.

All randomness depends only on (seed, epoch, example), so a batch is the same in any process and after any number of
restarts.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.model import IGNORE
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.generation.engine import Engine
from glassformer.text import Tokenizer
from glassformer.training.plan import as_sample
from glassformer.training.quicker import cross_entropy
from glassformer.training.settings import TrainSettings
from glassformer.training.waiting import LoopProgress, OutOfTime

GRACE = 1.0  # seconds that a baseline always gets
Batch = dict[str, Tensor]  # the model's arguments by name, and `labels`


@dataclass(frozen=True, kw_only=True)
class ForecastCurve:
    """A forecast to draw: the past, the actual values and the forecast."""

    name: str
    past: Sequence[float]
    truth: Sequence[float]
    forecast: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of a model on a set of examples, and what the report shows with them."""

    metrics: dict[str, float]  # the main one first
    count: int  # number of scored examples ...
    unit: str  # ... and their kind: pairs, texts, windows
    notes: list[str] = field(default_factory=list)  # remarks on the numbers, such as BLEU's signature
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)  # scores of simple methods
    examples: list[dict[str, str]] = field(default_factory=list)  # rows with the same keys: input, expected, answer
    pictures: list[NDArray[np.uint8]] = field(default_factory=list)  # of the examples, (Y, X) or (Y, X, 3)
    classes: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)  # row: true class, column: the model's answer
    curves: list[ForecastCurve] = field(default_factory=list)
    engine: str | None = None  # how the engine ran the model, if it was used
    sample: str | None = None  # "a sample of 2,000 of 50,000 examples", if not all were scored

    @property
    def scored_on(self) -> str:
        return self.sample or f"{self.count:,} {self.unit}"


class Task(ABC):
    """Data, model, loss and metric of one kind of training.

    A task is made from its settings: `Translate(settings)`. To score a finished run, the settings name it as `init`,
    and `Translate(settings, files)` reads the examples to score from these files, and no training data.
    """

    name: ClassVar[str]
    unit: ClassVar[str]  # the kind of examples: pairs, texts, windows, images
    metrics: ClassVar[tuple[str, ...]]  # measured during training ...
    metric: ClassVar[str]  # ... and the one that selects the best weights
    falling: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_byte", "mse", "mae")  # less is better
    steps: ClassVar[int]  # default number of steps
    validated: ClassVar[int | None] = None  # most examples per evaluation; None for all
    counts: ClassVar[str | None] = None  # what `count` counts, if not the unit
    compares: ClassVar[bool] = False  # whether the loss compares all examples of a batch: see `vectors` and `compare`

    settings: TrainSettings
    test: Any = None  # examples for the final score, if there is a test set
    split: Literal["test", "valid"] = "test"  # what `evaluate` scores; without a test set, the validation set
    model: Any  # a Transformer, or a Pair if the task compares texts with images
    engine: Engine | None = None  # generates for `evaluate`; None in training, so that a resumed run repeats every bit
    tokenizer: Tokenizer | None = None
    follow: LoopProgress = LoopProgress()  # counts long loops to show their progress
    until: float | None = None  # when the baselines must end, by `time.perf_counter`

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Sequence[int]]:
        """The training examples of an epoch by number, one list per update: a function of seed and epoch."""

    @abstractmethod
    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        """These training examples as tensors."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss, summed over all labels that are not ignored."""
        flat, smoothing = logits.flatten(0, -2), self.label_smoothing
        return cross_entropy(flat, labels.flatten(), ignore=IGNORE, smoothing=smoothing)

    def vectors(self, output: Any) -> dict[str, Tensor]:
        """If the task compares: by name, one row per example of a part, or a scalar for all."""
        raise NotImplementedError

    def compare(self, vectors: Mapping[str, Tensor]) -> Tensor:
        """The mean loss of a whole batch, from the vectors of all its examples and their `labels`."""
        raise NotImplementedError

    def divergence(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """The divergence of two outputs for a batch, (KL(p, q) + KL(q, p)) / 2, summed where labels are not ignored."""
        p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
        apart = ((p.exp() - q.exp()) * (p - q)).sum(dim=-1) / 2
        return apart[labels != IGNORE].sum()

    @property
    def label_smoothing(self) -> float:
        return 0.0

    def weight(self, labels: Tensor) -> float:
        """The divisor of a batch's loss: the number of labels that are not ignored."""
        return float((labels != IGNORE).sum())

    def size(self, batch: Batch) -> int:
        """The size of a batch in tokens or examples, to report the speed."""
        return int(self.weight(batch["labels"]))

    @abstractmethod
    def count(self, split: Literal["test", "valid"]) -> int:
        """The number of examples to score; windows of running text. Without a test set, `test` means `valid`."""

    @abstractmethod
    def validate(self, most: int | None = None) -> dict[str, float]:
        """The metrics during training, on at most `most` examples of the validation set: `loss` and others that are
        quick."""

    @abstractmethod
    def evaluate(self, most: int | None = None) -> Scores:
        """The final scores, on at most `most` examples of `split`."""

    @abstractmethod
    def work(self) -> Work:
        """An estimate of what `evaluate` asks the model to compute."""

    @abstractmethod
    def score_some(self, most: int) -> Scores:
        """Only the metrics of `evaluate`, on a sample of at most `most` examples (windows of running text). For
        repeated scoring, as in `inspect/looks/importance.py`."""

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """The data and the model in words: a line each for data, tokens, model and so on."""

    def seen_example(self) -> Batch | None:
        """One scored example as model inputs, for the attention in the report. None for texts, which are already in
        the examples of the scores."""
        return None

    @abstractmethod
    def try_next(self, out: Path) -> list[list[str]]:
        """Suggested commands for the finished run, as lists of words."""

    def compared(
        self, methods: Mapping[str, Callable[[], dict[str, float]]]
    ) -> tuple[dict[str, dict[str, float]], list[str]]:
        """The scores of the baselines, and a note for each baseline that was skipped: too slow, or not possible."""
        found, notes = {}, []
        for name, reach in methods.items():
            try:
                until = self.until and max(self.until, time.perf_counter() + GRACE)
                with self.follow.limited(until), self.follow.named(name):
                    found[name] = reach()
            except OutOfTime as late:
                notes.append(f"baseline skipped: {name} ({late}, more than is left of --minutes)")
            except InputError as error:
                notes.append(f"baseline skipped: {name} ({error})")
        return found, notes

    def sample_of(self, whole: int, some: int) -> str | None:
        """The description of a sample for `Scores`; None if all were scored."""
        return as_sample(some, whole, self.counts or self.unit) if some < whole else None

    def record(self) -> dict[str, Any]:
        """What run.json stores about the data, besides the settings."""
        return {}

    def named_files(self) -> Mapping[Path, Sequence[Path]]:
        """Data files that name other files, such as a table of images, each with the files it names."""
        return {}

    def write_beside(self, folder: Path) -> None:  # noqa: B027 - most tasks have none
        """Writes further files of the model, if there are any."""

    def budget(self, settings: TrainSettings) -> int | None:
        """The number of steps: `--steps` or the task's default; None if `--minutes` decides."""
        return settings.steps or (None if settings.minutes else self.steps)

    def is_better(self, value: float, than: float | None, metric: str) -> bool:
        if than is None:
            return True
        return value < than if metric in self.falling else value > than


def sample_numbers(count: int, most: int | None) -> list[int]:
    """The numbers of at most `most` of `count` examples, in order: a random sample, since a file may be sorted, but
    always the same one, so that scores can be compared. A smaller sample is part of a larger one."""
    if most is None or most >= count:
        return list(range(count))
    order: list[int] = np.random.default_rng(0).permutation(count)[:most].tolist()
    return sorted(order)
