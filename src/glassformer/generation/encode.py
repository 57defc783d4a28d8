"""Runs many texts through a model in batches of similar length, and returns the results in the caller's order.

A batch is padded to its longest text, and padding costs as much as tokens. In random order most of a batch may be
padding; sorted by length, little is. `group` decides which texts go together. `map_batches` and `map_texts` call a
function on each batch and return its results in order. `encode` and `answer` use them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.core.model import Output, Transformer
from glassformer.errors import InputError
from glassformer.generation.loop import evaluating

BATCH_TOKENS = 4096  # in a batch, padding included
PADDING = 64  # tokens of padding allowed: on a CPU, another call costs about as much as this many tokens

Result = TypeVar("Result")


def group(
    lengths: Sequence[int],
    batch_tokens: int = BATCH_TOKENS,
    *,
    batch_size: int | None = None,
    padding: int | None = PADDING,
) -> list[list[int]]:
    """Batches of texts, by number. The longest come first, so that the first batch shows whether memory is enough.

    A batch has at least one text, and at most `batch_tokens` tokens with padding, `padding` tokens of padding and
    `batch_size` texts. Texts of the same length keep their order.
    """
    check_length("batch_tokens", batch_tokens)
    check_length("batch_size", batch_size)
    batches: list[list[int]] = []
    rows = longest = padded = 0
    for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        padded += longest - lengths[number]
        is_full = (rows + 1) * longest > batch_tokens or rows == batch_size
        if not batches or is_full or (padding is not None and padded > padding):
            batches.append([])
            rows, longest, padded = 0, lengths[number], 0
        batches[-1].append(number)
        rows += 1
    return batches


def map_batches(
    lengths: Sequence[int],
    run: Callable[[list[int]], Iterable[Result]],
    batch_tokens: int = BATCH_TOKENS,
    *,
    batch_size: int | None = None,
    padding: int | None = PADDING,
) -> list[Result]:
    """Calls `run` with the numbers of each batch. Returns one result per number, in the order of `lengths`.

    Only the results are kept, so memory is bounded if `run` reduces large tensors, such as logits over a vocabulary.
    """
    results: dict[int, Result] = {}
    for numbers in group(lengths, batch_tokens, batch_size=batch_size, padding=padding):
        results.update(zip(numbers, run(numbers), strict=True))
    return [results[number] for number in range(len(lengths))]


@dataclass(frozen=True)
class TextBatch:
    """Texts of similar length as the arguments of one call, padded on the right."""

    numbers: Sequence[int]  # which of the caller's texts
    keep: Tensor  # (B, T), True = a token, False = padding
    arguments: dict[str, Tensor]

    def rows(self, values: Tensor) -> list[Tensor]:
        """The values of each text, from those of all tokens (B, T, ...): copies without padding."""
        return [row[kept] for row, kept in zip(values, self.keep, strict=True)]


def map_texts(
    model: Transformer,
    texts: Sequence[Tensor],
    run: Callable[[TextBatch], Iterable[Result]],
    *,
    token_type_ids: Sequence[Tensor] | None = None,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[Result]:
    """Calls `run` with batches of texts, each a tensor of ids (T). Returns the results in the order of the texts.

    Gradients and dropout are off. All texts are checked before the first call.
    """
    check_texts(model, texts)
    if token_type_ids is not None:
        check_types(texts, token_type_ids)
    given = {"input_ids": texts} | ({} if token_type_ids is None else {"token_type_ids": token_type_ids})
    lengths = [len(text) for text in texts]
    with torch.no_grad(), evaluating(model), any_shape(model):
        return map_batches(
            lengths, lambda numbers: run(make_batch(model, numbers, given)), batch_tokens, batch_size=batch_size
        )


@contextmanager
def any_shape(model: Transformer) -> Iterator[None]:
    """Disables oneDNN for float32 calls on a CPU. It compiles code for every new shape and caches 1,024 of them, which
    fragments the heap: a million texts took three times the memory and a fifth more time."""
    before = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    if model.device.type != "cpu" or model.dtype != torch.float32 or not before:
        yield
        return
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]  # a property of the module
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = True  # type: ignore[assignment]


def encode(
    model: Transformer,
    texts: Sequence[Tensor],
    *,
    token_type_ids: Sequence[Tensor] | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Tensor]:
    """The last hidden states (T, D) of each text, in the order of the texts; from the encoder if there is one.

    A text is a tensor of ids: `torch.tensor(tokenizer.ids("Nov 15 2026"))`.
    """
    return map_texts(
        model, texts, lambda batch: batch.rows(hidden_state(model, batch)),
        token_type_ids=token_type_ids, batch_tokens=batch_tokens,
    )  # fmt: skip


def answer(
    model: Transformer,
    texts: Sequence[Tensor],
    *,
    token_type_ids: Sequence[Tensor] | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Output]:
    """The output of the head for each text, in the order of the texts: an `Output` without the batch axis.

    Logits are (C) for a whole text, and (T, C) or (T, V) for its tokens.
    """
    of_tokens = {"start_logits", "end_logits"} | (set() if model.config.head == "class" else {"logits"})

    def run(batch: TextBatch) -> list[Output]:
        output = model(**batch.arguments)
        named = {name: getattr(output, name) for name in ("logits", "pooled", "start_logits", "end_logits")}
        rows = {
            name: batch.rows(values) if name in of_tokens else list(values)
            for name, values in named.items()
            if values is not None
        }
        return [Output(**{name: values[row] for name, values in rows.items()}) for row in range(len(batch.numbers))]

    return map_texts(model, texts, run, token_type_ids=token_type_ids, batch_tokens=batch_tokens)


def hidden_state(model: Transformer, batch: TextBatch) -> Tensor:
    """The hidden states (B, T, D) of the stack that reads the texts."""
    read = model.decode if model.encoder is None else model.encode
    ids, mask, types = (batch.arguments.get(name) for name in ("input_ids", "attention_mask", "token_type_ids"))
    return read(ids, mask, token_type_ids=types)


def make_batch(model: Transformer, numbers: Sequence[int], given: dict[str, Sequence[Tensor]]) -> TextBatch:
    """These texts as tensors on the model's device, with a mask if they differ in length."""
    fill = {"input_ids": model.config.fill_token_id or 0, "token_type_ids": 0}
    arguments = {
        name: pad_sequence([rows[i].long() for i in numbers], batch_first=True, padding_value=fill[name])
        for name, rows in given.items()
    }  # (B, T) each
    lengths = torch.tensor([len(given["input_ids"][i]) for i in numbers])
    keep = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, T)
    if not keep.all():
        arguments["attention_mask"] = keep
    return TextBatch(numbers, keep.to(model.device), {name: x.to(model.device) for name, x in arguments.items()})


