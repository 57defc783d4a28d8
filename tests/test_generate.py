"""Greedy generation with the cache gives what repeated whole passes without it give."""

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
    """Larger weights, so that the likeliest token differs from step to step."""
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
    assert len(set(expected[:, 5:].flatten().tolist())) > 5, "a model that says many things"
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
    end = int(free[0, 3])  # a token that the first row will say
    ended = gf.generate(model, prompt, max_new_tokens=12, eos_token_id=end, pad_token_id=39)[:, 5:]
    for row, expected in zip(ended.tolist(), free.tolist(), strict=True):
        stop = expected.index(end) + 1 if end in expected else len(expected)
        assert row == (expected[:stop] + [39] * len(expected))[: len(row)]
    assert any(end in row for row in ended.tolist())
    alone = gf.generate(model, prompt[:1], max_new_tokens=12, eos_token_id=end)
    assert alone[0, -1] == end, "and nothing is made after the last row has ended"


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
    assert not model.decoder.blocks[0].training, "each part is back to what it was"


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
    with pytest.raises(InputError, match="513 positions does not fit a learned table of max_len = 512"):
        gf.generate(writer("learned"), torch.ones(1, 510, dtype=torch.long), max_new_tokens=9)
