"""Generation with the cache gives the same tokens as full passes without it, whatever else is in the batch.

`test_same_tokens.py` compares the tokens with those of Hugging Face.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer as gf
from glassformer.errors import InputError

STACK = gf.StackConfig(d_model=16, num_layers=2, num_heads=4, num_kv_heads=2, d_ff=24)
IDS = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1}


def writer(positions: str = "rotary") -> gf.Transformer:
    torch.manual_seed(0)
    config = gf.TransformerConfig(decoder=STACK.replace(positions=positions), vocab_size=40, tie_embeddings=False)
    return sharpened(gf.Transformer(config).eval())


def translator() -> gf.Transformer:
    torch.manual_seed(1)
    config = gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=40, tie_embeddings=False, **IDS)
    return sharpened(gf.Transformer(config).eval())


@torch.no_grad()
def sharpened(model: gf.Transformer) -> gf.Transformer:
    """Larger weights, so that the most likely token differs from step to step."""
    for name, parameter in model.named_parameters():
        parameter.mul_(50.0 if "tokens" in name else 8.0 if parameter.ndim > 1 else 1.0)
    return model


def without_cache(model: gf.Transformer, ids: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        ids = torch.cat([ids, model(ids).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi", "none"])
def test_a_decoder_continues_as_without_a_cache(positions: str) -> None:
    model = writer(positions)
    prompt = torch.randint(1, 40, (12, 5))
    expected = without_cache(model, prompt, 12)
    assert len(set(expected[:, 5:].flatten().tolist())) > 5, "a model that writes many tokens"
    assert torch.equal(gf.generate(model, prompt, max_new_tokens=12), expected)


@pytest.mark.parametrize("left", [True, False])
def test_a_ragged_batch_gives_what_each_prompt_gives_alone(left: bool) -> None:
    model = writer()
    prompts = [torch.randint(1, 40, (1, length)) for length in (3, 7, 5)]
    ids, mask = torch.zeros(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        where = slice(7 - prompt.shape[1], None) if left else slice(0, prompt.shape[1])
        ids[row, where], mask[row, where] = prompt[0], True
    together = gf.generate(model, ids, attention_mask=mask, max_new_tokens=8)
    for row, prompt in enumerate(prompts):
        assert torch.equal(together[row, 7:], gf.generate(model, prompt, max_new_tokens=8)[0, prompt.shape[1] :])


def test_a_translation_starts_at_the_start_token_and_ends_in_padding() -> None:
    model = translator()
    source = torch.randint(3, 40, (6, 9))
    ids = gf.generate(model, source, max_new_tokens=30)
    assert (ids[:, 0] == 1).all()
    for row in range(6):
        alone = gf.generate(model, source[row : row + 1], max_new_tokens=30)[0]
        assert torch.equal(ids[row, : len(alone)], alone)
        assert (ids[row, len(alone) :] == 0).all()
        written = torch.tensor([[1]])
        for token in alone[1:]:
            assert model(source[row : row + 1], decoder_input_ids=written).logits[0, -1].argmax() == token
            written = torch.cat([written, token.view(1, 1)], dim=1)


def test_a_row_stops_at_the_end_token_and_is_filled_with_padding() -> None:
    model, prompt = writer(), torch.randint(1, 40, (12, 5))
    free = gf.generate(model, prompt, max_new_tokens=12)[:, 5:]
    end = int(free[0, 3])  # a token that the first row will write
    ended = gf.generate(model, prompt, max_new_tokens=12, eos_token_id=end, pad_token_id=39)[:, 5:]
    for row, expected in zip(ended.tolist(), free.tolist(), strict=True):
        stop = expected.index(end) + 1 if end in expected else len(expected)
        assert row == (expected[:stop] + [39] * len(expected))[: len(row)]
    assert any(end in row for row in ended.tolist())
    alone = gf.generate(model, prompt[:1], max_new_tokens=12, eos_token_id=end)
    assert alone[0, -1] == end, "and nothing is generated after the last row has ended"


def test_dropout_is_off_while_generating_and_back_on_after() -> None:
    torch.manual_seed(0)
    config = gf.TransformerConfig(decoder=STACK.replace(dropout=0.5), vocab_size=40)
    model = gf.Transformer(config).train()
    prompt = torch.randint(1, 40, (2, 5))
    assert torch.equal(gf.generate(model, prompt, max_new_tokens=6), gf.generate(model, prompt, max_new_tokens=6))
    assert model.training
    model.decoder.blocks[0].eval()
    gf.generate(model, prompt, max_new_tokens=2)
    assert model.decoder.blocks[1].training
    assert not model.decoder.blocks[0].training, "the mode of each module is restored"


def test_what_cannot_generate_says_so() -> None:
    encoder = gf.Transformer(gf.TransformerConfig(encoder=STACK, vocab_size=40))
    with pytest.raises(InputError, match="an encoder alone"):
        gf.generate(encoder, torch.ones(1, 2, dtype=torch.long))
    headless = gf.Transformer(gf.TransformerConfig(decoder=STACK, vocab_size=40, head="none"))
    with pytest.raises(InputError, match="head is 'none'"):
        gf.generate(headless, torch.ones(1, 2, dtype=torch.long))
    startless = gf.Transformer(gf.TransformerConfig(encoder=STACK, decoder=STACK, vocab_size=40))
    with pytest.raises(InputError, match="decoder_start_token_id"):
        gf.generate(startless, torch.ones(1, 2, dtype=torch.long))
    with pytest.raises(InputError, match="max_new_tokens is 0"):
        gf.generate(writer(), torch.ones(1, 2, dtype=torch.long), max_new_tokens=0)


def test_a_text_longer_than_the_table_of_positions_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless an end token may come in time. Padding needs no position."""
    model, prompt = writer("learned"), torch.ones(1, 510, dtype=torch.long)
    assert gf.generate(model, prompt, max_new_tokens=3).shape == (1, 513), "the last token is not read"
    with pytest.raises(InputError, match="513 positions does not fit a learned table of max_len = 512"):
        gf.generate(model, prompt, max_new_tokens=9, eos_token_id=2)
    padded, keep = torch.ones(2, 600, dtype=torch.long), torch.zeros(2, 600, dtype=torch.bool)
    keep[0, :500] = keep[1, 100:] = True
    assert gf.generate(model, padded, attention_mask=keep, max_new_tokens=13).shape == (2, 613)
    monkeypatch.setattr(model, "decode", None)
    with pytest.raises(InputError, match=r"prompt of 510 tokens and 9 new ones .* Set max_new_tokens=3 or less"):
        gf.generate(model, prompt, max_new_tokens=9)
    for choices in ({}, {"max_new_tokens": 1}, {"max_length": 700}, {"num_beams": 2, "eos_token_id": 2}):
        with pytest.raises(
            InputError, match=r"prompt has 513 tokens, and this model has 512 positions\. Shorten it to"
        ):
            gf.generate(model, torch.ones(1, 513, dtype=torch.long), **choices)
    keep[1] = True
    with pytest.raises(InputError, match="the prompt has 600 tokens"):
        gf.generate(model, padded, attention_mask=keep)


