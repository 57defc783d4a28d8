"""`gf.generate` with pixel_values: with a prompt, ragged, with the cache, with beams, and with the engine."""

from typing import Any

import pytest
import torch
from helpers.properties import randomised
from torch import Tensor

import glassformer as gf
from glassformer.errors import InputError

ENCODER = gf.StackConfig(d_model=12, num_layers=2, num_heads=3, positions="learned", activation="gelu")
DECODER = gf.StackConfig(d_model=20, num_layers=2, num_heads=5, positions="learned", activation="gelu", max_len=40)
IMAGE = gf.ImageConfig(size=8, patch=4)
JOINS = [("cross", "none"), ("cross", "linear"), ("prefix", "linear_norm")]
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "no end": {"eos_token_id": 29, "suppress_tokens": [29]},
    "penalties": {"repetition_penalty": 1.8, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
    "beams": {"num_beams": 4, "num_return_sequences": 2},
    "sampled": {"do_sample": True, "top_k": 9, "num_return_sequences": 2},
}


def captioner(memory: str = "prefix", project: str = "linear", **choices: Any) -> gf.Transformer:
    torch.manual_seed(3)
    sizes = {"image": IMAGE, "encoder": ENCODER, "decoder": DECODER, "vocab_size": 30, "eos_token_id": 2}
    tokens = {"decoder_start_token_id": 1, "pad_token_id": 0}
    config = gf.TransformerConfig(**{**sizes, **tokens, "memory": memory, "memory_project": project, **choices})
    return randomised(gf.Transformer(config)).eval()


def pictures(batch: int = 3) -> Tensor:
    return torch.randn(batch, 3, 8, 8, generator=torch.Generator().manual_seed(5))


PROMPT = torch.tensor([[1, 7, 9, 0, 0], [1, 12, 13, 14, 15], [1, 4, 0, 0, 0]])
KEEP = (PROMPT != 0).long()


def by_hand(model: gf.Transformer, pixels: Tensor, prompt: list[int], count: int) -> list[int]:
    """Greedy decoding with a full pass for each token."""
    text = list(prompt)
    for _ in range(count):
        logits = model(pixel_values=pixels[None], decoder_input_ids=torch.tensor([text])).logits
        text.append(int(logits[0, -1].argmax()))
        if text[-1] == 2:
            break
    return text


@pytest.mark.parametrize(("memory", "project"), JOINS)
@torch.no_grad()
def test_greedy_is_the_likeliest_token_again_and_again(memory, project):
    model, pixels = captioner(memory, project), pictures()
    plain = gf.generate(model, pixel_values=pixels, max_new_tokens=9)
    assert plain[:, 0].tolist() == [1, 1, 1]
    asked = gf.generate(model, PROMPT, pixel_values=pixels, attention_mask=KEEP, max_new_tokens=9)
    left = gf.generate(model, PROMPT.flip(1), pixel_values=pixels, max_new_tokens=2)  # ids do not imply padding
    assert left.shape[1] == 5 + 1 + 2
    for row in range(3):
        expected = by_hand(model, pixels[row], [1], 9)
        assert plain[row, : len(expected)].tolist() == expected
        prompt = PROMPT[row][KEEP[row].bool()].tolist()
        expected = by_hand(model, pixels[row], prompt, 9)[len(prompt) :]
        assert asked[row, 5 : 5 + len(expected)].tolist() == expected
        assert torch.equal(asked[row, :5], PROMPT[row])


@pytest.mark.parametrize(("memory", "project"), JOINS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_padding_on_either_side_and_the_engine_change_no_token(memory, project, options):
    model, pixels = captioner(memory, project), pictures()
    left = torch.tensor([[0, 0, 1, 7, 9], [1, 12, 13, 14, 15], [0, 0, 0, 1, 4]])
    engine = gf.engine(model, backend="eager")
    for ids, keep in ((None, None), (PROMPT, KEEP), (left, (left != 0).long())):
        call = {"pixel_values": pixels, "attention_mask": keep, "max_new_tokens": 8, **options}
        written = gf.generate(model, ids, **call, generator=torch.Generator().manual_seed(1))
        assert torch.equal(engine.generate(ids, **call, generator=torch.Generator().manual_seed(1)), written)
        if ids is PROMPT:
            right = written[:, 5:]
        elif ids is not None:
            assert torch.equal(written[:, 5:], right)


def test_more_tokens_than_the_first_room_of_the_engine():
    model = captioner(decoder=DECODER.replace(max_len=150), eos_token_id=None)
    engine, call = gf.engine(model, backend="eager"), {"pixel_values": pictures(), "max_new_tokens": 149}
    assert torch.equal(engine.generate(**call), gf.generate(model, **call))


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "project"), JOINS)
def test_the_compiled_engine_writes_the_same(memory, project):
    model, pixels = captioner(memory, project), pictures()
    engine = gf.engine(model)
    for options in ({}, {"num_beams": 3}):
        call = {"pixel_values": pixels, "attention_mask": KEEP, "max_new_tokens": 8, **options}
        assert torch.equal(engine.generate(PROMPT, **call), gf.generate(model, PROMPT, **call))


