"""Masked language modelling: an encoder predicts masked tokens (BERT: Devlin et al., 2019).

Of every ten tokens to predict, eight are masked, one is replaced by a random token, and one is unchanged. They are
drawn again in each epoch; on held-out text they are always the same. The presets have the architecture of ModernBERT
(Warner et al., 2024) and are saved as such.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from glassformer.config import TransformerConfig
from glassformer.core.heads import LanguageHead
from glassformer.core.model import IGNORE
from glassformer.data.batches import shuffled_batches
from glassformer.data.corpus import Corpus
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.tasks.baselines import NO_TRAINING, most_frequent_token
from glassformer.tasks.corpora import (
    Int64Array,
    check_context,
    describe_corpora,
    describe_forms,
    load_corpora,
    notes_of,
    sliding_windows,
    take_windows,
    training_texts,
    unknown_tokens_note,
    window_starts,
)
from glassformer.tasks.lm import VALIDATION_WINDOWS, summed_loss
from glassformer.tasks.models import describe_model, encoder_config, make_model
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import MlmSettings
from glassformer.tasks.texts import describe_tokenizer, fit_tokenizer, make_tokenizer
from glassformer.text import Tokenizer
from glassformer.text.words import WordBoundaries
from glassformer.training.task import Batch, Scores, Task, sample_numbers

MASKED, REPLACED = 0.8, 0.1  # shares of the tokens to predict
MAX_FREQUENCY_TOKENS = 3_000_000  # training tokens counted for the frequency baseline
REPORT_EXAMPLES, NEIGHBOURS = 20, 12  # examples in the report, and tokens of context on either side


@dataclass
class MaskedPredictions:
    """Predictions of masked tokens: the total loss, the true tokens, and the predicted ones."""

    loss: float
    truths: list[int]
    guesses: list[int]
    examples: list[dict[str, str]]

    @property
    def accuracy(self) -> float:
        return sum(truth == guess for truth, guess in zip(self.truths, self.guesses, strict=True)) / len(self.truths)

    @property
    def mean(self) -> float:
        return self.loss / len(self.truths)

    @property
    def metrics(self) -> dict[str, float]:
        return {"accuracy": self.accuracy, "perplexity": exp(min(700.0, self.mean))}


class MaskedLanguageModel(Task):
    """Running text, an encoder, cross-entropy and accuracy of the masked tokens."""

    name: ClassVar[str] = "mlm"
    unit: ClassVar[str] = "masked tokens"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "accuracy")
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 800
    validated: ClassVar[int | None] = VALIDATION_WINDOWS
    counts: ClassVar[str | None] = "windows"

    tokenizer: Tokenizer

    def __init__(self, settings: MlmSettings, files: Sequence[Path] = ()) -> None:
        self.settings: MlmSettings = settings
        self.tokenizer = make_tokenizer(settings, training_texts(settings), around="segments")
        if self.tokenizer.mask_token_id is None:
            raise InputError(
                f"the tokenizer of {settings.init or settings.tokenizer_from} has no mask token: expected one of a "
                "masked language model, such as BERT"
            )
        self.model = make_model(settings, self.config, head="language")
        if self.model.decoder is not None:
            raise InputError(f"--init {settings.init} has a decoder: a masked language model has only an encoder")
        fit_tokenizer(self.tokenizer, self.model)
        check_context(settings, self.model)
        self.mask = self.tokenizer.mask_token_id
        self.before = [i for i in (self.tokenizer.cls_token_id,) if i is not None]
        self.after = [i for i in (self.tokenizer.sep_token_id,) if i is not None]
        self.length = settings.context - len(self.before) - len(self.after)  # tokens of text in a window
        if self.length < 1:
            raise InputError(
                f"--context {settings.context} leaves no room for text between the special tokens. Raise it"
            )
        added = self.tokenizer.backend.get_added_tokens_decoder()
        special = [i for i, token in added.items() if token.special]
        self.ordinary = np.setdiff1d(np.arange(len(self.tokenizer)), special)
        self.is_ordinary = np.isin(np.arange(max(len(self.tokenizer), *special) + 1), self.ordinary)
        self.words = WordBoundaries(self.tokenizer) if settings.whole_words else None
        self.corpora = load_corpora(settings, self.tokenizer, files, counts_bytes=False)
        self.test = self.corpora.test

    def config(self) -> TransformerConfig:
        return encoder_config(self.settings, self.tokenizer, max_len=self.settings.context, head="language")

    def batches(self, epoch: int) -> list[list[int]]:
        size = max(1, self.settings.batch_tokens // self.settings.context)
        return shuffled_batches(len(self.window_starts(epoch)), size, seed=self.settings.seed, epoch=epoch)

    def window_starts(self, epoch: int) -> range:
        return window_starts(self.corpora.trained, self.length, seed=self.settings.seed, epoch=epoch)

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        generators = [np.random.default_rng([self.settings.seed, epoch, number]) for number in examples]
        every = self.window_starts(epoch)
        batch = self.as_batch(self.corpora.trained, np.array([every[number] for number in examples]), generators)
        logits_at = batch["labels"] != IGNORE  # (B, T): only these have a loss
        return {**batch, "logits_at": logits_at, "labels": batch["labels"][logits_at]}

    def size(self, batch: Batch) -> int:
        return batch["input_ids"].numel()

    def as_batch(
        self,
        corpus: Corpus,
        starts: Int64Array,
        generators: Sequence[np.random.Generator],
        new: Int64Array | None = None,
    ) -> Batch:
        """Windows with some tokens masked; only tokens from position `new` of the text on may be masked."""
        length = min(self.length, len(corpus))
        truth, documents = take_windows(corpus, starts, length)
        may = self.is_ordinary[truth]
        if new is not None:
            may &= starts[:, None] + np.arange(length) >= new[:, None]
        begins = np.ones_like(may) if self.words is None else self.words.begins(truth)
        begins[:, 1:] |= documents[:, 1:] != documents[:, :-1]
        inputs, labels = truth.copy(), np.full_like(truth, IGNORE)
        for row, generator in enumerate(generators):
            chosen = masked_positions(may[row], begins[row], self.settings.mask_fraction, generator)
            labels[row, chosen] = truth[row, chosen]
            inputs[row, chosen] = self.hide(truth[row, chosen], generator)
        ends = (len(self.before), len(self.after))
        rows = [np.tile(np.array(ids, dtype=np.int64), (len(starts), 1)) for ids in (self.before, self.after)]
        batch = {
            "input_ids": torch.tensor(np.concatenate([rows[0], inputs, rows[1]], axis=1)),
            "labels": torch.tensor(np.pad(labels, ((0, 0), ends), constant_values=IGNORE)),
        }
        if (documents[:, 0] != documents[:, -1]).any():
            batch["documents"] = torch.tensor(np.pad(documents, ((0, 0), ends), mode="edge"))
        return batch

    def hide(self, truth: Int64Array, generator: np.random.Generator) -> Int64Array:
        fate = generator.random(len(truth))
        others = generator.choice(self.ordinary, len(truth))
        return np.select([fate < MASKED, fate < MASKED + REPLACED], [np.full_like(truth, self.mask), others], truth)

    @property
    def label_smoothing(self) -> float:
        return self.settings.label_smoothing

    def fixed_batches(self, corpus: Corpus, most: int | None = None) -> Iterator[Batch]:
        """All windows of a text, or `most` of them, with the same tokens masked each time."""
        windows = sliding_windows(corpus, self.length, self.length)
        windows = windows[sample_numbers(len(windows), most)]
        size = max(1, self.settings.batch_tokens // self.settings.context)
        for first in self.follow(range(0, len(windows), size)):
            starts, new = windows[first : first + size].T  # (B), (B)
            yield self.as_batch(corpus, starts, [np.random.default_rng([0, int(start)]) for start in starts], new)

    @torch.no_grad()
    def judge(self, corpus: Corpus, most: int | None = None) -> MaskedPredictions:
        judged, head = MaskedPredictions(0.0, [], [], []), self.model.head
        assert isinstance(head, LanguageHead)
        for batch in self.fixed_batches(corpus, most):
            labels = batch.pop("labels").to(self.model.device)
            hidden = self.model.encode(**{name: value.to(self.model.device) for name, value in batch.items()})
            logits = head(hidden[labels != IGNORE])  # (masked, V): logits of other tokens are not needed
            truths = labels[labels != IGNORE]
            judged.loss += float(summed_loss(logits, truths))
            judged.truths += truths.tolist()
            guesses = logits.argmax(dim=-1)
            judged.guesses += guesses.tolist()
            if len(judged.examples) < REPORT_EXAMPLES:
                judged.examples += self.shown(batch["input_ids"], labels.cpu(), guesses.cpu())
        if not judged.truths:
            raise InputError("the held-out text has no token to mask. Give more text, or raise --valid-fraction")
        return judged

    def shown(self, inputs: Tensor, labels: Tensor, guesses: Tensor) -> list[dict[str, str]]:
        """One prediction per window, with its context as the model saw it."""
        rows, places = (labels != IGNORE).nonzero(as_tuple=True)
        found = []
        for row in range(len(inputs)):
            of_row = (rows == row).nonzero().flatten().tolist()
            if of_row:
                which = of_row[len(of_row) // 2]
                place = int(places[which])
                around = inputs[row, max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1].clone()
                around[min(place, NEIGHBOURS)] = self.mask
                kept = [i for i in around.tolist() if i not in (*self.before, *self.after)]
                expected, answer = self.tokenizer.tokens([int(labels[row, place]), int(guesses[which])])
                text = self.tokenizer.decode(kept, skip_special=False)
                found.append({"text": text, "expected": expected, "answer": answer})
        return found

    def count(self, split: Literal["test", "valid"]) -> int:
        return len(sliding_windows(self.corpora.scored(split), self.length, self.length))

    def validate(self, most: int | None = VALIDATION_WINDOWS) -> dict[str, float]:
        assert self.corpora.valid is not None
        judged = self.judge(self.corpora.valid, most)
        return {"loss": judged.mean, "perplexity": exp(min(700.0, judged.mean)), "accuracy": judged.accuracy}

    def work(self) -> Work:
        return Work(reads=len(self.corpora.scored(self.split)))

    def score_some(self, most: int) -> Scores:
        judged = self.judge(self.corpora.scored(self.split), most)
        return Scores(metrics=judged.metrics, count=len(judged.truths), unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        judged, whole = self.judge(self.corpora.scored(self.split), most), self.count(self.split)
        baselines = {}
        notes = [f"{self.settings.mask_fraction:.0%} of the tokens are predicted, always the same ones"]
        notes += notes_of(self.corpora)
        if self.corpora.train is None:
            notes.append(NO_TRAINING)
        else:
            counted = self.corpora.train.tokens[:MAX_FREQUENCY_TOKENS]
            frequent = most_frequent_token(
                [counted[self.is_ordinary[counted]].tolist()], judged.truths, len(self.tokenizer)
            )
            if len(self.corpora.train) > MAX_FREQUENCY_TOKENS:
                notes.append(f"token frequencies are counted on the first {MAX_FREQUENCY_TOKENS:,} training tokens")
            baselines["the most frequent token"] = {"accuracy": frequent.accuracy, "perplexity": frequent.perplexity}
        return Scores(
            metrics=judged.metrics,
            count=len(judged.truths),
            unit=self.unit,
            notes=[*notes, *unknown_tokens_note(self.tokenizer, self.corpora.scored(self.split))],
            baselines=baselines,
            examples=judged.examples[:REPORT_EXAMPLES],
            sample=self.sample_of(whole, whole if most is None else most),
        )

    def try_next(self, out: Path) -> list[list[str]]:
        ids = self.corpora.scored(self.split).tokens[:NEIGHBOURS].astype(np.int64)
        ids[len(ids) // 2] = self.mask
        return [["glassformer", "predict", str(out), self.tokenizer.decode(ids.tolist(), skip_special=False)]]

    def describe(self) -> dict[str, str]:
        hidden = "whole words" if self.words is not None else "tokens"
        return {
            "data": describe_corpora(self.corpora, self.settings),
            **describe_forms(self.corpora),
            "windows": f"{len(self.window_starts(0)):,} of {self.settings.context} tokens in an epoch, with "
            f"{self.settings.mask_fraction:.0%} of the {hidden} to predict",
            "tokens": describe_tokenizer(self.tokenizer, self.settings),
            "model": describe_model(self.model, self.settings),
        }


def masked_positions(
    may: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    begins: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    fraction: float,
    generator: np.random.Generator,
) -> Int64Array:
    """Positions to predict in a row: words in random order, up to `fraction` of the tokens that `may` be chosen.

    If every token begins a word, these are single tokens; at least one word is chosen if there is any.
    """
    word = np.cumsum(begins) - 1  # (T): the word of each token
    sizes = np.bincount(word, weights=may)
    order = generator.permutation(len(sizes))
    order = order[sizes[order] > 0]
    reached = np.cumsum(sizes[order])
    taken = order[reached - sizes[order] / 2 <= fraction * may.sum()]  # includes the last word if most of it fits
    return np.flatnonzero(np.isin(word, taken if len(taken) else order[:1]) & may)
