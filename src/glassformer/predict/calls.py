"""Texts as calls of a model: encoded, checked, as its arguments, in batches of like length."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.text import Encoded, Tokenizer
from glassformer.text.padding import pad

BATCH = 32
Given = TypeVar("Given")
Answered = TypeVar("Answered")


def check_batch(texts: Sequence[object]) -> None:
    if isinstance(texts, str):
        raise InputError(f"a single text {texts[:40]!r} was given: expected a list of texts")


def in_batches(
    texts: Sequence[Given], run: Callable[[Sequence[Given]], Sequence[Answered]], batch_size: int
) -> list[Answered]:
    """`run` on batches of texts of like length; the answers stand in the order of the texts."""
    check_batch(texts)
    order = sorted(range(len(texts)), key=lambda i: length_of(texts[i]))
    found: dict[int, Answered] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        found.update(zip(batch, run([texts[i] for i in batch]), strict=True))
    return [found[i] for i in range(len(texts))]


def length_of(given: object) -> int:
    """Of a text, or of the two of a pair; what is no text has no length of its own."""
    if isinstance(given, str):
        return len(given)
    return sum(map(length_of, given)) if isinstance(given, tuple) else 0


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


@torch.no_grad()
def answer_of(model: Transformer, encoded: Encoded) -> dict[str, Tensor]:
    """What the head answers, by the names of `Output`, as float32 on the CPU."""
    output = model(**arguments_of(model, encoded))
    named = {name: getattr(output, name) for name in ("logits", "start_logits", "end_logits")}
    return {name: value.float().cpu() for name, value in named.items() if value is not None}


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
