"""Translation: an encoder reads the source, and a decoder generates the target token by token.

Training gives the decoder the true target shifted right by one, so that it learns to predict every token from those
before it (teacher forcing). The model and the label smoothing are the paper's (sections 3 and 5); for its optimiser
add --optimizer adam --schedule inverse-sqrt --warmup 400.
"""

from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F

from glassformer.config import GenerationConfig, GenerationOptions, StackConfig, TransformerConfig
from glassformer.core.model import IGNORE
from glassformer.data.batches import bucketed
from glassformer.data.dates import date_pairs
from glassformer.data.files import file_kind, text_format
from glassformer.data.formats.table import describe_together
from glassformer.data.pairs import TextPair, read_pairs
from glassformer.data.split import shared_examples, split_without_duplicates
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.predict.calls import TEXTS_AT_ONCE, TokenLimit, arguments_of_rows
from glassformer.predict.writing import translate
from glassformer.tasks.baselines import NO_TRAINING, nearest_source
from glassformer.tasks.metrics import translation_metrics
from glassformer.tasks.models import describe_model, make_model, stack_sizes
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.texts import (
    TextEncoder,
    describe_tokenizer,
    fit_tokenizer,
    make_tokenizer,
    truncation_note,
    unknown_note,
)
from glassformer.text import Tokenizer
from glassformer.text.padding import pad
from glassformer.training.task import Batch, Scores, Task, sample_numbers

HELD_OUT_DATES = 500  # for validation, and the same number for the test
REPORT_EXAMPLES = 20  # examples in the report
EXTRA_TOKENS = 50  # extra length of a translation in tokens (the paper, section 6.1): an untrained model never stops


