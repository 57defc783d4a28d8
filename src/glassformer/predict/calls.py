"""Texts as calls of a model: encoded, checked, as its arguments, in batches of similar length."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.encode import Batch, map_texts
from glassformer.text import Encoded, Tokenizer
from glassformer.text.padding import pad

BATCH = 32  # texts to generate for at a time, at most: each needs a cache and logits of its own
CHUNK = 256  # texts to tokenise at a time: they are padded to the longest
Given = TypeVar("Given")
Answered = TypeVar("Answered")


def check_batch(texts: Sequence[object]) -> None:
    if isinstance(texts, str):
        raise InputError(f"a single text {texts[:40]!r} was given: expected a list of texts")


def in_batches(
    model: Transformer,
    texts: Sequence[Given],
    encode: Callable[[Sequence[Given]], Encoded],
    run: Callable[[Batch], Iterable[Answered]],
    batch_tokens: int,
    batch_size: int | None,
) -> list[Answered]:
    """The answer to each text, in the order of the texts: `encode` turns texts into ids, `run` a batch into answers.

    Only ids and answers are held for all texts; everything else is of one batch.
    """
    check_batch(texts)
    ids: list[Tensor] = []
    types: list[Tensor] = []
    for start in range(0, len(texts), CHUNK):
        encoded = encode(texts[start : start + CHUNK])
        keep = encoded.attention_mask
        ids += [row[kept] for row, kept in zip(encoded.input_ids, keep, strict=True)]
        if encoded.token_type_ids is not None and model.config.num_segments:
            types += [row[kept] for row, kept in zip(encoded.token_type_ids, keep, strict=True)]
    return map_texts(
        model, ids, run, token_type_ids=types or None, batch_tokens=batch_tokens, batch_size=batch_size
    )  # fmt: skip


def split_pair(text: str, place: str) -> list[str]:
    """The text alone, or the two that are to be judged together, with a tab between them."""
    parts = text.split("\t")
    if len(parts) > 2:
        raise InputError(
            f"{place} has {len(parts) - 1} tabs: expected a text, or two with one tab between: {text!r:.60}"
        )
    return parts


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
