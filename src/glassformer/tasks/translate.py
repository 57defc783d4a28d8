"""Translation: an encoder reads the source, a decoder writes the target, one token after another.

Training gives the decoder the true target shifted right by one, so that it learns to predict every token from those
before it (teacher forcing). The model, the label smoothing and the optimiser are the paper's (sections 3 and 5).
"""

import random
from collections.abc import Sequence
from math import exp

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config import GenerationConfig, StackConfig, TransformerConfig
from glassformer.core.model import IGNORE, Transformer
from glassformer.data.batches import bucketed, pad
from glassformer.data.dates import date_pairs
from glassformer.data.pairs import Pair, read_pairs
from glassformer.errors import InputError
from glassformer.schema import OPEN
from glassformer.settings import TranslateSettings
from glassformer.tasks.predictors import translate
from glassformer.text import Tokenizer, train_tokenizer

HELD_OUT_DATES = 500


class Translate:
    """Pairs of texts, an encoder-decoder over one shared vocabulary, smoothed cross-entropy, exact match."""

    name = "translate"

    def __init__(self, settings: TranslateSettings) -> None:
        self.settings = settings
        torch.manual_seed(settings.seed)
        self.pairs, self.held_out = load_pairs(settings)
        texts = [text for pair in self.pairs for text in (pair.source, pair.target)]
        self.tokenizer = train_tokenizer(texts, settings.vocab_size)
        self.examples = self.encode(self.pairs)
        self.lengths = [max(map(len, example)) for example in self.examples]
        self.model = Transformer(model_config(settings, self.tokenizer))

    def encode(self, pairs: Sequence[Pair]) -> list[tuple[list[int], list[int]]]:
        return [(self.tokenizer.ids(pair.source), self.tokenizer.ids(pair.target)) for pair in pairs]

    def batches(self, epoch: int) -> list[list[int]]:
        return bucketed(self.lengths, self.settings.batch_tokens, seed=self.settings.seed, epoch=epoch)

    def loss(self, batch: list[int]) -> tuple[Tensor, int]:
        examples = [self.examples[i] for i in batch]
        tokens = sum(len(target) for _, target in examples)
        return self.cross_entropy(examples, self.settings.label_smoothing) / tokens, tokens

    def cross_entropy(self, examples: Sequence[tuple[list[int], list[int]]], smoothing: float) -> Tensor:
        """Summed over the target tokens of these examples, each predicted from the true ones before it."""
        sources, targets = zip(*examples, strict=True)
        labels = pad(targets, IGNORE)  # (B, T)
        logits = self.model(
            pad(sources, self.tokenizer.padding_id),
            attention_mask=pad([[1] * len(source) for source in sources], 0),
            decoder_input_ids=self.model.shift_right(labels),
        ).logits  # (B, T, V)
        return F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum"
        )

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """On the held-out pairs: how many translations are right to the letter, and the perplexity per target token."""
        guesses = translate(self.model, self.tokenizer, [pair.source for pair in self.held_out])
        examples = self.encode(self.held_out)
        truths = [self.tokenizer.decode(target) for _, target in examples]  # as the tokenizer writes it
        right = sum(guess == truth for guess, truth in zip(guesses, truths, strict=True))
        batches = bucketed(
            [max(map(len, example)) for example in examples], self.settings.batch_tokens, seed=0, epoch=0
        )
        loss = sum(self.cross_entropy([examples[i] for i in batch], 0.0).item() for batch in batches)
        return {
            "exact_match": right / len(self.held_out),
            "perplexity": exp(min(700.0, loss / sum(len(target) for _, target in examples))),
            "held_out": len(self.held_out),
        }


def load_pairs(settings: TranslateSettings) -> tuple[list[Pair], list[Pair]]:
    """What to train on and what to keep from it: the user's pairs split at random, or the built-in dates."""
    path = settings.data or settings.source
    if path is None:
        held_out = date_pairs(HELD_OUT_DATES, seed=settings.seed, held_out=True)
        return date_pairs(settings.examples, seed=settings.seed), held_out
    pairs = read_pairs(path, settings.target)
    random.Random(f"split {settings.seed}").shuffle(pairs)
    held_out = pairs[: max(1, round(settings.held_out * len(pairs)))]
    sources = {pair.source for pair in held_out}
    training = [pair for pair in pairs if pair.source not in sources]  # also no double of what is held out
    if not training:
        raise InputError(f"{path} has {len(pairs)} pairs: too few to train on some and hold out others")
    return training, held_out


def model_config(settings: TranslateSettings, tokenizer: Tokenizer) -> TransformerConfig:
    """The paper's model at the size that was asked for."""
    stack = StackConfig(
        d_model=settings.d_model,
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        d_ff=OPEN if settings.d_ff is None else settings.d_ff,
        norm_order=settings.norm_order,
        dropout=settings.dropout,
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
        generation=GenerationConfig(max_new_tokens=128),
    )
