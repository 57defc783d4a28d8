"""A text about a picture has the tokens that transformers writes: greedy and by beams, with a prompt and without."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from helpers.reference import Checkpoint, to_left
from helpers.samples import CAPTIONERS, SAMPLES, Sample
from torch import Tensor

import glassformer as gf
from glassformer.checkpoints.read_layout import layout_of
from glassformer.errors import InputError

Checkpoints = Callable[[Sample, str], Checkpoint]
Loaded = Callable[[Sample, str], gf.Transformer]

NEW = 9
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "beams": {"num_beams": 4},
    "beams, short": {"num_beams": 4, "length_penalty": -0.5, "early_stopping": True},
}
every_captioner = pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if sample.model_type in CAPTIONERS], ids=str
)


@every_captioner
def test_captions(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """Without a prompt; to the end, and with an end token that comes soon."""
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    pixels = made.inputs["pixel_values"]
    for search in SEARCHES.values():
        settings = {"max_new_tokens": NEW, "do_sample": False, **search}
        whole = theirs(made, pixels, None, settings)
        assert trimmed(gf.generate(model, pixel_values=pixels, **settings), model) == trimmed(whole, model)
        if sample.model_type != "blip":  # there transformers takes no other end
            settings["eos_token_id"] = end = int(whole[0, min(3, whole.shape[1] - 1)])
            expected = trimmed(theirs(made, pixels, None, settings), model, end)
            assert trimmed(gf.generate(model, pixel_values=pixels, **settings), model, end) == expected


@every_captioner
def test_prompts(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """In a ragged batch each goes on as transformers continues it alone, with padding on either side."""
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    pixels, ids, keep = (made.call[name] for name in ("pixel_values", "decoder_input_ids", "decoder_attention_mask"))
    ids, keep = ids[:, :6], keep[:, :6].clone()
    keep[1, 4:] = keep[2, 2:] = 0
    left_ids, left_keep = to_left(ids, keep)
    for search in SEARCHES.values():
        settings = {"max_new_tokens": NEW, "do_sample": False, **search}
        right = gf.generate(model, ids, pixel_values=pixels, attention_mask=keep, **settings)
        left = gf.generate(model, left_ids, pixel_values=pixels, attention_mask=left_keep, **settings)
        assert torch.equal(right[:, :6], ids)
        assert torch.equal(right[:, 6:], left[:, 6:])
        for row in range(len(ids)):
            prompt = ids[row : row + 1, : int(keep[row].sum())]
            alone = theirs(made, pixels[row : row + 1], prompt, settings)[:, prompt.shape[1] :]
            assert trimmed(right[row : row + 1, 6:], model) == trimmed(alone, model)


@every_captioner
def test_max_length_counts_the_prompt_and_not_the_picture(
    sample: Sample, checkpoint: Checkpoints, loaded: Loaded
) -> None:
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    pixels, ids = (made.call[name] for name in ("pixel_values", "decoder_input_ids"))
    settings = {"max_length": 11, "min_length": 8, "do_sample": False, "num_beams": 1}
    ours = gf.generate(model, ids[:, :5], pixel_values=pixels, **settings)
    assert trimmed(ours, model) == trimmed(theirs(made, pixels, ids[:, :5], settings), model)
    assert ours.shape[1] <= 11


@every_captioner
def test_the_loss_is_that_of_transformers(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """Ours stands where its logit stands; GIT and BLIP move the labels themselves."""
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    labels = made.call["decoder_input_ids"].masked_fill(made.call["decoder_attention_mask"] == 0, -100)
    moves = sample.model_type in ("git", "blip")
    with torch.no_grad():
        expected = made.model(**made.inputs, labels=labels).loss
        moved = torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), -100)], dim=1) if moves else labels
        ours = model(**made.call, labels=moved).loss
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def theirs(made: Checkpoint, pixels: Tensor, prompt: Tensor | None, settings: dict[str, Any]) -> Tensor:
    if prompt is None:
        return made.model.generate(pixel_values=pixels, **settings)
    if made.sample.model_type == "vision-encoder-decoder":
        return made.model.generate(pixel_values=pixels, decoder_input_ids=prompt, **settings)
    if made.sample.model_type == "blip":  # it takes what a tokenizer made, and drops the separator at the end
        prompt = torch.cat([prompt, torch.full_like(prompt[:, :1], 2)], dim=1)
    return made.model.generate(pixel_values=pixels, input_ids=prompt, **settings)


def trimmed(rows: Tensor, model: gf.Transformer, end: int | None = None) -> list[list[int]]:
    """Each text up to its end: with beams and a padding id of 0, transformers fills up with the end token."""
    ends = set(model.config.eos_token_ids) if end is None else {end}
    texts = []
    for row in rows.tolist():
        last = next((place for place, token in enumerate(row) if place and token in ends), len(row) - 1)
        texts.append(row[: last + 1])
    return texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": {"model_type": "donut-swin"}}, "encoder: model_type is 'donut-swin', and as the encoder"),
        ({"decoder": {"model_type": "mbart"}}, "decoder: model_type is 'mbart', and as the decoder"),
        ({"decoder": {"add_cross_attention": False}}, "decoder: add_cross_attention is not true"),
        ({"decoder": {"cross_attention_hidden_size": 7}}, "cross_attention_hidden_size is 7, and a 'gpt2' decoder"),
        ({"decoder": {"scale_attn_by_inverse_layer_idx": True}}, "decoder: scale_attn_by_inverse_layer_idx is True"),
        ({"encoder": {"frames": 7}}, "encoder: nobody knows the key 'frames'"),
        ({"model_type": "blip-2"}, "model_type is 'blip-2', which cannot be run here: learned queries"),
        ({"model_type": "blip", "architectures": ["BlipForQuestionAnswering"]}, "a second text model reads its"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    values = next(s.config for s in SAMPLES if str(s) == "vision-encoder-decoder-gpt2")
    values = {"model_type": "vision-encoder-decoder", "architectures": ["VisionEncoderDecoderModel"], **values}
    for key, value in change.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    with pytest.raises(InputError, match=message):
        layout_of(values, name="config.json")


def test_videos_are_refused_by_name() -> None:
    values = next(s.config for s in SAMPLES if str(s) == "git-plain")
    values = {"model_type": "git", "architectures": ["GitForCausalLM"], **values, "num_image_with_embedding": 6}
    with pytest.raises(InputError, match="num_image_with_embedding is 6"):
        layout_of(values, name="config.json")


@pytest.mark.parametrize(
    "name", ["vision-encoder-decoder-gpt2", "vision-encoder-decoder-trocr", "blip-plain", "git-plain"]
)
def test_no_value_of_any_key_gives_another_error(name: str, checkpoint: Checkpoints) -> None:
    """Neither of the whole nor of a part."""
    sample = next(sample for sample in SAMPLES if str(sample) == name)
    whole = json.loads((checkpoint(sample, "language").path / "config.json").read_text())
    for place in (None, *(key for key, value in whole.items() if isinstance(value, dict))):
        values = whole if place is None else whole[place]
        for key in values:
            for value in ("abc", -3, 0, 1.5, True, None, [], [1], [[1]], {}, {"a": 1}, float("nan")):
                changed = {**values, key: value}
                with suppress(InputError):
                    layout_of(changed if place is None else {**whole, place: changed}, {}, name="config.json")
