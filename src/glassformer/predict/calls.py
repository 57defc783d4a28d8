"""Texts as calls of a model: encoded, checked, as its arguments, in batches of similar length."""

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
from glassformer.generation.encode import Batch, map_texts
from glassformer.text import Encoded, Tokenizer
from glassformer.text.padding import pad

BATCH = 32  # texts to generate for at a time, at most: each needs a cache and logits of its own
CHUNK = 1024  # texts to tokenise at a time
Given = TypeVar("Given")
Answered = TypeVar("Answered")


_notes: ContextVar[Counter[str] | None] = ContextVar("notes", default=None)


def tell(count: int, texts: int, what: str) -> None:
    """Says of how many texts something is true, or keeps it for whoever adds it up."""
    kept = _notes.get()
    if kept is not None:
        kept[what] += count
        return
    of = f"{count:,} of {texts:,} texts are" if texts > 1 else "the text is"
    print(f"{of} {what}", file=sys.stderr)


@contextmanager
def keeping_notes(kept: Counter[str]) -> Iterator[None]:
    """Adds up what is told of texts, where a caller says it once for many calls."""
    token = _notes.set(kept)
    try:
        yield
    finally:
        _notes.reset(token)


@dataclass(frozen=True)
class Limit:
    """How many tokens of a text are read, and whether a longer one is cut or refused."""

    tokens: int | None = None
    cuts: bool = False
    aloud: bool = True  # whether it is said what was cut

    def exceeded(self, length: int) -> bool:
        return self.tokens is not None and length > self.tokens

    def check(self, length: int, name: str) -> None:
        if self.exceeded(length) and not self.cuts:
            raise InputError(
                f"{name} has {length:,} tokens: expected at most {self.tokens:,}. Shorten it, or cut it with --truncate"
            )

    def tell(self, cut: int, texts: int) -> None:
        if cut and self.aloud:
            tell(cut, texts, f"longer than {self.tokens:,} tokens: only those were read")


NO_LIMIT = Limit()


def limit_of(model: Transformer, rules: TextRules, *, truncate: bool = False) -> Limit:
    """What the training took, as far as the model can place it."""
    reads = model.config.encoder or model.config.last_stack
    return Limit(least(rules.max_len, reads.room), rules.truncate or truncate)


def tell_beyond(model: Transformer, lengths: Sequence[int]) -> None:
    """Rotary positions have no end, but a model knows only those of its training: what is longer is said."""
    reads = model.config.encoder or model.config.last_stack
    long = sum(length > reads.max_len for length in lengths)
    if long and reads.positions == "rotary":
        made_for = f"the {reads.max_len:,} tokens that the model is made for"
        tell(long, len(lengths), f"longer than {made_for}: answers may be worse")


def check_batch(texts: Sequence[object]) -> None:
    if isinstance(texts, str):
        raise InputError(f"a single text {texts[:40]!r} was given: expected a list of texts")


def in_batches(
    model: Transformer,
    texts: Sequence[Given],
    encode: Callable[[Sequence[Given], int | None], Encoded],
    run: Callable[[Batch], Iterable[Answered]],
    batch_tokens: int,
    batch_size: int | None,
    limit: Limit = NO_LIMIT,
    seen: Callable[[Encoded, Sequence[Given], int], object] = lambda encoded, some, start: None,
) -> list[Answered]:
    """The answer to each text, in the order of the texts: `encode` turns texts into ids, cut where a length is given,
    and `run` a batch into answers. `seen` is called with each part of the texts as it is encoded, before any is cut.

    Only ids and answers are held for all texts; everything else is of one batch.
    """
    check_batch(texts)
    ids: list[Tensor] = []
    types: list[Tensor] = []
    cut = 0
    for start in range(0, len(texts), CHUNK):
        some = texts[start : start + CHUNK]
        encoded = encode(some, None)
        seen(encoded, some, start)
        long = [i for i, row in enumerate(encoded.ids) if limit.exceeded(len(row))]
        if long:
            limit.check(len(encoded.ids[long[0]]), f"text {start + long[0]}")
            encoded = encode(some, limit.tokens)
        cut += len(long)
        ids += as_tensors(encoded.ids)
        if encoded.has_types and model.config.num_segments:
            types += as_tensors([row.type_ids for row in encoded.rows])
    limit.tell(cut, len(texts))
    tell_beyond(model, list(map(len, ids)))
    return map_texts(
        model, ids, run, token_type_ids=types or None, batch_tokens=batch_tokens, batch_size=batch_size
    )  # fmt: skip


