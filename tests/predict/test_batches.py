"""Batches give the same answers as single texts, in the order of the texts, within a budget of tokens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.command import lines, run
from helpers.tiny_models import flat

import glassformer as gf
from glassformer.errors import InputError
from glassformer.predict.judging import fill_masks

FolderOf = Callable[[str], Path]
LINE = "The quick brown fox jumps over the lazy dog and once upon a time there was a small model"
WORDS = LINE.split()
COUNTS = [3, 17, 1, 8, 8, 2, 30, 5, 17, 1, 11]
TEXTS = [" ".join(WORDS[(i + k) % len(WORDS)] for k in range(count)) for i, count in enumerate(COUNTS)]
OPTIONS: dict[str, dict[str, Any]] = {
    "decoder": {"max_new_tokens": 4, "do_sample": False},
    "encoder-decoder": {"max_new_tokens": 4},
    "span": {"question": "Who jumps?"},
    "fill": {"guesses": 3},
}


def seen_by(model: gf.Transformer) -> list[tuple[int, ...]]:
    """Records the shapes of the inputs of the first stack."""
    shapes: list[tuple[int, ...]] = []
    stack = model.encoder if model.encoder is not None else model.decoder
    assert stack is not None
    stack.register_forward_pre_hook(lambda _, inputs: shapes.append(tuple(inputs[0].shape)))
    return shapes


@pytest.mark.parametrize("kind", ["encoder", "twice", "label", "span", "fill", "embed", "decoder", "encoder-decoder"])
def test_many_texts_are_answered_as_each_alone(kind: str, folder_of: FolderOf) -> None:
    predict, options = gf.pipeline(folder_of(kind)), OPTIONS.get(kind, {})
    texts = [f"{text} [MASK] {text[:3]} [MASK]" for text in TEXTS] if kind == "fill" else TEXTS
    alone = [predict([text], **options)[0] for text in texts]
    longest = max(len(predict.tokenizer.ids(text)) for text in texts)  # type: ignore[union-attr]
    for batches in ({}, {"batch_tokens": 2 * longest + 20}, {"batch_tokens": 1}, {"batch_size": 2}):
        shapes = seen_by(predict.model)
        found = predict(texts, **options, **batches)
        for answer, expected in zip(found, alone, strict=True):
            assert flat(answer) == [pytest.approx(v, abs=1e-5) if type(v) is float else v for v in flat(expected)]
        read = [shape for shape in shapes if kind != "decoder" or shape[1] > 1]  # without the decoding steps
        assert all(rows == 1 or rows * length <= batches.get("batch_tokens", 4096) for rows, length in read)
        assert all(rows <= batches.get("batch_size", len(texts)) for rows, length in read)


def test_pairs_in_any_order(folder_of: FolderOf) -> None:
    predict = gf.pipeline(folder_of("encoder"))
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    alone = [predict([pair])[0].scores for pair in pairs]
    for label, scores in zip(predict(pairs, batch_tokens=100), alone, strict=True):
        assert label.scores == pytest.approx(scores, abs=1e-5)


def test_only_masks_meet_the_vocabulary(folder_of: FolderOf) -> None:
    """Logits for all tokens of a batch would take more memory than the model."""
    predict, rows = gf.pipeline(folder_of("fill")), list[int]()
    predict.model.head.out.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))  # type: ignore
    texts = [f"[MASK] {text}" for text in TEXTS]
    assert [len(masks) for masks in predict(texts)] == [1] * len(texts)
    assert sum(rows) == len(texts)


def test_a_text_that_cannot_be_read_is_named_by_its_number(folder_of: FolderOf) -> None:
    with pytest.raises(InputError, match=r"input 3 is empty: expected at least a word. Leave it out"):
        gf.pipeline(folder_of("span"))([*TEXTS[:2], ""], question="Who?")
    with pytest.raises(InputError, match=r"input 2 is empty: expected at least a word. Leave it out"):
        gf.pipeline(folder_of("embed"))([TEXTS[0], " ", TEXTS[1]])
    with pytest.raises(InputError, match=r"a single text 'a \[MASK\]' was given: expected a list of texts"):
        fill_masks(gf.load(folder_of("fill")), gf.load_tokenizer(folder_of("fill")), "a [MASK]")


def test_a_budget_on_the_command_line(folder_of: FolderOf, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of("encoder")
    assert run("predict", folder, *TEXTS, "--json") == 0
    expected = lines(capsys)
    assert run("predict", folder, *TEXTS, "--json", "--batch-tokens", "40") == 0
    for row, same in zip(lines(capsys), expected, strict=True):
        assert row["input"] == same["input"]
        assert row["scores"] == pytest.approx(same["scores"], abs=1e-5)
    assert run("predict", folder, *TEXTS, "--batch-tokens", "0") == 2
    assert "--batch-tokens is 0: expected a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "inputs"), [("image", 3), ("judge", 3)])
def test_a_budget_for_images_and_series(kind: str, inputs: int, folder_of: FolderOf) -> None:
    from glassformer.predict.images import Picture

    predict = gf.pipeline(folder_of(kind))
    pixels = torch.randint(256, (inputs, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)).numpy()
    given = [Picture(str(i), pixels[i]) if kind == "image" else pixels[i].flatten()[:48] / 255 for i in range(inputs)]
    alone = [predict([one])[0].scores for one in given]
    for batches in ({}, {"batch_tokens": 1}, {"batch_size": 2}):
        for label, scores in zip(predict(given, **batches), alone, strict=True):
            assert label.scores == pytest.approx(scores, abs=1e-5)
