"""Inputs of `classify`: texts, text pairs or series, each with its files, its model and its batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from glassformer.config import SeriesConfig, StackConfig, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.data.arrivals import arrival_examples
from glassformer.data.documentation import documentation_examples
from glassformer.data.files import Examples, locate, unit_of
from glassformer.data.labeled_series import LabeledSeries, read_labeled_series
from glassformer.data.texts import LabeledText, read_labeled
from glassformer.errors import InputError
from glassformer.predict.calls import arguments_of_rows
from glassformer.tasks.models import encoder_config, stack_sizes
from glassformer.tasks.settings import ClassifySettings
from glassformer.tasks.texts import (
    TextEncoder,
    describe_tokenizer,
    fit_tokenizer,
    make_tokenizer,
    truncation_note,
    unknown_note,
)
from glassformer.text import Tokenizer
from glassformer.training.task import Batch

PATCHES = 20  # default number of patches in a series
SHOWN_VALUES = 6


class InputReader(ABC):
    """One kind of input, from file to batch."""

    tokenizer: Tokenizer | None = None
    model: Transformer

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings

    @abstractmethod
    def read(self, path: Path) -> Examples[Any]:
        """The examples of a file, with their lines."""

    @abstractmethod
    def built_in(self, *, held_out: bool) -> Examples[Any]:
        """The built-in examples, used without --data."""

    @abstractmethod
    def prepare(self, examples: Iterable[Any]) -> None:
        """Prepares what the model needs from the training examples, such as the tokenizer."""

    @abstractmethod
    def config(self, num_classes: int) -> TransformerConfig: ...

    @abstractmethod
    def fit(self, model: Transformer) -> None:
        """Sets the model, and refuses one of another kind."""

    @abstractmethod
    def encode(self, examples: Examples[Any]) -> list[Any]:
        """Encoded examples."""

    def in_epoch(self, encoded: list[Any], epoch: int) -> list[Any]:
        """The encoded training examples, augmented for this epoch."""
        return encoded

    @abstractmethod
    def batch(self, encoded: Sequence[Any]) -> Batch:
        """The model's arguments."""

    @abstractmethod
    def length(self, encoded: Any) -> int: ...

    @abstractmethod
    def show(self, example: Any) -> str:
        """An example as text, for the report."""

    def notes(self, examples: Examples[Any]) -> list[str]:
        """Notes on the scores of these examples."""
        return []

    @abstractmethod
    def describe(self) -> dict[str, str]: ...


class TextReader(InputReader):
    """A text or a text pair: its tokens, and the segment of each."""

    def __init__(self, settings: ClassifySettings) -> None:
        super().__init__(settings)
        self.trained: list[LabeledText] = []
        self.sampled: tuple[int, list[tuple[list[int], list[int]]]] = -1, []  # an epoch and its examples

    def read(self, path: Path) -> Examples[LabeledText]:
        return read_labeled(
            path,
            text_columns=self.settings.text_columns or None,
            label_column=self.settings.label_column,
            label_separator=self.settings.label_separator,
            skip_empty=self.settings.skip_empty,
            options=self.settings.tables,
        )

    def built_in(self, *, held_out: bool) -> Examples[LabeledText]:
        make = arrival_examples if self.settings.examples == "arrivals" else documentation_examples
        examples = [LabeledText((text,), (label,)) for text, label in make(held_out)]
        return Examples(examples, path=Path(self.settings.examples), lines=range(1, len(examples) + 1))

    def prepare(self, examples: Iterable[LabeledText]) -> None:
        self.trained = list(examples)
        texts = (text for example in self.trained for text in example.texts)
        self.tokenizer = make_tokenizer(self.settings, texts, around="segments")
        if self.settings.subword_dropout and any(len(example.texts) > 1 for example in self.trained):
            raise InputError("--subword-dropout works on single texts, but these are pairs. Leave it out")

    def config(self, num_classes: int) -> TransformerConfig:
        assert self.tokenizer is not None
        return encoder_config(
            self.settings, self.tokenizer, max_len=self.settings.max_len, dropout=0.2,
            head="class", num_classes=num_classes, pooling=self.settings.pooling,
        )  # fmt: skip

    def fit(self, model: Transformer) -> None:
        assert self.tokenizer is not None
        if model.config.patches is not None:
            raise InputError(f"--init {self.settings.init} does not read text: give a text model, or --reads series")
        self.model = model
        fit_tokenizer(self.tokenizer, model)
        self.cutter = TextEncoder(self.tokenizer, self.settings, model.config.room)

    def encode(self, examples: Examples[LabeledText]) -> list[tuple[list[int], list[int]]]:
        """The ids of each text, and the segments of a pair if the model uses segments."""
        counts = {len(example.texts) for example in examples}
        if len(counts) > 1:
            raise InputError(f"{examples.path} has single texts and pairs: expected one kind")
        first, *second = ([example.texts[i] for example in examples] for i in range(counts.pop()))
        pairs = second[0] if second else None
        unit = unit_of(examples.path)
        places = [f"{examples.path}, {unit} {line}" for line in examples.lines]
        rows = self.cutter.rows(first, pairs, what="text", places=places)
        has_segments = pairs is not None and self.model.config.num_segments > 1
        segments = self.cutter.segments(first, pairs or []) if has_segments else [[] for _ in rows]
        return list(zip(rows, segments, strict=True))

    def in_epoch(self, encoded: list[Any], epoch: int) -> list[Any]:
        """With --subword-dropout, all texts tokenised anew, because batches of similar length need their lengths."""
        if not self.settings.subword_dropout:
            return encoded
        if self.sampled[0] != epoch:
            self.sampled = (
                epoch,
                [
                    (self.cutter.sampled(example.texts[0], ids, epoch, number), segments)
                    for number, (example, (ids, segments)) in enumerate(zip(self.trained, encoded, strict=True))
                ],
            )
        return self.sampled[1]

    def batch(self, encoded: Sequence[Any]) -> Batch:
        assert self.tokenizer is not None
        rows, segments = zip(*encoded, strict=True)
        return arguments_of_rows(rows, self.tokenizer.padding_id, segments)

    def length(self, encoded: tuple[list[int], list[int]]) -> int:
        return len(encoded[0])

    def show(self, example: LabeledText) -> str:
        return " | ".join(example.texts)

    def notes(self, examples: Examples[LabeledText]) -> list[str]:
        assert self.tokenizer is not None
        first, *second = zip(*(example.texts for example in examples), strict=True)
        return unknown_note(self.tokenizer, first, second[0] if second else None)

    def describe(self) -> dict[str, str]:
        assert self.tokenizer is not None
        return {
            "tokens": describe_tokenizer(self.tokenizer, self.settings)
            + truncation_note(self.cutter.cut, self.cutter.limit)
        }


