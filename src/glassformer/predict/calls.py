"""Turns texts into calls of a model: encodes them, checks them, and batches them by similar length."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer.checkpoints.run import NO_RULES, TextRules
from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.data.pixels import SUFFIXES
from glassformer.errors import InputError
from glassformer.generation.encode import TextBatch, map_texts
from glassformer.text import Encoded, Tokenizer
from glassformer.text.padding import pad

TEXTS_AT_ONCE = 32  # maximum texts per batch in generation: each needs its own cache and logits
TOKENISE_CHUNK = 1024  # texts to tokenise at a time
InputT = TypeVar("InputT")
AnswerT = TypeVar("AnswerT")


_notes: ContextVar[Counter[str] | None] = ContextVar("notes", default=None)


def report_count(count: int, texts: int, what: str) -> None:
    """Prints how many texts something is true of, or adds the count to the notes of `collect_notes`."""
    kept = _notes.get()
    if kept is not None:
        kept[what] += count
        return
    of = f"{count:,} of {texts:,} texts {'is' if count == 1 else 'are'}" if texts > 1 else "the text is"
    print(f"{of} {what}", file=sys.stderr)


@contextmanager
def collect_notes(kept: Counter[str]) -> Iterator[None]:
    """Collects the notes of many calls in `kept`, so that the caller can print each once."""
    token = _notes.set(kept)
    try:
        yield
    finally:
        _notes.reset(token)


@dataclass(frozen=True)
class TokenLimit:
    """The maximum length of a text in tokens, and whether longer texts are truncated or refused."""

    tokens: int | None = None
    cuts: bool = False
    aloud: bool = True  # print how many texts were truncated

    def exceeded(self, length: int) -> bool:
        return self.tokens is not None and length > self.tokens

    def check(self, length: int, name: str) -> None:
        if self.exceeded(length) and not self.cuts:
            raise InputError(
                f"{name} has {length:,} tokens: expected at most {self.tokens:,}. Shorten it, or use --truncate"
            )

    def tell(self, cut: int, texts: int) -> None:
        if cut and self.aloud:
            report_count(cut, texts, f"longer than {self.tokens:,} tokens: truncated")


NO_LIMIT = TokenLimit()


def limit_of(model: Transformer, rules: TextRules, *, truncate: bool = False) -> TokenLimit:
    """The maximum length in training, or that of the model if it is smaller."""
    reads = model.config.encoder or model.config.last_stack
    return TokenLimit(least(rules.max_len, reads.room), rules.truncate or truncate)


def warn_long(model: Transformer, lengths: Sequence[int]) -> None:
    """Warns about texts longer than in training: rotary positions have no maximum, but the model never saw these."""
    reads = model.config.encoder or model.config.last_stack
    long = sum(length > reads.max_len for length in lengths)
    if long and reads.positions == "rotary":
        trained = f"the {reads.max_len:,} tokens that the model was trained on"
        report_count(long, len(lengths), f"longer than {trained}: answers may be worse")


def check_batch(texts: Sequence[object]) -> None:
    if isinstance(texts, str):
        raise InputError(f"a single text {texts[:40]!r} was given: expected a list of texts")


def in_batches(
    model: Transformer,
    texts: Sequence[InputT],
    encode: Callable[[Sequence[InputT], int | None], Encoded],
    run: Callable[[TextBatch], Iterable[AnswerT]],
    batch_tokens: int,
    batch_size: int | None,
    limit: TokenLimit = NO_LIMIT,
    seen: Callable[[Encoded, Sequence[InputT], int], object] = lambda encoded, some, start: None,
) -> list[AnswerT]:
    """The answers in the order of the texts. `encode` turns texts into ids, truncated if a length is given, and `run` a
    batch into answers. `seen` is called with each chunk of texts as it is encoded, before truncation.

    Memory holds the ids and answers of all texts, and everything else for one batch.
    """
    check_batch(texts)
    ids: list[Tensor] = []
    types: list[Tensor] = []
    cut = 0
    for start in range(0, len(texts), TOKENISE_CHUNK):
        some = texts[start : start + TOKENISE_CHUNK]
        encoded = encode(some, None)
        seen(encoded, some, start)
        long = [i for i, row in enumerate(encoded.ids) if limit.exceeded(len(row))]
        if long:
            limit.check(len(encoded.ids[long[0]]), f"text {start + long[0] + 1}")
            encoded = encode(some, limit.tokens)
        cut += len(long)
        ids += as_tensors(encoded.ids)
        if encoded.has_types and model.config.num_segments:
            types += as_tensors([row.type_ids for row in encoded.rows])
    limit.tell(cut, len(texts))
    warn_long(model, list(map(len, ids)))
    return map_texts(
        model, ids, run, token_type_ids=types or None, batch_tokens=batch_tokens, batch_size=batch_size
    )  # fmt: skip


def start_id(config: TransformerConfig) -> int:
    """The id of the decoder's start token."""
    first = next((i for i in (config.decoder_start_token_id, config.bos_token_id) if i is not None), None)
    if first is None:
        raise InputError("the config has no decoder_start_token_id: set it to the id of the start token")
    return first


