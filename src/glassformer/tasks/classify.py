"""Classification: an encoder reads a text, a text pair or a series and predicts its class, or all classes that apply.

Inputs are read by `readers.py`; the loss and the scores are in `classes.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from glassformer.checkpoints.labels import Problem, class_names, name_classes, problem_of
from glassformer.config import TransformerConfig
from glassformer.data.batches import bucketed
from glassformer.data.files import Examples, locate
from glassformer.data.formats.table import describe_together
from glassformer.data.split import shared_examples, split_without_duplicates
from glassformer.data.texts import check_labels, label_hints, label_names
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.generation.encode import map_batches
from glassformer.tasks.baselines import NO_TRAINING, bag_of_words, majority_class
from glassformer.tasks.classes import REPORT_EXAMPLES, ClassTask, balanced_weights
from glassformer.tasks.models import describe_model, make_model
from glassformer.tasks.readers import InputReader, SeriesReader, TextReader
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import ClassifySettings
from glassformer.training.task import Batch, Scores, sample_numbers

INPUT_READERS: dict[str, type[InputReader]] = {"text": TextReader, "series": SeriesReader}
MAX_BASELINE_EXAMPLES = 20_000  # maximum number of training examples for the bag-of-words baseline
ORIGINS = {"arrivals": "questions about who arrived when", "documentation": "a word missing in Python's documentation"}
SINGLE_LABEL: Problem = "single_label_classification"
MULTI_LABEL: Problem = "multi_label_classification"


class Classify(ClassTask):
    """Labelled texts or series, an encoder, cross-entropy, accuracy and F1."""

    name: ClassVar[str] = "classify"
    unit: ClassVar[str] = "examples"
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 600

    doubles = 0  # number of training examples removed because their text is held out
    shared = ""  # a note on examples shared between files

    def __init__(self, settings: ClassifySettings, files: Sequence[Path] = ()) -> None:
        self.settings: ClassifySettings = settings
        self.reader: InputReader = INPUT_READERS[settings.reads](settings)
        self.train: Examples[Any] | None = None
        self.valid: Examples[Any] | None = None
        self.forms: dict[str, str] = {}  # format of each file
        self.notes: list[str] = []  # notes on the scores
        if files:
            if len(files) > 1:
                raise InputError(f"{len(files)} files to score: expected one, with a label in each row")
            self.test: Examples[Any] | None = self.read(files[0])
            if self.test.form is not None and self.test.form.is_worth_telling:
                self.notes.append(f"{files[0]} was read as {self.test.written}")
        else:
            self.train, self.valid, self.test = self.load()
        self.reader.prepare(self.train or self.test or ())
        self.tokenizer = self.reader.tokenizer
        self.several = settings.label_separator is not None or has_several(self.train or self.test or ())
        self.make_model()
        self.check_examples()
        self.reader.fit(self.model)
        self.encoded = self.reader.encode(self.train) if self.train else []
        for held_out in filter(None, (self.valid, self.test)):
            self.reader.encode(held_out)  # a text that is too long is an error now, not at the first evaluation
        self.targets = self.as_targets(self.train) if self.train else torch.empty(0)
        if settings.class_weights == "balanced" and self.train:
            self.class_weights = balanced_weights(self.targets, len(self.names))

    def read(self, path: Path) -> Examples[Any]:
        found = self.reader.read(path)
        self.forms[path.name] = found.written
        return found

    def load(self) -> tuple[Examples[Any], Examples[Any], Examples[Any] | None]:
        """Training, validation and test examples: given, split off, or built in."""
        settings, read = self.settings, self.read
        test: Examples[Any] | None
        if settings.data is None:
            examples, test = self.reader.built_in(held_out=False), self.reader.built_in(held_out=True)
        else:
            examples, test = read(settings.data), read(settings.test) if settings.test else None
        given = read(settings.valid) if settings.valid else None
        parts = {"training": examples, "validation": given, "test": test}
        inputs = {
            part: [example.texts if settings.reads == "text" else example.values for example in some]
            for part, some in parts.items()
            if some is not None
        }
        self.shared = shared_examples(inputs) if settings.data else ""
        if given is not None:
            return examples, given, test
        train, valid = split_without_duplicates(
            inputs["training"],
            settings.valid_fraction,
            seed=settings.seed,
            strata=None if has_several(examples) else [example.labels for example in examples],
            name=str(settings.data or settings.examples),
        )
        self.doubles = len(examples) - len(train) - len(valid)
        return sample_examples(examples, train, left_out=examples.left_out), sample_examples(examples, valid), test

    def make_model(self) -> None:
        """The model, with the classes of the training examples; a loaded model keeps its classes."""
        settings = self.settings
        if settings.init is not None and settings.head is None:
            self.model = make_model(settings, self.no_config, head="class")
            self.names = class_names(self.model)
            self.several = problem_of(self.model) == MULTI_LABEL
            return
        self.names = label_names(self.train or ())
        if len(self.names) < 2:
            raise InputError(f"{settings.data}: the label is {self.names[0]!r} in all examples, expected two or more")
        count = len(self.names)
        self.model = make_model(settings, lambda: self.reader.config(count), head="class", num_classes=count)
        name_classes(self.model, self.names, MULTI_LABEL if self.several else SINGLE_LABEL)

    def no_config(self) -> TransformerConfig:
        raise AssertionError("a loaded model has its own config")

    def check_examples(self) -> None:
        """Checks that the model knows each label, and that there is exactly one if one is expected."""
        for examples in filter(None, (self.train, self.valid, self.test)):
            check_labels(examples, self.names)
            for line, example in zip(examples.lines, examples, strict=True):
                if not self.several and len(example.labels) != 1:
                    raise InputError(
                        f"{locate(examples.path, line)}: the labels are {list(example.labels)!r}, expected one. "
                        "If several may apply, give the separator between them with --label-separator"
                    )

    def as_targets(self, examples: Examples[Any]) -> Tensor:
        """The class number of each example, (N); if several may apply, 0 or 1 for each class, (N, C)."""
        number = {name: i for i, name in enumerate(self.names)}
        if not self.several:
            return torch.tensor([number[example.labels[0]] for example in examples])
        targets = torch.zeros(len(examples), len(self.names))
        for row, example in enumerate(examples):
            targets[row, [number[label] for label in example.labels]] = 1.0
        return targets

    def batches(self, epoch: int) -> list[list[int]]:
        lengths = [self.reader.length(example) for example in self.reader.in_epoch(self.encoded, epoch)]
        return bucketed(
            lengths, self.settings.batch_tokens, seed=self.settings.seed, epoch=epoch,
            max_examples=self.settings.batch_size,
        )  # fmt: skip

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        encoded = self.reader.in_epoch(self.encoded, epoch)
        batch = self.reader.batch([encoded[number] for number in examples])
        return {**batch, "labels": self.targets[list(examples)]}

    def size(self, batch: Batch) -> int:
        return int(batch["attention_mask"].sum()) if "attention_mask" in batch else len(batch["labels"])

    @property
    def label_smoothing(self) -> float:
        return self.settings.label_smoothing

    @torch.no_grad()
    def answer(self, examples: Examples[Any]) -> tuple[Tensor, Tensor]:
        """The logits (N, C) and the labels of all examples, in order."""
        encoded = self.reader.encode(examples)

        lengths = [self.reader.length(example) for example in encoded]
        with self.follow.counted(sum(lengths)) as tell:

            def run(numbers: Sequence[int]) -> Tensor:
                batch = self.reader.batch([encoded[i] for i in numbers])
                found = self.model(**{name: value.to(self.model.device) for name, value in batch.items()}).logits
                tell(sum(lengths[i] for i in numbers))
                return found.float().cpu()

            logits = map_batches(lengths, run, self.settings.batch_tokens)
        return torch.stack(logits), self.as_targets(examples)

    def count(self, split: Literal["test", "valid"]) -> int:
        return len((self.test if split == "test" else None) or self.valid or ())

    def validate(self, most: int | None = None) -> dict[str, float]:
        assert self.valid is not None
        return self.measure_quickly(*self.answer(sample_examples(self.valid, sample_numbers(len(self.valid), most))))

    @property
    def judged(self) -> Examples[Any]:
        examples = (self.test if self.split == "test" else None) or self.valid
        assert examples is not None
        return examples

    def work(self) -> Work:
        return Work(reads=sum(self.reader.length(example) for example in self.reader.encode(self.judged)))

    def score_some(self, most: int) -> Scores:
        some = sample_examples(self.judged, sample_numbers(len(self.judged), most))
        return Scores(metrics=self.measure(*self.answer(some)), count=len(some), unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        whole = self.judged
        examples = sample_examples(whole, sample_numbers(len(whole), most))
        inputs = [self.reader.show(example) for example in examples]
        baselines, notes = self.baselines(examples)
        shared = [self.shared] if self.shared else []
        said = [*self.notes, *shared, *self.reader.notes(examples), *notes]
        scores = self.score(*self.answer(examples), inputs, baselines, said)
        return replace(scores, sample=self.sample_of(len(whole), len(examples)))

    def baselines(self, examples: Examples[Any]) -> tuple[dict[str, dict[str, float]], list[str]]:
        """Scores of the majority class and of bag of words; and why one of them is left out."""
        if self.train is None:
            return {}, [NO_TRAINING]
        if self.several:
            return {}, ["no baseline: the baselines predict a single class, but examples here have several labels"]
        before, truths = ([example.labels[0] for example in some] for some in (self.train, examples))
        found = {"always the most frequent class": {"accuracy": majority_class(before, truths)}}
        if self.settings.reads != "text":
            return found, []
        if len(self.train) > MAX_BASELINE_EXAMPLES:
            return found, [
                f"no bag-of-words baseline: {len(self.train):,} training examples are more than "
                f"{MAX_BASELINE_EXAMPLES:,}, which "
                "would take too long"
            ]
        known, asked = (
            [(self.reader.show(example), example.labels[0]) for example in some] for some in (self.train, examples)
        )
        words = {"bag of words, logistic regression": lambda: {"accuracy": bag_of_words(known, asked, self.follow)}}
        counted, notes = self.compared(words)
        return found | counted, notes

    def record(self) -> dict[str, Any]:
        texts = {"texts": len(self.train[0].texts)} if self.train and self.settings.reads == "text" else {}
        return {"classes": self.names, **texts}

    def seen_example(self) -> Batch | None:
        if self.settings.reads == "text":
            return None
        return self.reader.batch(self.reader.encode(sample_examples(self.judged, [0])))

    def try_next(self, out: Path) -> list[list[str]]:
        example = next(iter(self.test or self.valid or ()))
        if self.settings.reads == "text" and len(example.texts) == 1:
            return [["glassformer", "predict", str(out), example.texts[0]]]
        return [["glassformer", "inspect", "params", str(out)]]

    def describe(self) -> dict[str, str]:
        assert self.train is not None
        assert self.valid is not None
        origin = str(self.settings.data or f"{ORIGINS[self.settings.examples]} (no --data was given)")
        tested = f", {len(self.test):,} to test" if self.test else ""
        left_out = sum(len(examples.left_out) for examples in (self.train, self.valid, self.test) if examples)
        doubles = f"; {self.doubles:,} left out because their text is held out" if self.doubles else ""
        empty = f"{doubles}; {left_out:,} empty ones left out (--skip-empty)" if left_out else doubles
        some = ", ".join(self.names[:REPORT_EXAMPLES]) + (", ..." if len(self.names) > REPORT_EXAMPLES else "")
        hints = label_hints(label for example in self.train for label in example.labels) if self.settings.data else []
        shared = f"; {self.shared}" if self.shared else ""
        how = "any number of labels per example" if self.several else "one label per example"
        return {
            "data": f"{origin}: {len(self.train):,} examples to train on, {len(self.valid):,} held out{tested}{empty}"
            f"{shared}",
            **({"format": describe_together(self.forms)} if self.forms else {}),
            "classes": f"{len(self.names)}, {how}: {some}",
            **({"labels": "; ".join(hints)} if hints else {}),
            **self.reader.describe(),
            "model": describe_model(self.model, self.settings),
        }


def has_several(examples: Sequence[Any]) -> bool:
    return any(len(example.labels) != 1 for example in examples)


def sample_examples(examples: Examples[Any], numbers: Sequence[int], left_out: Sequence[int] = ()) -> Examples[Any]:
    """The examples with these numbers, with their lines."""
    lines = [examples.lines[i] for i in numbers]
    return Examples([examples[i] for i in numbers], path=examples.path, lines=lines, left_out=left_out)
