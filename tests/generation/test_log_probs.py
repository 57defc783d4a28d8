"""`return_log_probs`: log p of each new token equals that of a full pass over the result, however it was chosen."""

from typing import Any

import pytest
import torch
from helpers.oracle import Dropping, bart, gpt2, ragged, seeded, translator, writer
from torch import Tensor

import glassformer as gf
from glassformer.generation.loop import run

PAD = 39
ENDS = [2, 15, 23, 31]
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "penalties": {"repetition_penalty": 1.8, "bad_words_ids": [[5], [19, 4]], "min_new_tokens": 3},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "temperature": 2.0, "top_k": 9},
    "beams": {"num_beams": 4, "num_return_sequences": 3},
    "beams, penalties": {"num_beams": 3, "repetition_penalty": 1.5, "forced_eos_token_id": 2},
    "beams, sampled": {"num_beams": 3, "num_return_sequences": 2, "do_sample": True},
}
MODELS = {
    "writer": lambda: writer(pad_token_id=PAD),
    "translator": lambda: translator(pad_token_id=PAD),
    "gpt2": lambda: gpt2()[0],
    "bart": lambda: bart()[0],
}


@torch.no_grad()
def in_one_pass(model: gf.Transformer, source: Tensor, mask: Tensor, ids: Tensor, new: int) -> Tensor:
    copies = len(ids) // len(source)
    source, mask = source.repeat_interleave(copies, dim=0), mask.repeat_interleave(copies, dim=0)
    if model.encoder is not None:
        logits = model(source, mask, decoder_input_ids=ids).logits
    else:
        logits = model(ids, torch.cat([mask, mask.new_ones(len(ids), new)], dim=1)).logits
    log_probs = logits[:, -new - 1 : -1].log_softmax(dim=2).gather(2, ids[:, -new:, None]).squeeze(2)
    ends = torch.isin(ids[:, -new:], torch.tensor(ENDS)).int()
    return log_probs.masked_fill(ends.cumsum(dim=1) - ends > 0, 0.0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_as_in_one_whole_pass(name: str, way: str) -> None:
    model = MODELS[name]()
    source, mask = ragged((4, 7, 5, 1, 6, 3), left=model.encoder is None)
    keywords = {"attention_mask": mask, "max_new_tokens": 12, "eos_token_id": ENDS, "pad_token_id": PAD, **WAYS[way]}
    plain = gf.generate(model, source, generator=seeded(), **keywords)
    for generate in (gf.generate, lambda model, *rest, **more: run(Dropping(model), *rest, **more)):
        found = generate(model, source, return_log_probs=True, generator=seeded(), **keywords)
        assert torch.equal(found.ids, plain), "the tokens stay the same"
        new = found.log_probs.shape[1]
        assert new == plain.shape[1] - (1 if model.encoder is not None else 7)
        expected = in_one_pass(model, source, mask, plain, new)
        torch.testing.assert_close(found.log_probs, expected, rtol=1e-5, atol=1e-5)
        assert (found.log_probs == 0).any(), "rows that ended before others"


def test_a_beam_has_the_score_of_its_log_probs() -> None:
    """And the texts of one source are sorted by score."""
    model, prompts = writer(pad_token_id=PAD, eos_token_id=ENDS), torch.randint(3, 39, (3, 5))
    found = gf.generate(model, prompts, num_beams=5, num_return_sequences=5, return_log_probs=True, max_new_tokens=9)
    lengths = (found.ids[:, 5:] != PAD).sum(dim=1)
    scores = (found.log_probs.sum(dim=1) / lengths).view(3, 5)
    assert torch.equal(scores, scores.sort(dim=1, descending=True).values)


def test_in_half_precision_they_are_of_full() -> None:
    model = writer().bfloat16()
    for choices in ({}, {"num_beams": 2}):
        found = gf.generate(model, torch.randint(3, 39, (2, 5)), return_log_probs=True, max_new_tokens=3, **choices)
        assert found.log_probs.dtype == torch.float32
        assert (found.log_probs <= 0).all()