def as_tensors(rows: Sequence[Sequence[int]]) -> list[Tensor]:
    """Each row as a tensor. They are slices of one tensor, which is much faster to make than many."""
    return list(torch.tensor([i for row in rows for i in row], dtype=torch.long).split(list(map(len, rows))))


def check_is_text(given: str) -> None:
    """Refuses the name of an image file where a text is expected: the model would read the name, not the image."""
    if len(given.split()) == 1 and Path(given).suffix.lower() in SUFFIXES:
        raise InputError(f"{given} is an image file, and this model reads text: give a text")


def check_characters(text: str, name: str) -> None:
    """Refuses text that UTF-8 cannot encode: bytes of another encoding from a shell, or half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} is not UTF-8 text: {text[:40]!r}. Convert it to UTF-8") from None


def split_pair(text: str, place: str, rules: TextRules = NO_RULES) -> list[str]:
    """The text, or the two texts of a pair, split at the tab.

    For a model trained on single texts, a tab is part of the text.
    """
    parts = [text] if rules.texts == 1 else text.split("\t")
    if len(parts) > 2:
        raise InputError(
            f"{place} has {len(parts) - 1} tabs: expected a text, or two texts with one tab between: {text!r:.60}"
        )
    check_parts(len(parts), place, rules)
    return parts


def check_parts(count: int, place: str, rules: TextRules) -> None:
    """Refuses a pair if the model was trained on single texts, and a single text if it was trained on pairs."""
    if rules.texts == 1 and count == 2:
        raise InputError(
            f"{place} is a pair, and this model was trained on single texts: give one text (for a table, name one "
            "column with --text-columns)"
        )
    if rules.texts == 2 and count == 1:
        raise InputError(
            f"{place} is a single text, and this model was trained on pairs: give two texts with a tab between them "
            "(for a table, name both columns with --text-columns)"
        )


def encode(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None, **options: Any) -> Encoded:
    encoded = tokenizer.encode(texts, pairs, **options)
    if not encoded.attention_mask.any(dim=1).all():
        raise InputError("a text is empty: expected at least a word in each")
    return encoded


def check_length(length: int, limit: int | None, what: str = "text") -> None:
    """Refuses a text longer than `limit`, the maximum length of the model; None if it has none."""
    if limit is not None and length > limit:
        raise InputError(f"the {what} has {length:,} tokens: expected at most {limit:,}. Shorten it")


def arguments_of(model: Transformer, encoded: Encoded) -> dict[str, Tensor]:
    """A batch as the model's arguments, on the model's device."""
    reads = model.config.encoder or model.config.last_stack
    check_length(int(encoded.attention_mask.sum(dim=1).max()), reads.room)
    named = {"input_ids": encoded.input_ids, "attention_mask": encoded.attention_mask}
    if encoded.token_type_ids is not None and model.config.num_segments:
        named["token_type_ids"] = encoded.token_type_ids
    return {name: value.to(model.device) for name, value in named.items()}


def arguments_of_rows(
    rows: Sequence[Sequence[int]], padding_id: int, segments: Sequence[Sequence[int]] = ()
) -> dict[str, Tensor]:
    """Rows of encoded ids as the arguments of a batch, padded on the right as by `Tokenizer.encode`."""
    named = {"input_ids": pad(rows, padding_id), "attention_mask": pad([[1] * len(row) for row in rows], 0)}
    return {**named, "token_type_ids": pad(segments, 0)} if any(segments) else named


def least(*limits: int | None) -> int | None:
    """The smallest of the limits; None means no limit."""
    return min((limit for limit in limits if limit is not None), default=None)