class SeriesReader(InputReader):
    """A series of numbers in patches (PatchTST: Nie et al., 2023), normalised to mean 0 and standard deviation 1."""

    values: int  # length of each series
    tokens: int

    def read(self, path: Path) -> Examples[LabeledSeries]:
        return read_labeled_series(path, label_column=self.settings.label_column, options=self.settings.tables)

    def built_in(self, *, held_out: bool) -> Examples[LabeledSeries]:
        raise InputError("--reads series needs --data: there are no built-in series with classes")

    def prepare(self, examples: Iterable[LabeledSeries]) -> None:
        self.values = len(next(iter(examples)).values)

    def config(self, num_classes: int) -> TransformerConfig:
        patch = self.settings.patch or max(1, round(self.values / PATCHES))
        stride = max(1, patch // 2)
        if patch > self.values:
            raise InputError(f"--patch {patch} is longer than the series: expected at most {self.values} values")
        series = SeriesConfig(length=self.values, patch=patch, stride=stride, channels=1, instance_norm=True)
        stack = StackConfig(
            **{"dropout": 0.1, **stack_sizes(self.settings)},
            max_len=series.num_tokens,
            positions="learned",
            activation="gelu",
        )
        return TransformerConfig(
            encoder=stack, series=series, head="class", num_classes=num_classes, pooling=self.settings.pooling
        )

    def fit(self, model: Transformer) -> None:
        if model.config.series is None:
            raise InputError(f"--init {self.settings.init} does not read series: expected a model trained on series")
        self.model = model
        self.values, self.tokens = model.config.series.length, model.config.series.num_tokens

    def encode(self, examples: Examples[LabeledSeries]) -> list[tuple[float, ...]]:
        for example, line in zip(examples, examples.lines, strict=True):
            if len(example.values) != self.values:
                raise InputError(
                    f"{locate(examples.path, line)}: {len(example.values)} values, but the model reads {self.values}"
                )
        return [example.values for example in examples]

    def batch(self, encoded: Sequence[Any]) -> Batch:
        return {"past_values": torch.tensor(encoded).unsqueeze(2)}  # (B, L, 1)

    def length(self, encoded: tuple[float, ...]) -> int:
        return self.tokens

    def show(self, example: LabeledSeries) -> str:
        first = " ".join(f"{value:.3g}" for value in example.values[:SHOWN_VALUES])
        return f"{first} ... ({len(example.values)} values)" if len(example.values) > SHOWN_VALUES else first

    def describe(self) -> dict[str, str]:
        series = self.model.config.series
        assert series is not None
        return {"series": f"{self.values} values, in {self.tokens} patches of {series.patch}, stride {series.stride}"}