def check_texts(model: Transformer, texts: Sequence[Tensor]) -> None:
    room = (model.config.encoder or model.config.last_stack).room
    for number, text in enumerate(texts, start=1):
        check_encoded_ids(f"text {number}", text)
        if not len(text):
            raise InputError(f"text {number} is empty: expected at least one token. Leave it out")
        if room is not None and len(text) > room:
            raise InputError(f"text {number} has {len(text):,} tokens: expected at most {room:,}. Shorten it")


def check_types(texts: Sequence[Tensor], token_type_ids: Sequence[Tensor]) -> None:
    if len(token_type_ids) != len(texts):
        raise InputError(f"{len(token_type_ids)} token_type_ids for {len(texts)} texts: give one tensor for each text")
    for number, (text, types) in enumerate(zip(texts, token_type_ids, strict=True), start=1):
        check_encoded_ids(f"token_type_ids {number}", types)
        if len(types) != len(text):
            raise InputError(
                f"token_type_ids {number} has {len(types)} numbers: expected {len(text)}, one for each token"
            )


def check_encoded_ids(name: str, ids: Tensor) -> None:
    if not isinstance(ids, Tensor):
        raise InputError(f"{name} is {ids!r:.60}: expected a tensor of ids. Make one with torch.tensor")
    if ids.ndim != 1:
        raise InputError(
            f"{name} has shape {tuple(ids.shape)}: expected (length). Give a list with one tensor per text"
        )
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise InputError(f"{name} has dtype {ids.dtype}: expected whole numbers. Convert it with .long()")


def check_length(name: str, size: int | None) -> None:
    if size is not None and (type(size) is not int or size < 1):
        raise InputError(f"{name} is {size!r}: expected a whole number of at least 1")
