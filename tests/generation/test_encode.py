"""Batches of similar length give the same results as one call per text, in the caller's order."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from helpers.parts import assert_same, randomised
from helpers.properties import properties
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import glassformer as gf
from glassformer.errors import InputError
from glassformer.generation.encode import TextBatch, answer, encode, group, map_batches, map_texts

LEARNED = gf.StackConfig(d_model=8, num_layers=2, num_heads=2, positions="learned", max_len=40, dropout=0.5)
ROTARY = gf.StackConfig(
    d_model=8, num_layers=2, num_heads=2, num_kv_heads=1, positions="rotary", norm="rms",
    layer_kinds=(gf.LayerKind(window=5), gf.LayerKind()),
)  # fmt: skip
RELATIVE = gf.StackConfig(d_model=8, num_layers=2, num_heads=2, positions="relative")
BOTH = {"encoder": RELATIVE, "decoder": RELATIVE, "decoder_start_token_id": 1}
SHAPES: dict[str, dict[str, Any]] = {
    "encoder": {"encoder": LEARNED, "num_segments": 2, "pad_token_id": 0},
    "windows": {"encoder": ROTARY},
    "decoder": {"decoder": ROTARY},
    "both": BOTH,
}
HEADS: dict[str, dict[str, Any]] = {
    "masked words": {"encoder": LEARNED, "num_segments": 2},
    "next words": {"decoder": ROTARY},
    "labels": {"encoder": ROTARY, "head": "token", "num_classes": 3},
    "span": {"encoder": LEARNED, "num_segments": 2, "head": "span"},
    "class": {"encoder": ROTARY, "head": "class", "num_classes": 3, "pooling": "mean"},
    "last": {"decoder": ROTARY, "head": "class", "num_classes": 3, "pooling": "last"},
    "vector": {"encoder": ROTARY, "head": "pool"},
    "twice": {**BOTH, "head": "class", "num_classes": 3, "pooling": "last"},
}
SIZES = [7, 1, 40, 7, 12, 3, 39, 7, 25, 1]


def make(**config: Any) -> gf.Transformer:
    torch.manual_seed(0)
    return randomised(gf.Transformer(gf.TransformerConfig(vocab_size=30, **config))).eval()


def make_texts(sizes: list[int] = SIZES, below: int = 30) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randint(below, (size,)) for size in sizes]


@properties
@given(st.lists(st.integers(1, 60)), st.integers(1, 200), st.none() | st.integers(1, 4), st.none() | st.integers(0, 50))
def test_batches_of_like_length(
    lengths: list[int], batch_tokens: int, batch_size: int | None, padding: int | None
) -> None:
    batches = group(lengths, batch_tokens, batch_size=batch_size, padding=padding)
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    order = [(-lengths[number], number) for batch in batches for number in batch]
    assert order == sorted(order)  # the longest first; texts of the same length in the caller's order
    for batch in batches:
        longest = lengths[batch[0]]
        assert len(batch) == 1 or longest * len(batch) <= batch_tokens
        assert batch_size is None or len(batch) <= batch_size
        assert padding is None or sum(longest - lengths[number] for number in batch) <= padding
    for batch, following in pairwise(batches):  # no batch ends before it must
        joined = [lengths[number] for number in (*batch, following[0])]
        padded = sum(joined[0] - length for length in joined)
        too_many = joined[0] * len(joined) > batch_tokens or len(batch) == batch_size
        assert too_many or (padding is not None and padded > padding)
    assert map_batches(lengths, lambda numbers: numbers, batch_tokens) == list(range(len(lengths)))


def test_a_ragged_set_has_little_padding() -> None:
    torch.manual_seed(0)
    lengths = torch.empty(256).log_normal_(3.2, 0.8).round().clamp(4, 256).int().tolist()
    padded = sum(len(batch) * lengths[batch[0]] for batch in group(lengths))
    assert padded < 1.25 * sum(lengths)
    given = [lengths[first : first + 32] for first in range(0, 256, 32)]
    assert sum(len(batch) * max(batch) for batch in given) > 2.5 * sum(lengths)


@torch.no_grad()
@pytest.mark.parametrize("batch_tokens", [1, 50, 4096])
@pytest.mark.parametrize("name", SHAPES)
def test_vectors_are_those_of_one_call_for_each_text(name: str, batch_tokens: int) -> None:
    model, texts = make(head="none", **SHAPES[name]) if name != "both" else make(**BOTH), make_texts()
    types = make_texts(below=2) if name == "encoder" else None
    found = encode(model, texts, token_type_ids=types, batch_tokens=batch_tokens)
    read = model.decode if model.encoder is None else model.encode
    for i, (text, vectors) in enumerate(zip(texts, found, strict=True)):
        assert_same(vectors, read(text[None], token_type_ids=types and types[i][None])[0])
        assert vectors.untyped_storage().nbytes() == vectors.nbytes  # no padding is kept in memory


@torch.no_grad()
@pytest.mark.parametrize("name", HEADS)
def test_answers_are_those_of_one_call_for_each_text(name: str) -> None:
    model, texts = make(**HEADS[name]), make_texts()
    types = make_texts(below=2) if model.config.num_segments else None
    for i, found in enumerate(answer(model, texts, token_type_ids=types, batch_tokens=60)):
        expected = model(texts[i][None], token_type_ids=types and types[i][None])
        names = [n for n in ("logits", "pooled", "start_logits", "end_logits") if getattr(expected, n) is not None]
        assert names == [n for n, value in vars(found).items() if value is not None]
        for field in names:
            assert_same(getattr(found, field), getattr(expected, field)[0])


def test_without_dropout_or_gradients_and_the_model_stays_as_it_was() -> None:
    model, texts = make(head="none", **SHAPES["encoder"]), make_texts()
    expected = encode(model, texts)
    model.train()
    model.encoder.blocks[0].eval()
    found = encode(model, texts)
    for vectors, same in zip(found, expected, strict=True):
        assert torch.equal(vectors, same)
        assert not vectors.requires_grad
    assert model.training
    assert not model.encoder.blocks[0].training
    torch.nn.Linear(8, 1)(found[0]).sum().backward()  # vectors can be trained on


def test_a_large_answer_is_reduced_batch_by_batch() -> None:
    model, texts = make(**HEADS["masked words"]), make_texts()
    shapes = []

    def run(batch: TextBatch) -> list[int]:
        logits = model(**batch.arguments).logits  # (B, T, V)
        shapes.append(tuple(logits.shape[:2]))
        return [int(row.argmax()) for row in batch.rows(logits)]

    found = map_texts(model, texts, run, batch_tokens=50, batch_size=2)
    assert found == [int(output.logits.argmax()) for output in answer(model, texts)]
    assert all(rows <= 2 and rows * length <= 50 for rows, length in shapes)
    with pytest.raises(ValueError, match="shorter"):
        map_texts(model, texts, lambda batch: [])


def test_ids_of_any_whole_kind() -> None:
    model, texts = make(head="none", **SHAPES["encoder"]), make_texts()
    kinds = [torch.uint8, torch.int32, torch.int64, torch.int16]
    mixed = [text.to(kinds[i % 4]) for i, text in enumerate(texts)]
    for vectors, same in zip(encode(model, mixed), encode(model, texts), strict=True):
        assert torch.equal(vectors, same)
    assert encode(model, []) == []
    assert answer(model, [], token_type_ids=[]) == []


def test_no_code_is_compiled_for_each_shape() -> None:
    """oneDNN would compile and cache it. The caller's setting is restored, also after an error."""
    model, texts, found = make(head="none", **SHAPES["encoder"]), make_texts(), []

    def run(batch: TextBatch) -> list[None]:
        found.append(torch.backends.mkldnn.enabled)
        return [None] * len(batch.numbers)

    map_texts(model, texts, run)
    with pytest.raises(ZeroDivisionError):
        map_texts(model, texts, lambda batch: [1 // 0])
    assert set(found) == {False}
    assert torch.backends.mkldnn.enabled


GOOD = torch.tensor([1, 2, 3])


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([GOOD, GOOD[:0]], {}, "text 2 is empty: expected at least one token. Leave it out"),
        ([GOOD[None]], {}, r"text 1 has shape \(1, 3\): expected \(length\). Give a list with one tensor per text"),
        ([GOOD, GOOD / 2], {}, r"text 2 has dtype torch.float32: expected whole numbers. Convert it with .long\(\)"),
        ([[1, 2]], {}, r"text 1 is \[1, 2\]: expected a tensor of ids. Make one with torch.tensor"),
        ([GOOD, GOOD.repeat(14)], {}, "text 2 has 42 tokens: expected at most 40. Shorten it"),
        ([GOOD], {"token_type_ids": []}, "0 token_type_ids for 1 texts: give one tensor for each text"),
        ([GOOD], {"token_type_ids": [GOOD[:2]]}, "token_type_ids 1 has 2 numbers: expected 3, one for each token"),
        ([GOOD], {"token_type_ids": [GOOD[None]]}, r"token_type_ids 1 has shape \(1, 3\): expected \(length\)"),
        ([GOOD + 40], {}, "token ids .* vocab_size"),
        ([GOOD], {"batch_tokens": 0}, "batch_tokens is 0: expected a whole number of at least 1"),
        ([GOOD], {"batch_tokens": 2.5}, "batch_tokens is 2.5: expected a whole number of at least 1"),
    ],
)
def test_bad_input_names_the_text(texts: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode(make(head="none", **SHAPES["encoder"]), texts, **options)


def test_token_types_for_a_model_without_segments_and_texts_for_one_of_images() -> None:
    with pytest.raises(InputError, match="this model has no segments"):
        encode(make(**SHAPES["decoder"]), [GOOD], token_type_ids=[GOOD])
    image = gf.ImageConfig(size=4, patch=2)
    model = gf.Transformer(gf.TransformerConfig(encoder=LEARNED, image=image, head="class", num_classes=2))
    with pytest.raises(InputError, match="this model's encoder reads pixel_values"):
        encode(model, [GOOD])
