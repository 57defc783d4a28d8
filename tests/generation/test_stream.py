"""`stream` yields the tokens of `generate` one column at a time, and may be stopped at any of them."""

from typing import Any

import pytest
import torch
from helpers.oracle import STACK, Dropping, ragged, seeded, translator, writer

import glassformer as gf
from glassformer.errors import InputError
from glassformer.generation.loop import ModelReader, stream

PAD = 39
ENDS = [2, 15, 23, 31]
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "penalties": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "top_k": 9},
}


@pytest.mark.parametrize("reader", [ModelReader, Dropping])
@pytest.mark.parametrize("make", [writer, translator])
@pytest.mark.parametrize("way", WAYS)
def test_the_columns_are_those_of_generate(reader: Any, make: Any, way: str) -> None:
    model = make(pad_token_id=PAD, eos_token_id=ENDS)
    ids, mask = ragged((4, 7, 5, 1, 6, 3), left=model.encoder is None)
    keywords = {"attention_mask": mask, "max_new_tokens": 12, **WAYS[way]}
    expected = gf.generate(model, ids, generator=seeded(), **keywords)
    columns = list(stream(reader(model), ids, generator=seeded(), **keywords))
    assert all(column.shape == (len(expected),) for column in columns)
    assert torch.equal(torch.stack(columns, dim=1), expected[:, -len(columns) :])
    assert len(columns) == expected.shape[1] - (1 if model.encoder is not None else 7)


def test_a_token_comes_before_the_next_is_computed() -> None:
    reader = Dropping(writer())
    tokens = stream(reader, torch.randint(3, 39, (2, 5)), max_new_tokens=6)
    assert reader.rows == []
    next(tokens)
    assert reader.rows == [2]
    next(tokens)
    assert reader.rows == [2, 2]


def test_an_interrupted_stream_leaves_everything_usable() -> None:
    torch.manual_seed(0)
    config = gf.TransformerConfig(decoder=STACK.replace(dropout=0.5), vocab_size=40)
    model, prompt = gf.Transformer(config).train(), torch.randint(3, 39, (2, 5))
    expected = gf.generate(model, prompt, max_new_tokens=8)
    tokens = stream(ModelReader(model), prompt, max_new_tokens=8)
    first = next(tokens)
    assert torch.equal(first, expected[:, 5])
    assert torch.is_grad_enabled(), "between two tokens, the caller has gradients"
    assert model.training, "and dropout"
    model(prompt, labels=prompt).loss.backward()
    assert torch.equal(gf.generate(model, prompt, max_new_tokens=8), expected), "another call may run in between"
    assert torch.equal(next(tokens), expected[:, 6]), "and disturbs nothing"
    tokens.close()  # type: ignore[attr-defined]
    assert list(tokens) == []
    assert model.training
    assert torch.equal(gf.generate(model, prompt, max_new_tokens=8), expected)


def test_an_error_while_reading_is_the_callers_and_the_model_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    model = writer().train()
    tokens = stream(ModelReader(model), torch.randint(3, 39, (2, 5)), max_new_tokens=8)
    next(tokens)
    monkeypatch.setattr(ModelReader, "step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(tokens)
    assert model.training
    assert torch.is_grad_enabled()


def test_what_cannot_be_streamed_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="num_beams is 3: a beam search has no final tokens before it ends"):
        stream(ModelReader(writer()), torch.randint(3, 39, (2, 5)), num_beams=3)
    with pytest.raises(InputError, match="max_new_tokens is 0"):
        stream(ModelReader(writer()), torch.randint(3, 39, (2, 5)), max_new_tokens=0)
