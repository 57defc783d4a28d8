"""Causal language modelling: a decoder reads text and predicts each next token (Radford et al., 2018).

Training splits the text into windows of `context` tokens. Each token is predicted from those before it in its document:
the model reads a start token at the beginning of a document, and tokens do not attend across documents. The presets
have the architecture of LLaMA (Touvron et al., 2023) and are saved as such.
"""

from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config import GenerationConfig, GenerationOptions, StackConfig, TransformerConfig
from glassformer.core.model import IGNORE
from glassformer.data.batches import shuffled_batches
from glassformer.data.corpus import Corpus
from glassformer.data.ngram import character_ngram
from glassformer.errors import InputError
from glassformer.generation.choose_engine import Work
from glassformer.predict.writing import complete
from glassformer.tasks.baselines import NO_TRAINING
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
    window_starts,
)
from glassformer.tasks.models import describe_model, make_model, stack_sizes, with_gated_width
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import LmSettings
from glassformer.tasks.texts import describe_tokenizer, fit_tokenizer, make_tokenizer
from glassformer.text import Tokenizer
from glassformer.training.task import Batch, Scores, Task, sample_numbers

VALIDATION_WINDOWS = 256  # windows, spread over the text, used for validation during training
MAX_NGRAM_BYTES = 3_000_000  # maximum bytes of text for the n-gram baseline
REPORTED = ("bits_per_byte", "perplexity")
PROMPT = 20  # tokens of held-out text at the start of a sample