def in_one_batch(prompts: list[Tensor], left: bool, pad: int) -> tuple[Tensor, Tensor]:
    width = max(prompt.shape[1] for prompt in prompts)
    ids = torch.full((len(prompts), width), pad)
    mask = torch.zeros(len(prompts), width, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        where = slice(width - prompt.shape[1], None) if left else slice(0, prompt.shape[1])
        ids[row, where], mask[row, where] = prompt[0], True
    return ids, mask


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(
    "choices",
    [
        {"repetition_penalty": 2.0},
        {"no_repeat_ngram_size": 2},
        {"no_repeat_ngram_size": 4, "repetition_penalty": 0.5},
        {"bad_words_ids": [[9, 9], [4]], "min_new_tokens": 3},
        {"num_beams": 3, "num_return_sequences": 2},
        {"num_beams": 3, "early_stopping": True, "repetition_penalty": 1.5, "no_repeat_ngram_size": 3},
        {"num_beams": 2, "early_stopping": "never", "length_penalty": 2.0},
        {"do_sample": True, "top_k": 1},
    ],
)
def test_no_row_depends_on_the_rest_of_its_batch(left: bool, choices: dict[str, Any]) -> None:
    """Not even if the pad token is one that the model writes, or one that ends a text."""
    model, rows = writer(), choices.get("num_return_sequences", 1)
    torch.manual_seed(7)
    prompts = [torch.randint(1, 40, (1, length)) for length in (3, 8, 5, 1)]
    said = int(gf.generate(model, prompts[0], max_new_tokens=2)[0, -1])
    settings = {**choices, "max_new_tokens": 10, "eos_token_id": [2, 30], "pad_token_id": said}
    ids, mask = in_one_batch(prompts, left, said)
    together = gf.generate(model, ids, attention_mask=mask, **settings)
    assert torch.equal(together[:, :8], ids.repeat_interleave(rows, dim=0)), "the prompt is returned unchanged"
    for row, prompt in enumerate(prompts):
        alone = gf.generate(model, prompt, **settings)[:, prompt.shape[1] :]
        mine = together[rows * row : rows * (row + 1), 8:]
        assert torch.equal(mine[:, : alone.shape[1]], alone)
        assert (mine[:, alone.shape[1] :] == said).all()


def test_sampling_follows_its_generator_or_the_seed() -> None:
    model, prompt = writer(), torch.randint(1, 40, (2, 5))

    def drawn(generator: torch.Generator | None = None) -> Tensor:
        return gf.generate(model, prompt, max_new_tokens=9, do_sample=True, temperature=9.0, generator=generator)

    torch.manual_seed(1)
    first, second = drawn(), drawn()
    torch.manual_seed(1)
    assert torch.equal(drawn(), first)
    assert not torch.equal(first, second)
    state = torch.get_rng_state()
    assert torch.equal(drawn(torch.Generator().manual_seed(4)), drawn(torch.Generator().manual_seed(4)))
    assert torch.equal(torch.get_rng_state(), state), "torch's own generator is not used"
    copies = gf.generate(model, prompt, max_new_tokens=9, do_sample=True, temperature=9.0, num_return_sequences=3)
    assert torch.equal(copies[:, :5], prompt.repeat_interleave(3, dim=0))
    assert len({tuple(row) for row in copies.tolist()}) == 6


def test_what_a_call_does_not_say_the_model_does() -> None:
    model, prompt = writer(), torch.randint(1, 40, (2, 5))
    generation = gf.GenerationConfig(max_new_tokens=4, num_beams=3, num_return_sequences=2)
    fond = gf.Transformer(model.config.replace(generation=generation)).eval()
    fond.load_state_dict(model.state_dict())
    expected = gf.generate(model, prompt, max_new_tokens=4, num_beams=3, num_return_sequences=2)
    assert torch.equal(gf.generate(fond, prompt), expected)
    assert gf.generate(fond, prompt, num_return_sequences=1).shape == (2, 9)
    assert gf.generate(fond, prompt, max_length=7, num_return_sequences=None).shape == (4, 7)
    assert gf.TransformerConfig.from_json(fond.config.to_json()) == fond.config


def test_several_ids_may_end_a_text_and_the_first_fills_where_there_is_no_padding() -> None:
    model, prompt = writer(), torch.randint(1, 40, (12, 5))
    free = gf.generate(model, prompt, max_new_tokens=12)[:, 5:].tolist()
    ends = (free[0][3], free[1][2])
    config = model.config.replace(eos_token_id=ends, pad_token_id=None)
    assert gf.TransformerConfig.from_json(config.to_json()) == config
    ending = gf.Transformer(config).eval()
    ending.load_state_dict(model.state_dict())
    for row, expected in zip(gf.generate(ending, prompt, max_new_tokens=12)[:, 5:].tolist(), free, strict=True):
        stop = min((i + 1 for i, token in enumerate(expected) if token in ends), default=12)
        assert row == (expected[:stop] + [ends[0]] * 12)[: len(row)]


def test_half_precision_is_chosen_from_in_full() -> None:
    model, prompt = writer().bfloat16(), torch.randint(1, 40, (2, 5))
    for choices in ({"do_sample": True}, {"num_beams": 3}, {"repetition_penalty": 1.3}):
        assert gf.generate(model, prompt, max_new_tokens=5, **choices).shape == (2, 10)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"num_beam": 3}, r"no field 'num_beam': did you mean 'num_beams'\?"),
        ({"num_beams": 0}, "num_beams is 0: expected at least 1"),
        ({"num_beams": 2.0}, "num_beams is 2.0: expected a whole number"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences is 3: expected at most num_beams = 2"),
        ({"num_return_sequences": 2}, "num_return_sequences is 2: all would be the same"),
        ({"do_sample": True, "temperature": 0.0}, "temperature is 0.0: expected a number above 0"),
        ({"do_sample": True, "temperature": -0.5}, "temperature is -0.5: expected 0 or more"),
        ({"do_sample": True, "top_p": 1.5}, "top_p is 1.5"),
        ({"do_sample": True, "top_k": -1}, "top_k is -1"),
        ({"do_sample": True, "min_p": -0.1}, "min_p is -0.1"),
        ({"temperature": 0.5}, "temperature is 0.5: it only works with do_sample=True"),
        ({"length_penalty": 2.0}, "length_penalty is 2.0: it only works with num_beams=2 or more"),
        ({"num_beams": 2, "early_stopping": "always"}, "early_stopping is 'always'"),
        ({"max_length": 9, "max_new_tokens": 4}, "max_length is 9 and max_new_tokens is 4"),
        ({"max_length": 2}, "max_length is 2, and the prompt already has 2 tokens"),
        ({"min_new_tokens": 5, "max_new_tokens": 4}, "min_new_tokens is 5 and max_new_tokens is 4"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        ({"bad_words_ids": [[]]}, "bad_words_ids is"),
        ({"bad_words_ids": [[3, 40]]}, "bad_words_ids holds 40: expected an id from 0 to 39"),
        ({"forced_eos_token_id": 7, "suppress_tokens": [7]}, "forced_eos_token_id is 7: suppress_tokens forbids it"),
        ({"eos_token_id": [2, 40]}, "eos_token_id holds 40"),
        ({"pad_token_id": -1}, "pad_token_id holds -1"),
        ({"decoder_input_ids": torch.ones(1, 1)}, "this model has only a decoder: leave decoder_input_ids out"),
        ({"attention_mask": torch.zeros(1, 2, dtype=torch.long)}, "masks every token"),
        ({"attention_mask": torch.ones(1, 3, dtype=torch.long)}, r"attention_mask has shape \(1, 3\)"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_by_name(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        gf.generate(writer(), torch.ones(1, 2, dtype=torch.long), **choices)


def test_a_target_that_begins_wrongly_is_refused() -> None:
    model, source = translator(), torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(InputError, match=r"decoder_input_ids have shape \(3, 1\): expected \(2, length\)"):
        gf.generate(model, source, decoder_input_ids=torch.ones(3, 1, dtype=torch.long))
    with pytest.raises(InputError, match="some rows of decoder_input_ids begin with the start token 1"):
        gf.generate(model, source, decoder_input_ids=torch.tensor([[1, 4], [4, 5]]))
    with pytest.raises(InputError, match="decoder_start_token_id holds 40"):
        gf.generate(model, source, decoder_start_token_id=40)
    with pytest.raises(InputError, match=r"input_ids have shape \(3,\): expected \(batch, length\)"):
        gf.generate(model, source[0])
    with pytest.raises(InputError, match=r"input_ids have shape \(2, 0\): expected \(batch, length\)"):
        gf.generate(model, source[:, :0])