def test_a_prompt_is_given_the_start_token_unless_it_begins_with_it():
    model, pixels = captioner(), pictures()
    bare, keep = PROMPT[:, 1:], KEEP[:, 1:]
    with_start = gf.generate(model, PROMPT, pixel_values=pixels, attention_mask=KEEP, max_new_tokens=4)
    assert torch.equal(gf.generate(model, bare, pixel_values=pixels, attention_mask=keep, max_new_tokens=4), with_start)
    assert torch.equal(
        gf.generate(model, decoder_input_ids=bare, pixel_values=pixels, attention_mask=keep, max_new_tokens=4),
        with_start,
    )
    free = captioner(decoder_start_token_id=None, bos_token_id=1)  # it may begin with anything
    assert gf.generate(free, bare, pixel_values=pixels, max_new_tokens=1).shape == (3, 5)
    assert gf.generate(free, pixel_values=pixels, max_new_tokens=1)[:, 0].tolist() == [1, 1, 1]


def test_lengths_count_the_tokens_and_not_the_picture():
    model, pixels = captioner(eos_token_id=None), pictures(1)
    assert gf.generate(model, PROMPT[1:2], pixel_values=pixels, max_length=9).shape == (1, 9)
    assert gf.generate(model, PROMPT[1:2], pixel_values=pixels, max_new_tokens=9).shape == (1, 14)
    assert gf.generate(model, pixel_values=pixels, max_new_tokens=40).shape == (1, 41)  # the last needs no position
    with pytest.raises(InputError, match="the 40 positions of this model"):
        gf.generate(model, pixel_values=pixels, max_new_tokens=41)


def test_streaming_a_caption():
    model, pixels = captioner(), pictures()
    whole = gf.generate(model, pixel_values=pixels, max_new_tokens=6)
    stream = gf.engine(model, backend="eager").stream(pixel_values=pixels, max_new_tokens=6)
    assert torch.equal(whole[:, 1:], torch.stack(list(stream), dim=1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({}, "writes about an image: give it as pixel_values"),
        ({"input_ids": PROMPT}, "writes about an image: give it as pixel_values"),
        ({"pixel_values": pictures()[0]}, r"pixel_values have shape \(3, 8, 8\): expected \(batch, channels"),
        ({"pixel_values": pictures()[:, :, :4]}, r"pixel_values have shape \(3, 3, 4, 8\)"),
        ({"pixel_values": pictures(2), "input_ids": PROMPT}, r"input_ids have shape \(3, 5\): expected \(2, length\)"),
        ({"pixel_values": pictures(), "attention_mask": KEEP}, "attention_mask was given without input_ids"),
        ({"pixel_values": pictures(), "input_ids": PROMPT, "decoder_input_ids": PROMPT}, "both are the prompt"),
        ({"pixel_values": pictures(), "input_ids": PROMPT, "attention_mask": KEEP[:, :3]}, "attention_mask has shape"),
        (
            {"pixel_values": pictures(), "input_ids": torch.cat([PROMPT[:2], PROMPT[2:].roll(1)])},
            "some rows of input_ids begin with the start token 1",
        ),
    ],
)
def test_calls_that_cannot_be_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        gf.generate(captioner(), **call)


def test_a_picture_for_a_model_of_text():
    writer = gf.Transformer(gf.TransformerConfig(decoder=DECODER, vocab_size=30))
    with pytest.raises(InputError, match="pixel_values were given to a model that reads text: give input_ids"):
        gf.generate(writer, pixel_values=pictures())
    with pytest.raises(InputError, match="no prompt given"):
        gf.generate(writer)