class LanguageModel(Task):
    """Running text, a decoder, cross-entropy of each next token, perplexity and bits per byte."""

    name: ClassVar[str] = "lm"
    unit: ClassVar[str] = "tokens"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_byte")
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 900
    validated: ClassVar[int | None] = VALIDATION_WINDOWS
    counts: ClassVar[str | None] = "windows"

    tokenizer: Tokenizer

    def __init__(self, settings: LmSettings, files: Sequence[Path] = ()) -> None:
        self.settings: LmSettings = settings
        self.tokenizer = make_tokenizer(settings, training_texts(settings), around="nothing")
        self.model = make_model(settings, self.config, head="language")
        if self.model.encoder is not None:
            raise InputError(f"--init {settings.init} has an encoder: a causal language model has only a decoder")
        fit_tokenizer(self.tokenizer, self.model)
        check_context(settings, self.model)
        known = (i for i in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id) if i is not None)
        self.start = next(known, None)  # read before the first token of a document
        self.corpora = load_corpora(settings, self.tokenizer, files, counts_bytes=True)
        self.test = self.corpora.test

    def config(self) -> TransformerConfig:
        """LLaMA at the requested size."""
        settings, tokenizer = self.settings, self.tokenizer
        stack = StackConfig(
            **with_gated_width({"dropout": 0.1, **stack_sizes(settings)}),
            max_len=settings.context,
            positions="rotary",
            norm="rms",
            activation="silu",
            gated=True,
            qkv_bias=False,
            out_bias=False,
            ffn_bias=False,
        )
        return TransformerConfig(
            decoder=stack,
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            generation=GenerationConfig(do_sample=True, temperature=0.8, max_new_tokens=max(1, settings.context // 2)),
        )

    def batches(self, epoch: int) -> list[list[int]]:
        starts = self.window_starts(epoch)
        size = max(1, self.settings.batch_tokens // self.settings.context)
        return shuffled_batches(len(starts), size, seed=self.settings.seed, epoch=epoch)

    def window_starts(self, epoch: int) -> range:
        return window_starts(self.corpora.trained, self.settings.context, seed=self.settings.seed, epoch=epoch)

    def collate(self, examples: Sequence[int], epoch: int) -> Batch:
        every = self.window_starts(epoch)
        starts = np.array([every[number] for number in examples])
        return self.as_batch(self.corpora.trained, starts, self.settings.context)

    def as_batch(self, corpus: Corpus, starts: Int64Array, length: int) -> Batch:
        """Windows of `length` tokens as labels, and as input the token before each.

        The first token of a document has the start token before it; without one, it is not predicted. In attention and
        positions, an input token belongs to the document of its label.
        """
        ids, documents = take_windows(corpus, starts - 1, length + 1)
        inputs, labels = ids[:, :-1], ids[:, 1:]
        begins = documents[:, :-1] != documents[:, 1:]
        begins[starts == 0, 0] = True
        if self.start is None:
            labels = np.where(begins, IGNORE, labels)
        else:
            inputs = np.where(begins, self.start, inputs)
        batch = {"input_ids": torch.tensor(inputs), "labels": torch.tensor(labels)}
        if (documents[:, 1] != documents[:, -1]).any():
            batch["documents"] = torch.tensor(documents[:, 1:])
        return batch

    @property
    def label_smoothing(self) -> float:
        return self.settings.label_smoothing

    @torch.no_grad()
    def cross_entropy(self, corpus: Corpus, windows: Int64Array) -> tuple[float, int]:
        """The summed loss of the new tokens in these windows, and their number."""
        length = min(self.settings.context, len(corpus))
        total, count = 0.0, 0
        size = max(1, self.settings.batch_tokens // length)
        for first in self.follow(range(0, len(windows), size)):
            starts, new = windows[first : first + size].T  # (B), (B)
            batch = self.as_batch(corpus, starts, length)
            old = torch.tensor(starts[:, None] + np.arange(length) < new[:, None])  # (B, T)
            labels = batch.pop("labels").masked_fill(old, IGNORE).to(self.model.device)
            logits = self.model(**{name: value.to(self.model.device) for name, value in batch.items()}).logits
            total += float(summed_loss(logits, labels))
            count += int(self.weight(labels))
        return total, count

    def windows(self, split: Literal["test", "valid"]) -> Int64Array:
        """The windows to score: side by side during training, overlapping by --overlap in the final score."""
        context = self.settings.context
        if split == "valid":
            return sliding_windows(self.corpora.scored("valid"), context, context)
        return sliding_windows(self.corpora.scored(self.split), context, self.stride)

    def count(self, split: Literal["test", "valid"]) -> int:
        return len(self.windows(split))

    def validate(self, most: int | None = VALIDATION_WINDOWS) -> dict[str, float]:
        assert self.corpora.valid is not None
        windows = self.windows("valid")
        chosen = windows[sample_numbers(len(windows), most)]
        return self.measured(self.corpora.valid, *self.cross_entropy(self.corpora.valid, chosen))

    def measured(self, corpus: Corpus, total: float, count: int) -> dict[str, float]:
        """The mean loss per token, its exponential, and bits per byte: loss / log(2) * tokens / bytes."""
        loss = total / count
        bits = loss / log(2) * len(corpus) / corpus.num_bytes
        return {"loss": loss, "perplexity": exp(min(700.0, loss)), "bits_per_byte": bits}

    def work(self) -> Work:
        return Work(reads=len(self.corpora.scored(self.split)) * self.settings.context // self.stride)

    @property
    def stride(self) -> int:
        """Distance between the starts of two windows in the final score."""
        return max(1, self.settings.context - int(self.settings.context * self.settings.overlap))

    def score_some(self, most: int) -> Scores:
        corpus, windows = self.corpora.scored(self.split), self.windows("test")
        total, count = self.cross_entropy(corpus, windows[sample_numbers(len(windows), most)])
        measured = self.measured(corpus, total, count)
        return Scores(metrics={name: measured[name] for name in REPORTED}, count=count, unit=self.unit)

    def evaluate(self, most: int | None = None) -> Scores:
        corpus, context = self.corpora.scored(self.split), self.settings.context
        windows = self.windows("test")
        chosen = windows[sample_numbers(len(windows), most)]
        total, count = self.cross_entropy(corpus, chosen)
        measured = self.measured(corpus, total, count)
        every = "every token" if len(chosen) == len(windows) else "every token of the sample"
        notes = [
            f"{every} is predicted once, with {context - self.stride} to {context} tokens before it where "
            f"its document has them; {corpus.num_bytes:,} bytes of text in UTF-8"
        ]
        if corpus.num_unknown:
            notes.append(
                f"{corpus.num_unknown:,} of these bytes are unknown to the tokenizer, so bits per byte is too low to "
                "compare. Use --tokenizer bytes"
            )
        examples = self.sample()
        methods, why_not = self.methods()
        baselines, left_out = self.compared(methods)
        left_out = [*why_not, *left_out]
        if baselines and len(chosen) < len(windows):
            notes.append("simple methods are scored on all of the text")
        return Scores(
            metrics={name: measured[name] for name in REPORTED},
            count=count,
            unit=self.unit,
            notes=[*notes, *notes_of(self.corpora), *left_out],
            baselines=baselines,
            examples=examples,
            sample=self.sample_of(len(windows), len(chosen)),
        )

    def methods(self) -> tuple[dict[str, Callable[[], dict[str, float]]], list[str]]:
        """The character 5-gram baseline, or why it is left out: the text is too long, or its tokens lose characters."""
        train, scored = self.corpora.train, self.corpora.scored(self.split)
        if train is None:
            return {}, [NO_TRAINING]
        longest = max(train.num_bytes, scored.num_bytes)
        if longest > MAX_NGRAM_BYTES:
            return {}, [
                f"no 5-gram baseline: {longest:,} bytes are more than {MAX_NGRAM_BYTES:,}, which would take too long"
            ]
        before, text = (self.tokenizer.decode(corpus.tokens.tolist()) for corpus in (train, scored))
        if (len(before.encode()), len(text.encode())) != (train.num_bytes, scored.num_bytes):
            return {}, ["no 5-gram baseline: the tokenizer is lossy, so its tokens do not decode to the same text"]

        def count() -> dict[str, float]:
            with self.follow.counted(len(before) + len(text)) as tell:
                return {"bits_per_byte": character_ngram(before, text, tell=tell)}

        return {"character 5-grams (Kneser-Ney)": count}, []

    def sample(self) -> list[dict[str, str]]:
        """A sample text: the model continues the beginning of the held-out text."""
        beginning = self.corpora.scored(self.split).tokens[: min(PROMPT, self.settings.context // 2)].tolist()
        most = min(self.settings.sample, self.settings.context - len(beginning))
        if most < 1:
            return []
        prompt = self.tokenizer.decode(beginning)
        options = GenerationOptions(do_sample=True, temperature=0.8, seed=self.settings.seed, max_new_tokens=most)
        (text,) = complete(self.model, self.tokenizer, [prompt], generation=options)
        return [{"prompt": prompt, "continuation": text}]

    def try_next(self, out: Path) -> list[list[str]]:
        prompt = self.tokenizer.decode(self.corpora.scored(self.split).tokens[:PROMPT].tolist())
        return [["glassformer", "predict", str(out), " ".join(prompt.split()[:6])]]

    def describe(self) -> dict[str, str]:
        corpora, windows = self.corpora, len(self.window_starts(0))
        documents = corpora.trained.num_documents
        packed = f", packed from {documents:,} documents that do not attend to each other" if documents > 1 else ""
        return {
            "data": describe_corpora(corpora, self.settings),
            **describe_forms(corpora),
            "windows": f"{windows:,} of {self.settings.context} tokens in an epoch{packed}",
            "tokens": describe_tokenizer(self.tokenizer, self.settings),
            "model": describe_model(self.model, self.settings),
        }


def summed_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.float().flatten(0, -2), labels.flatten(), ignore_index=IGNORE, reduction="sum")
