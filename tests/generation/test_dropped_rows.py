"""Dropping rows that have ended changes nothing: the samples and searches are the same."""

from typing import Any

import pytest
import torch
from helpers.oracle import STACK, Counting, Dropping, ragged, seeded, translator, writer

import glassformer as gf
from glassformer.generation.loop import run

PAD = 39
ENDS = [2, 3, 15, 19, 23, 31]
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "penalties": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    "sampled": {"do_sample": True, "num_return_sequences": 3, "top_k": 0},
    "filters": {"do_sample": True, "temperature": 2.0, "top_k": 9, "top_p": 0.9, "repetition_penalty": 1.2},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "beams, early": {"num_beams": 3, "num_return_sequences": 3, "early_stopping": True},
    "beams, never": {"num_beams": 3, "early_stopping": "never", "length_penalty": 0.3},
    "beams, penalties": {"num_beams": 4, "no_repeat_ngram_size": 2, "min_new_tokens": 3},
    "beams, sampled": {"num_beams": 3, "do_sample": True, "temperature": 1.5, "early_stopping": True},
}


@pytest.mark.parametrize("make", [writer, translator])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_result_with_fewer_rows_to_read(make: Any, way: str) -> None:
    model = make(pad_token_id=PAD, eos_token_id=ENDS)
    ids, mask = ragged((4, 7, 5, 1, 6, 3, 2, 7, 5, 4, 3, 6), left=model.encoder is None)
    keywords = {"attention_mask": mask, "max_new_tokens": 20, "return_log_probs": True, **WAYS[way]}
    plain, fewer = Counting(model), Dropping(model)
    expected = run(plain, ids, generator=seeded(), **keywords)
    found = run(fewer, ids, generator=seeded(), **keywords)
    assert torch.equal(found.ids, expected.ids)
    torch.testing.assert_close(found.log_probs, expected.log_probs)
    assert len(set(plain.rows[1:])) == 1, "the plain path keeps its rows"
    assert len(fewer.rows) == len(plain.rows)
    assert fewer.rows[1:] == sorted(fewer.rows[1:], reverse=True)
    assert len(set(fewer.rows[1:])) > 2, "rows were dropped more than once"
    for before, after in zip(fewer.rows[1:], fewer.rows[2:], strict=False):
        assert after == before or 4 * after <= 3 * before


def test_one_row_may_be_left() -> None:
    model, prompts = writer(pad_token_id=PAD), torch.randint(3, 39, (2, 5))
    free = gf.generate(model, prompts, max_new_tokens=12, eos_token_id=[])[:, 5:].tolist()
    end = next(token for token in free[0] if token not in free[1])
    reader = Dropping(model)
    found = run(reader, prompts, max_new_tokens=12, eos_token_id=end)
    assert torch.equal(found, gf.generate(model, prompts, max_new_tokens=12, eos_token_id=end))
    assert reader.rows[-1] == 1


def test_what_a_row_draws_does_not_depend_on_the_rows_that_are_left() -> None:
    """For many samples from equal seeds, in a batch where some rows end early."""
    model = writer(pad_token_id=PAD, eos_token_id=ENDS)
    prompts = torch.randint(3, 39, (8, 4))
    for seed in range(20):
        choices = {"max_new_tokens": 10, "do_sample": True, "temperature": 3.0, "top_k": 0}
        expected = gf.generate(model, prompts, generator=seeded(seed), **choices)
        assert torch.equal(run(Dropping(model), prompts, generator=seeded(seed), **choices), expected)


@pytest.mark.parametrize("choices", [{"do_sample": True}, {"num_beams": 3}, {"num_beams": 3, "do_sample": True}])
@pytest.mark.parametrize("make", [writer, translator])
def test_copies_of_one_input_share_its_prefill(make: Any, choices: dict[str, Any]) -> None:
    reader = Counting(make())
    run(reader, torch.randint(3, 39, (2, 6)), num_return_sequences=3, max_new_tokens=4, eos_token_id=39, **choices)
    assert reader.rows[0] == 2
    assert set(reader.rows[1:]) == {6}


def test_rows_are_dropped_before_everything_is_read_again() -> None:
    """With rotary angles that change for all positions (longrope), and rows of different lengths."""
    rope = gf.RotaryScaling(
        type="longrope", factor=4.0, trained_len=11, short_factors=(1.0, 1.1), long_factors=(2.0, 3.0)
    )
    stack = STACK.replace(positions="rotary", layer_kinds=(gf.LayerKind(rotary_scaling=rope),))
    model = writer(decoder=stack, pad_token_id=PAD, eos_token_id=ENDS)
    ids, mask = ragged((4, 7, 5, 1, 6, 3, 2, 7, 5, 4, 3, 6))
    for choices in ({"do_sample": True, "top_k": 0}, {"num_beams": 3, "early_stopping": True}):
        keywords = {"attention_mask": mask, "max_new_tokens": 20, **choices}
        reader = Dropping(model)
        found = run(reader, ids, generator=seeded(), **keywords)
        assert torch.equal(found, gf.generate(model, ids, generator=seeded(), **keywords))
        assert reader.length > 11
        assert reader.rows[4] < reader.rows[1], "rows were dropped before"
