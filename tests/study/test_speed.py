"""The speed of a model: calls have the reported size, and inputs fit the model. No test asserts a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.errors import InputError
from glassformer.study.speed import (
    Inputs,
    Side,
    Workload,
    make_jobs,
    measure,
    prepare_side,
    random_texts,
    settled_lengths,
)


def model_with(positions: Any, max_len: int, *, encoder: bool = False) -> gf.Transformer:
    stack = gf.StackConfig(d_model=8, num_layers=1, num_heads=2, positions=positions, max_len=max_len)
    both = {"encoder": stack, "decoder_start_token_id": 1} if encoder else {}
    return gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=20, **both))


def plain(model: gf.Transformer) -> Side:
    return prepare_side("plain", model)


@pytest.mark.parametrize(("kind", "beams", "given"), [("decoder", None, 32), ("encoder-decoder", 2, 1)])
def test_as_many_tokens_as_it_says(kind: str, beams: int | None, given: int, folder_of: Callable[[str], Path]) -> None:
    model = gf.load(folder_of(kind))
    with torch.no_grad():
        model.head.out.weight[list(model.config.eos_token_ids)] += 1.0  # without min_new_tokens it would end early
    jobs, sizes = make_jobs(model, Inputs(num_beams=beams))
    assert sizes == {"prompt_tokens": 32, "new_tokens": 64, "num_beams": beams or 1}
    for job, batch in zip(jobs, (1, 8), strict=True):
        assert job.run(plain(model)).shape == (batch, given + 64)
        assert job.amount == batch * 64
        assert job.first is not None
        assert job.first(plain(model)).shape == (batch, given + 1)


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        (model_with("learned", 1024), {}, (32, 64)),
        (model_with("learned", 50), {}, (25, 25)),
        (model_with("learned", 50), {"new_tokens": 45}, (5, 45)),
        (model_with("learned", 50), {"prompt_tokens": 40}, (40, 10)),
        (model_with("learned", 2), {}, (1, 1)),
        (model_with("rotary", 2), {"prompt_tokens": 500}, (500, 64)),
        (model_with("learned", 20, encoder=True), {}, (20, 20)),
    ],
)
def test_prompts_fit_the_model(model: gf.Transformer, given: dict[str, int], expected: tuple[int, int]) -> None:
    assert settled_lengths(model, Inputs(**given)) == expected
    jobs, _ = make_jobs(model, Inputs(**given))
    jobs[0].run(plain(model))


@pytest.mark.parametrize(
    ("encoder", "given", "says"),
    [
        (False, {"prompt_tokens": 40, "new_tokens": 20}, "need 60 positions: this model has 50"),
        (True, {"prompt_tokens": 60}, "--prompt-tokens is 60: this model reads at most 50. Give fewer"),
        (True, {"new_tokens": 60}, "--new-tokens is 60: this model writes at most 50. Give fewer"),
    ],
)
def test_more_tokens_than_there_is_room_for(encoder: bool, given: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make_jobs(model_with("learned", 50, encoder=encoder), Inputs(**given))


def test_texts_fit_the_model_and_differ_in_length() -> None:
    lengths = [len(text) for text in random_texts(model_with("learned", 40), 100, 20)]
    assert len(lengths) == 100
    assert min(lengths) >= 1
    assert max(lengths) == 40
    assert len(set(lengths)) > 10


def test_the_best_round_counts_and_the_sides_take_turns() -> None:
    model = model_with("rotary", 8)
    called = list[str]()
    jobs = [
        Workload("a", 6, lambda side: called.append(side.name), lambda side: called.append("first")),
        Workload("b", 6, len),
    ]
    sides = [plain(model), plain(model)._replace(name="int8")]
    said = list[str]()
    figures = measure(sides, jobs, 2, said.append)
    assert called == ["first", "plain", "first", "int8"] * 2
    assert said[:2] == ["round 1 of 2: plain, a", "round 1 of 2: int8, a"]
    assert [(figure.side, figure.job, figure.first_token is None) for figure in figures] == [
        ("plain", "a", False),
        ("int8", "a", False),
        ("plain", "b", True),
        ("int8", "b", True),
    ]