class Translate(Task):
    """Pairs of texts, an encoder-decoder over one shared vocabulary, smoothed cross-entropy, BLEU and exact match."""

    name: ClassVar[str] = "translate"
    unit: ClassVar[str] = "pairs"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bleu", "chrf", "exact_match")
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 600

    tokenizer: Tokenizer
    test: list[TextPair] | None

    def __init__(self, settings: TranslateSettings, files: Sequence[Path] = ()) -> None:
        self.settings: TranslateSettings = settings
        self.left_out = self.doubles = 0
        self.shared = ""  # a note on sources shared between files
        self.forms: dict[str, str] = {}  # format of each file
        self.notes: list[str] = []  # notes on the scores
        self.columns: tuple[str, str] | None = None  # names of the source and target columns, if any
        self.pairs, self.valid, self.test = ([], [], self.read(files)) if files else self.load()
        if not files:
            self.notes.clear()  # already printed before training
        texts = (text for pair in self.pairs for text in (pair.source, pair.target))
        self.tokenizer = make_tokenizer(settings, texts, around="end")
        self.model = make_model(settings, self.config, head="language")
        if self.model.encoder is None or self.model.decoder is None:
            raise InputError(f"--init {settings.init} has only one stack: translation needs an encoder and a decoder")
        if settings.init is not None:
            self.set_search()
        fit_tokenizer(self.tokenizer, self.model)
        self.cutter = TextEncoder(self.tokenizer, settings, self.model.config.room)
        self.examples = self.encode(self.pairs)
        self.sampled: tuple[int, list[tuple[list[int], list[int]]]] = -1, []  # an epoch and its examples
        for held_out in (self.valid, self.test or []):
            self.encode(held_out)  # a text that is too long is an error now, not at the first evaluation

    def load(self) -> tuple[list[TextPair], list[TextPair], list[TextPair] | None]:
        """Training, validation and test pairs: given, split off, or the built-in dates."""
        settings = self.settings
        if not settings.data:
            held_out = date_pairs(2 * HELD_OUT_DATES, seed=settings.seed, held_out=True)
            dates = date_pairs(settings.examples, seed=settings.seed)
            return dates, held_out[HELD_OUT_DATES:], held_out[:HELD_OUT_DATES]
        pairs, test = self.read(settings.data), self.read(settings.test) or None
        given = self.read(settings.valid)
        parts = {"training": pairs, "validation": given, "test": test or []}
        self.shared = shared_examples({part: [pair.source for pair in some] for part, some in parts.items()}, "sources")
        if given:
            return pairs, given, test
        train, valid = split_without_duplicates(
            [pair.source for pair in pairs], settings.valid_fraction, seed=settings.seed, name=str(settings.data[0])
        )
        self.doubles = len(pairs) - len(train) - len(valid)
        return [pairs[i] for i in train], [pairs[i] for i in valid], test

    def read(self, files: Sequence[Path]) -> list[TextPair]:
        """The pairs of all files: tables and single files hold pairs, other files are aligned in pairs."""
        settings, waiting = self.settings, None
        pairs: list[TextPair] = []
        for file in files:
            if waiting is not None:
                found = read_pairs(waiting, file, skip_empty=settings.skip_empty, options=settings.tables)
                for one in (waiting, file):
                    self.forms[one.name] = f"{text_format(one, settings.tables)} text"
                waiting = None
            elif len(files) == 1 or holds_pairs(file):
                found = read_pairs(
                    file,
                    source_column=settings.source_column,
                    target_column=settings.target_column,
                    skip_empty=settings.skip_empty,
                    options=settings.tables,
                )
                self.columns = self.columns or found.columns
                named = "; source is {!r}, target {!r}".format(*found.columns) if found.columns else ""
                self.forms[file.name] = found.written + named
                if found.form is not None and found.form.is_worth_telling:
                    self.notes.append(f"{file} was read as {self.forms[file.name]}")
            else:
                waiting = file
                continue
            pairs += found
            self.left_out += len(found.left_out)
        if waiting is not None:
            raise InputError(f"{waiting} has no second file. Give sources and targets in pairs, aligned line by line")
        return pairs

    def config(self) -> TransformerConfig:
        """The paper's model at the requested size."""
        settings, tokenizer = self.settings, self.tokenizer
        stack = StackConfig(
            **{"dropout": 0.1, **stack_sizes(settings)}, norm_order=settings.norm_order, max_len=settings.max_len
        )
        return TransformerConfig(
            encoder=stack,
            decoder=stack,
            vocab_size=len(tokenizer),
            scale_embeddings=True,
            init="paper",
            pad_token_id=tokenizer.padding_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.bos_token_id,
            generation=GenerationConfig(
                max_new_tokens=min(256, settings.max_len),
                num_beams=settings.num_beams,
                length_penalty=settings.length_penalty,
            ),
        )

    def set_search(self) -> None:
        """Sets the search of a loaded model: its own settings, unless flags change them."""
        beams, penalty = self.settings.num_beams, self.settings.length_penalty
        asked = {**({"num_beams": beams} if beams > 1 else {}), **({"length_penalty": penalty} if penalty != 1 else {})}
        config = self.model.config
        self.model.config = config.replace(generation=config.generation.replace(**asked))

    def encode(self, pairs: Sequence[TextPair]) -> list[tuple[list[int], list[int]]]:
        places = [pair.place or f"pair {number}" for number, pair in enumerate(pairs, start=1)]
        sources, targets = (
            self.cutter.rows(
                [getattr(pair, side) for pair in pairs],
                what="text",
                places=[f"{place}: the {side}" for place in places],
                target=side == "target",
            )
            for side in ("source", "target")
        )
        return list(zip(sources, targets, strict=True))

    def batches(self, epoch: int) -> list[list[int]]:
        lengths = [max(map(len, example)) for example in self.in_epoch(epoch)]
        return bucketed(lengths, self.settings.batch_tokens, seed=self.settings.seed, epoch=epoch)

    def in_epoch(self, epoch: int) -> list[tuple[list[int], list[int]]]:
        """The training examples as tokenised in this epoch. All at once, because `batches` needs their lengths."""
        if not self.settings.subword_dropout:
            return self.examples
        if self.sampled[0] != epoch:
            self.sampled = (
                epoch,
                [
                    (
                        self.cutter.sampled(pair.source, source, epoch, 2 * number),
                        self.cutter.sampled(pair.target, target, epoch, 2 * number + 1),
                    )
                    for number, (pair, (source, target)) in enumerate(zip(self.pairs, self.examples, strict=True))
                ],
            )
        return self.sampled[1]

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        encoded = self.in_epoch(epoch)
        return self.as_batch([encoded[number] for number in examples])

    def as_batch(self, examples: Sequence[tuple[list[int], list[int]]]) -> Batch:
        sources, targets = zip(*examples, strict=True)
        labels = pad(targets, IGNORE)  # (B, T)
        return {
            **arguments_of_rows(sources, self.tokenizer.padding_id),
            "decoder_input_ids": self.model.shift_right(labels),
            "labels": labels,
        }

    @property
    def label_smoothing(self) -> float:
        return self.settings.label_smoothing

    @torch.no_grad()
    def cross_entropy(self, pairs: Sequence[TextPair]) -> float:
        """The mean loss per target token, with teacher forcing."""
        examples = self.encode(pairs)
        loss = tokens = 0.0
        batches = bucketed([max(map(len, e)) for e in examples], self.settings.batch_tokens, seed=0, epoch=0)
        for numbers in self.follow(batches):
            batch = {name: x.to(self.model.device) for name, x in self.as_batch([examples[i] for i in numbers]).items()}
            labels = batch.pop("labels")
            logits = self.model(**batch).logits.float()
            loss += float(F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum", ignore_index=IGNORE))
            tokens += self.weight(labels)
        return loss / tokens

    def count(self, split: Literal["test", "valid"]) -> int:
        return len((split == "test" and self.test) or self.valid)

    def validate(self, most: int | None = None) -> dict[str, float]:
        pairs = [self.valid[number] for number in sample_numbers(len(self.valid), most)]
        loss = self.cross_entropy(pairs)
        metrics = {"loss": loss, "perplexity": exp(min(700.0, loss))}
        if self.settings.metric not in (None, *metrics):  # a metric that needs translations, which take longer
            metrics |= self.scored(pairs, num_beams=1)[0]
        return metrics

    def scored(
        self, pairs: Sequence[TextPair], num_beams: int | None = None
    ) -> tuple[dict[str, float], list[str], list[str]]:
        encoded = self.encode(pairs)
        own, room = self.model.config.generation, self.cutter.limit
        most = min(own.max_new_tokens or own.max_length or room, room)
        longer = max(EXTRA_TOKENS, *(len(target) - len(source) for source, target in encoded))

        def longest(source: int) -> int:
            return min(most, source + longer)

        sources = [pair.source for pair in pairs]
        options = GenerationOptions(num_beams=num_beams)
        limit = TokenLimit(self.cutter.limit, self.settings.truncate, aloud=False)
        with self.follow.counted(len(sources)) as tell:
            guesses = translate(
                self.model, self.tokenizer, sources, generation=options, limit=limit, longest=longest,
                engine=self.engine, tell=tell,
            )  # fmt: skip
        truths = [self.tokenizer.decode(target) for _, target in encoded]  # unknown characters are lost, as in guesses
        return (*self.measure(guesses, pairs, truths), guesses)

    def measure(
        self, guesses: Sequence[str], pairs: Sequence[TextPair], truths: Sequence[str]
    ) -> tuple[dict[str, float], list[str]]:
        right = sum(guess == truth for guess, truth in zip(guesses, truths, strict=True))
        metrics, notes = translation_metrics(
            guesses, [pair.target for pair in pairs], self.settings.bleu_tokenize, lowercase=self.settings.lowercase
        )
        return {**metrics, "exact_match": right / len(pairs)}, notes

    @property
    def judged(self) -> Sequence[TextPair]:
        return (self.split == "test" and self.test) or self.valid

    def work(self) -> Work:
        examples = self.encode(self.judged)
        sources, targets = (sum(len(example[side]) for example in examples) for side in (0, 1))
        beams = self.model.config.generation.num_beams
        return Work(reads=2 * sources + targets, writes=beams * targets, rows=beams * min(len(examples), TEXTS_AT_ONCE))

    def score_some(self, most: int) -> Scores:
        pairs = [self.judged[number] for number in sample_numbers(len(self.judged), most)]
        metrics = {**self.scored(pairs)[0], "perplexity": exp(min(700.0, self.cross_entropy(pairs)))}
        return Scores(metrics=metrics, count=len(pairs), unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        pairs = [self.judged[number] for number in sample_numbers(len(self.judged), most)]
        metrics, notes, guesses = self.scored(pairs)
        loss = self.cross_entropy(pairs)
        if not self.pairs:
            notes = [*notes, NO_TRAINING]

        def nearest() -> dict[str, float]:
            similar = nearest_source(self.pairs, pairs, self.follow)
            return self.measure(similar, pairs, [pair.target for pair in pairs])[0]

        methods = {"translation of the most similar training sentence": nearest} if self.pairs else {}
        baselines, left_out = self.compared(methods)
        rows = [
            {"source": pair.source, "expected": pair.target, "translation": guess}
            for pair, guess in zip(pairs[:REPORT_EXAMPLES], guesses, strict=False)
        ]
        return Scores(
            metrics={**metrics, "perplexity": exp(min(700.0, loss))},
            count=len(pairs),
            unit=self.unit,
            notes=[
                *self.notes,
                *([self.shared] if self.shared else []),
                *notes,
                *left_out,
                *unknown_note(self.tokenizer, [pair.source for pair in pairs]),
            ],
            baselines=baselines,
            examples=rows,
            sample=self.sample_of(len(self.judged), len(pairs)),
        )

    def record(self) -> dict[str, Any]:
        return {"columns": list(self.columns)} if self.columns else {}

    def try_next(self, out: Path) -> list[list[str]]:
        return [["glassformer", "predict", str(out), (self.test or self.valid)[0].source]]

    def describe(self) -> dict[str, str]:
        origin = ", ".join(map(str, self.settings.data))
        origin = origin or "the built-in dates, English to Korean (no --data was given)"
        tested = f", {len(self.test):,} to test" if self.test else ""
        doubles = f"; {self.doubles:,} left out because their source is held out" if self.doubles else ""
        empty = f"; {self.left_out:,} empty ones left out (--skip-empty)" if self.left_out else ""
        shared = f"; {self.shared}" if self.shared else ""
        return {
            "data": f"{origin}: {len(self.pairs):,} pairs to train on, {len(self.valid):,} held out{tested}"
            f"{doubles}{empty}{truncation_note(self.cutter.cut, self.cutter.limit)}{shared}",
            **({"format": describe_together(self.forms)} if self.forms else {}),
            "tokens": describe_tokenizer(self.tokenizer, self.settings),
            "model": describe_model(self.model, self.settings),
        }


def holds_pairs(file: Path) -> bool:
    """Whether a file holds pairs itself; other files are aligned in pairs."""
    return file_kind(file) is not None and not file.name.lower().removesuffix(".gz").endswith(".txt")
