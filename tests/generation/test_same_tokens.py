"""`gf.generate` gives the tokens of Hugging Face's `generate`: greedy, sampled and with beams, alone and in batches."""

from typing import Any

import pytest
import torch
from helpers.oracle import Oracle, bart, gpt2, ragged, translator, writer
from helpers.reference import save_sample
from helpers.samples import ARCHITECTURES, SAMPLES

import glassformer as gf

PAD = 39  # if the pad id is 0, the beam search of `transformers` pads with the end token instead (5.22)
ENDS = [2, 15, 23, 31]
BEAMS = {"num_beams": 4, "num_return_sequences": 3}
SAMPLE = {"do_sample": True, "num_return_sequences": 2}
CASES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "one end": {"eos_token_id": 8},
    "min_new_tokens": {"min_new_tokens": 6},
    "min_length": {"min_length": 10},
    "max_length": {"max_length": 12},
    "repetition_penalty": {"repetition_penalty": 1.8},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "bad_words_ids": {"bad_words_ids": [[5], [13, 19], [19, 4, 3], [2], [37, 13], [22]]},
    "suppress_tokens": {"suppress_tokens": [8, 19, 35]},
    "forced": {"forced_bos_token_id": 7, "forced_eos_token_id": [9, 2]},
    "sampled": SAMPLE,
    "temperature": {**SAMPLE, "temperature": 2.5},
    "top_k": {**SAMPLE, "top_k": 4},
    "top_p": {**SAMPLE, "top_k": 0, "top_p": 0.7},
    "min_p": {**SAMPLE, "top_k": 0, "min_p": 0.2},
    "all filters": {**SAMPLE, "temperature": 3.0, "top_k": 9, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2},
    "beams": BEAMS,
    "beams, early": {**BEAMS, "early_stopping": True},
    "beams, never": {**BEAMS, "early_stopping": "never", "length_penalty": 2.0},
    "beams, never, short": {**BEAMS, "early_stopping": "never", "length_penalty": -1.0},
    "beams, long": {**BEAMS, "length_penalty": 2.0, "early_stopping": False},
    "beams, short": {**BEAMS, "length_penalty": -0.5},
    "beams, one end": {**BEAMS, "eos_token_id": 8},
    "beams, penalties": {**BEAMS, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
    "beams, forced": {**BEAMS, "forced_bos_token_id": 7, "forced_eos_token_id": 2, "renormalize_logits": True},
    "beams, sampled": {**BEAMS, "do_sample": True, "temperature": 1.5},
    "beams, filters": {"num_beams": 3, "do_sample": True, "top_k": 2, "top_p": 0.6, "min_p": 0.1},
}
MODELS = {
    "writer": lambda: with_oracle(writer(pad_token_id=PAD)),
    "translator": lambda: with_oracle(translator(pad_token_id=PAD)),
    "gpt2": gpt2,
    "bart": bart,
}


def with_oracle(model: gf.Transformer) -> tuple[gf.Transformer, Any]:
    return model, Oracle(model)


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest) -> tuple[gf.Transformer, Any]:
    return MODELS[request.param]()


