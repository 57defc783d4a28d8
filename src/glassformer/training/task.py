"""What the loop asks of a task. A task is data, model, loss and metric; each has its page in `tasks/`.

Everything drawn at random is drawn from (seed, epoch, example), so that a batch is the same however often the run was
killed, and in whichever process it is computed.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.model import IGNORE
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.generation.engine import Engine
from glassformer.text import Tokenizer
from glassformer.training.plan import as_sample
from glassformer.training.settings import TrainSettings
from glassformer.training.waiting import Follow, OutOfTime

GRACE = 1.0  # seconds that a simple method has in any case
Batch = dict[str, Tensor]  # the model's arguments by name, and `labels`


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A forecast to be drawn: what was known, what came, and what was said to come."""

    name: str
    past: Sequence[float]
    truth: Sequence[float]
    forecast: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How good a model is on a set of examples, and what a report shows of it."""

    metrics: dict[str, float]  # the first is the one that people ask for
    count: int  # examples that were scored ...
    unit: str  # ... and what they are: pairs, texts, windows
    notes: list[str] = field(default_factory=list)  # what a number needs beside it, such as BLEU's signature
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)  # what simple methods reach
    examples: list[dict[str, str]] = field(default_factory=list)  # rows with the same keys: input, expected, answer
    pictures: list[NDArray[np.uint8]] = field(default_factory=list)  # of the examples, (Y, X) or (Y, X, 3)
    classes: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)  # row: true class, column: the model's answer
    curves: list[Curve] = field(default_factory=list)
    engine: str | None = None  # how the engine ran the model, if it did
    sample: str | None = None  # "a sample of 2,000 of 50,000 examples", if not all were scored

    @property
    def scored_on(self) -> str:
        return self.sample or f"{self.count:,} {self.unit}"


class Task(ABC):
    """Data, model, loss and metric of one kind of training.

    A task is made from its settings: `Translate(settings)`. To judge a finished run, they name it as `init`, and
    `Translate(settings, files)` reads the examples of these files to be scored, and none to train on.
    """

    name: ClassVar[str]
    unit: ClassVar[str]  # what an example is: pairs, texts, windows, images
    metrics: ClassVar[tuple[str, ...]]  # what is measured during training ...
    metric: ClassVar[str]  # ... and which of it decides what weights are best
    falling: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_byte", "mse", "mae")  # less is better
    steps: ClassVar[int]  # a sensible length of training, where nobody says
    validated: ClassVar[int | None] = None  # examples that an evaluation scores, where there are more; None for all
    counts: ClassVar[str | None] = None  # what `count` counts, where that is not the unit
    compares: ClassVar[bool] = False  # the loss compares all examples of a batch: `vectors` and `compare` say how

    settings: TrainSettings
    test: Any = None  # examples for the score at the end, if there are any beside the validation set
    split: Literal["test", "valid"] = "test"  # what `evaluate` scores; the validation set where there is no test set
    model: Any  # a Transformer; of a task that compares texts with images, a Pair
    engine: Engine | None = None  # generates for `evaluate`; in training there is none: a resumed run repeats each bit
    tokenizer: Tokenizer | None = None
    follow: Follow = Follow()  # counts the loops that a person waits for
    until: float | None = None  # when simple methods must have ended, as `time.perf_counter` counts

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Sequence[int]]:
        """The training examples of an epoch, by number, one list for each update: a function of seed and epoch."""

    @abstractmethod
    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        """These training examples as tensors."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Summed over all labels that count."""
        return F.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORE, reduction="sum",
            label_smoothing=self.label_smoothing,
        )  # fmt: skip

    def vectors(self, output: Any) -> dict[str, Tensor]:
        """Of a task that compares: a row for each example of a part, and numbers that belong to all, by name."""
        raise NotImplementedError

    def compare(self, vectors: Mapping[str, Tensor]) -> Tensor:
        """The mean loss of a whole batch, by the vectors of all of its examples and their `labels`."""
        raise NotImplementedError

    def divergence(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        """How far two answers to the same batch are apart, (KL(p, q) + KL(q, p)) / 2, summed where labels count."""
        p, q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
        apart = ((p.exp() - q.exp()) * (p - q)).sum(dim=-1) / 2
        return apart[labels != IGNORE].sum()

    @property
    def label_smoothing(self) -> float:
        return 0.0

    def weight(self, labels: Tensor) -> float:
        """What the loss of a batch is divided by: how many labels count."""
        return float((labels != IGNORE).sum())

    def size(self, batch: Batch) -> int:
        """How much there is in a batch, for the speed: tokens, or examples."""
        return int(self.weight(batch["labels"]))

    @abstractmethod
    def count(self, split: Literal["test", "valid"]) -> int:
        """How many examples there are to be scored; of running text, windows. Without a test set, `test` is `valid`."""

    @abstractmethod
    def validate(self, most: int | None = None) -> dict[str, float]:
        """The metrics during training, on the validation set or at most so many of it: `loss` and what else is
        quick."""

    @abstractmethod
    def evaluate(self, most: int | None = None) -> Scores:
        """The scores at the end, on the test set if there is one and none other is asked for (`split`), or on at most
        so many of its examples."""

    @abstractmethod
    def work(self) -> Work:
        """What `evaluate` asks of the model, about."""

    @abstractmethod
    def score_some(self, most: int) -> Scores:
        """The metrics of `evaluate` on at most so many of its examples, spread over them, and nothing beside: for
        whoever asks again and again, such as `inspect/looks/importance.py`. Of running text an example is a window."""

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """What is about to be trained, on what: a line for each of data, tokens, model and the like."""

    def seen_example(self) -> Batch | None:
        """One scored example as the model reads it, for the attention in the report. None where it is a text, which
        the examples of the scores already hold."""
        return None

    @abstractmethod
    def try_next(self, out: Path) -> list[list[str]]:
        """Commands that a person may want to run on the finished run, as lists of words."""

    def compared(
        self, methods: Mapping[str, Callable[[], dict[str, float]]]
    ) -> tuple[dict[str, dict[str, float]], list[str]]:
        """What simple methods reach, and a note for each that is left out because it takes too long, or cannot be."""
        found, notes = {}, []
        for name, reach in methods.items():
            try:
                until = self.until and max(self.until, time.perf_counter() + GRACE)
                with self.follow.limited(until), self.follow.named(name):
                    found[name] = reach()
            except OutOfTime as late:
                notes.append(f"left out, {name}: {late}, more than --minutes leaves")
            except InputError as error:
                notes.append(f"left out, {name}: {error}")
        return found, notes

    def sample_of(self, whole: int, some: int) -> str | None:
        """What `Scores` say of a sample; nothing where all were scored."""
        return as_sample(some, whole, self.counts or self.unit) if some < whole else None

    def record(self) -> dict[str, Any]:
        """What a run must remember of its data, beside the settings."""
        return {}

    def named_files(self) -> Mapping[Path, Sequence[Path]]:
        """Files of the data that name other files, such as a table of images, and which these are."""
        return {}

    def write_beside(self, folder: Path) -> None:  # noqa: B027 - most tasks have none
        """Files that belong to the model beside its weights, if there are any."""

    def budget(self, settings: TrainSettings) -> int | None:
        """The steps of a training: as many as are asked for, or as are sensible; None where minutes decide."""
        return settings.steps or (None if settings.minutes else self.steps)

    def is_better(self, value: float, than: float | None, metric: str) -> bool:
        if than is None:
            return True
        return value < than if metric in self.falling else value > than


def spread(count: int, most: int | None) -> list[int]:
    """At most so many of `count` examples, in their order: drawn at random, since a file may be sorted, and always the
    same, so that scores can be compared. A smaller sample is part of a larger one."""
    if most is None or most >= count:
        return list(range(count))
    order: list[int] = np.random.default_rng(0).permutation(count)[:most].tolist()
    return sorted(order)