def start_id(config: TransformerConfig) -> int:
    """The id that a decoder's text begins with."""
    first = next((i for i in (config.decoder_start_token_id, config.bos_token_id) if i is not None), None)
    if first is None:
        raise InputError("the config has no decoder_start_token_id: set the id that a text begins with")
    return first


def as_tensors(rows: Sequence[Sequence[int]]) -> list[Tensor]:
    """Each row as a tensor: parts of one, which is made much faster than many."""
    return list(torch.tensor([i for row in rows for i in row], dtype=torch.long).split(list(map(len, rows))))


def check_is_text(given: str) -> None:
    """Refuses the name of an image where a text is to be read: its letters would be answered, not the picture."""
    if len(given.split()) == 1 and Path(given).suffix.lower() in SUFFIXES:
        raise InputError(f"{given} is the name of an image, and this model reads text: give a text")


def check_characters(text: str, name: str) -> None:
    """Refuses what no file of text could hold: bytes of another encoding from a shell, or half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} is not UTF-8 text: {text[:40]!r}. Convert it to UTF-8") from None


def split_pair(text: str, place: str, rules: TextRules = NO_RULES) -> list[str]:
    """The text alone, or the two that are to be judged together, with a tab between them.

    A model that was trained on single texts takes a tab for a part of the text.
    """
    parts = [text] if rules.texts == 1 else text.split("\t")
    if len(parts) > 2:
        raise InputError(
            f"{place} has {len(parts) - 1} tabs: expected a text, or two with one tab between: {text!r:.60}"
        )
    check_parts(len(parts), place, rules)
    return parts


def check_parts(count: int, place: str, rules: TextRules) -> None:
    """Refuses a pair where the training had single texts, and the other way round."""
    if rules.texts == 1 and count == 2:
        raise InputError(
            f"{place} is a pair, and this model was trained on single texts: give one text (of a table, one "
            "--text-columns)"
        )
    if rules.texts == 2 and count == 1:
        raise InputError(
            f"{place} is a single text, and this model was trained on pairs: write both with a tab between them (of a "
            "table, name both with --text-columns)"
        )


def encode(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None, **options: Any) -> Encoded:
    encoded = tokenizer.encode(texts, pairs, **options)
    if not encoded.attention_mask.any(dim=1).all():
        raise InputError("a text is empty: expected at least a word in each")
    return encoded


def check_length(length: int, limit: int | None, what: str = "text") -> None:
    """One limit and one sentence for whoever reads: `limit` is what the model can place, None where there is no end."""
    if limit is not None and length > limit:
        raise InputError(f"the {what} has {length:,} tokens: expected at most {limit:,}. Shorten it")


def arguments_of(model: Transformer, encoded: Encoded) -> dict[str, Tensor]:
    """A batch as the model's arguments, where the model is."""
    reads = model.config.encoder or model.config.last_stack
    check_length(int(encoded.attention_mask.sum(dim=1).max()), reads.room)
    named = {"input_ids": encoded.input_ids, "attention_mask": encoded.attention_mask}
    if encoded.token_type_ids is not None and model.config.num_segments:
        named["token_type_ids"] = encoded.token_type_ids
    return {name: value.to(model.device) for name, value in named.items()}


def arguments_of_rows(
    rows: Sequence[Sequence[int]], padding_id: int, segments: Sequence[Sequence[int]] = ()
) -> dict[str, Tensor]:
    """Rows of ids, encoded before, as the arguments of a batch: padded on the right, as `Tokenizer.encode` has it."""
    named = {"input_ids": pad(rows, padding_id), "attention_mask": pad([[1] * len(row) for row in rows], 0)}
    return {**named, "token_type_ids": pad(segments, 0)} if any(segments) else named


def least(*limits: int | None) -> int | None:
    """The smallest of these; None stands for no limit."""
    return min((limit for limit in limits if limit is not None), default=None)