def both(pair: tuple[gf.Transformer, Any], choices: dict[str, Any], **inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    choices = {"pad_token_id": PAD, "eos_token_id": ENDS, **choices}
    if "max_length" not in choices:
        choices["max_new_tokens"] = 14
    torch.manual_seed(11)
    ours = gf.generate(pair[0], **inputs, **choices)
    torch.manual_seed(11)
    return ours, pair[1].generate(**inputs, **choices)


@pytest.mark.parametrize("case", CASES)
def test_the_tokens_are_those_of_hugging_face(pair: tuple[gf.Transformer, Any], case: str) -> None:
    ids, mask = ragged((4, 7, 5, 1, 6, 3), left=pair[0].encoder is None)
    choices = dict(CASES[case])
    if pair[0].encoder is None and {"repetition_penalty", "no_repeat_ngram_size"} & set(choices):
        choices["bad_words_ids"] = [[PAD]]  # they count padding as history; ours does not
    ours, theirs = both(pair, choices, input_ids=ids.masked_fill(mask == 0, PAD), attention_mask=mask)
    assert torch.equal(ours, theirs)
    ours, theirs = both(pair, choices, input_ids=ids[1:2])
    assert torch.equal(ours, theirs)


def test_the_models_say_many_things_and_stop(pair: tuple[gf.Transformer, Any]) -> None:
    """Otherwise the comparisons above would mean little."""
    ids, mask = ragged((4, 7, 5, 1, 6, 3), left=pair[0].encoder is None)
    for choices in ({}, BEAMS):
        ours, _ = both(pair, choices, input_ids=ids, attention_mask=mask)
        new = ours[:, 1 if pair[0].encoder is not None else 7 :]
        assert len(new.unique()) > 5
        assert len({tuple(row) for row in new.tolist()}) > 3
        assert (new == PAD).any()


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("choices", [{}, BEAMS, SAMPLE], ids=["greedy", "beams", "sampled"])
def test_a_target_goes_on_from_a_given_beginning(length: int, choices: dict[str, Any]) -> None:
    pair = MODELS["bart"]()
    ids, mask = ragged((4, 7), left=False)
    beginning = torch.randint(3, 39, (2, length))
    for given in (beginning, torch.cat([torch.full((2, 1), 2), beginning], dim=1)):  # with and without its start token
        ours, theirs = both(pair, choices, input_ids=ids, attention_mask=mask, decoder_input_ids=given)
        assert torch.equal(ours, theirs)


def test_twenty_new_tokens_where_nobody_says() -> None:
    ours, theirs = MODELS["gpt2"]()
    prompt = torch.randint(3, 39, (2, 6))
    with pytest.warns(UserWarning, match="max_length"):
        expected = theirs.generate(prompt, eos_token_id=38)
    assert torch.equal(gf.generate(ours, prompt, eos_token_id=38), expected)
    prompt = torch.randint(3, 39, (2, 60))  # within the learned positions
    with pytest.warns(UserWarning, match="max_length"):
        expected = theirs.generate(prompt, eos_token_id=38)
    assert torch.equal(gf.generate(ours, prompt, eos_token_id=38), expected)


def test_padding_of_zero_differs_in_what_fills_alone() -> None:
    """The beam search of `transformers` 5.22 treats a pad id of 0 as none; ours pads with it."""
    pair = with_oracle(writer())
    ids, mask = ragged((4, 7, 5, 1, 6, 3))
    ours, theirs = both(pair, {**BEAMS, "pad_token_id": 0}, input_ids=ids, attention_mask=mask)
    assert ours.shape == theirs.shape
    differs = ours != theirs
    assert differs.any()
    assert (ours[differs] == 0).all()
    assert (theirs[differs] == ENDS[0]).all()


@pytest.fixture(scope="module", params=["vision-encoder-decoder-gpt2_projected", "git-plain"])
def captioner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[gf.Transformer, Any]:
    sample = next(sample for sample in SAMPLES if str(sample) == request.param)
    made = save_sample(sample, ARCHITECTURES[sample.model_type]["language"], tmp_path_factory.mktemp("captioner"))
    return gf.load(made.path), made.model


@pytest.mark.parametrize("case", CASES)
def test_the_tokens_about_a_picture_are_those_of_hugging_face(captioner: tuple[gf.Transformer, Any], case: str) -> None:
    """Every option, with a prompt and without."""
    model, theirs = captioner
    image = model.config.image
    pixels = torch.randn(3, image.channels, image.size, image.size, generator=torch.Generator().manual_seed(2))
    prompt = torch.tensor([[1, 40, 17], [1, 9, 33], [1, 60, 60]])
    choices = {"pad_token_id": PAD, "eos_token_id": ENDS, **CASES[case]}
    if "max_length" not in choices:
        choices["max_new_tokens"] = 14
    for given in (None, prompt):
        torch.manual_seed(11)
        ours = gf.generate(model, given, pixel_values=pixels, **choices)
        torch.manual_seed(11)
        name = "decoder_input_ids" if model.config.cross else "input_ids"
        expected = theirs.generate(pixel_values=pixels, **({} if given is None else {name: given}), **choices)
        assert torch.equal(ours, expected)
