"""What the loop asks of a task. A task is data, model, loss and metric; each has its page in `tasks/`.

Everything drawn at random is drawn from (seed, epoch, example), so that a batch is the same however often the run was
killed, and in whichever process it is computed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from glassformer.core.model import IGNORE, Transformer
from glassformer.generation.choose_engine import Work
from glassformer.generation.engine import Engine
from glassformer.text import Tokenizer
from glassformer.training.settings import TrainSettings

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
    classes: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)  # row: true class, column: the model's answer
    curves: list[Curve] = field(default_factory=list)
    engine: str | None = None  # how the engine ran the model, if it did


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

    settings: TrainSettings
    test: Any = None  # examples for the score at the end, if there are any beside the validation set
    split: Literal["test", "valid"] = "test"  # what `evaluate` scores; the validation set where there is no test set
    model: Transformer
    engine: Engine | None = None  # generates for `evaluate`; in training there is none: a resumed run repeats each bit
    tokenizer: Tokenizer | None = None

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
    def validate(self) -> dict[str, float]:
        """The metrics during training, on the validation set: `loss` and what else is quick."""

    @abstractmethod
    def evaluate(self) -> Scores:
        """The scores at the end, on the test set if there is one and none other is asked for (`split`)."""

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

    @abstractmethod
    def try_next(self, out: Path) -> list[list[str]]:
        """Commands that a person may want to run on the finished run, as lists of words."""

    def record(self) -> dict[str, Any]:
        """What a run must remember of its data, beside the settings."""
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


def spread(count: int, most: int) -> list[int]:
    """At most so many of `count` examples, at even distances: a file may be sorted."""
    chosen = min(count, most)
    return [number * count // chosen for number in range(chosen)]
