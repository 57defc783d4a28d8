"""Generates the same tokens as transformers: greedy, sampled and beam search, alone and in ragged batches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.reference import Checkpoint, to_left
from helpers.samples import CONFIGS, GENERATES, NOT_GENERATED, SAMPLES, SEQ2SEQ, Sample
from torch import Tensor

import glassformer as gf
from glassformer.families import FAMILIES

Checkpoints = Callable[[Sample, str], Checkpoint]
Loaded = Callable[[Sample, str], gf.Transformer]

WRITERS = [
    sample
    for sample in SAMPLES
    if sample.model_type in GENERATES and sample.model_type in FAMILIES and str(sample) not in NOT_GENERATED
]
NEW = 10  # tokens to generate
SAMPLING = [
    {"temperature": 0.7},
    {"temperature": 1.3, "top_k": 7},
    {"temperature": 1.1, "top_k": 0, "top_p": 0.8},
    {"temperature": 1.5, "top_k": 20, "top_p": 0.6},
]
BEAMS = [
    {},
    {"length_penalty": 0.3, "early_stopping": True},
    {"length_penalty": 2.0, "early_stopping": "never"},
    {"length_penalty": -0.5},
]

every_writer = pytest.mark.parametrize("sample", WRITERS, ids=str)
# Greedy generation already covers the other differences between samples.
first_writers_soon = pytest.mark.parametrize(
    "sample",
    [
        pytest.param(sample, id=str(sample), marks=() if sample.name == first else pytest.mark.slow)
        for sample in WRITERS
        for first in [next(iter(CONFIGS[sample.model_type]))]
    ],
)


@every_writer
def test_greedy(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    for prompt in (alone(made), batch(made)):
        settings = {"max_new_tokens": NEW, "do_sample": False, "num_beams": 1}
        reference = theirs(made, prompt, settings)
        assert_same(gf.generate(model, **prompt, **settings), reference)
        settings["eos_token_id"] = early_end(made, reference)
        reference = theirs(made, prompt, settings)
        assert_same(gf.generate(model, **prompt, **settings), reference)


@first_writers_soon
def test_sampled(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """From the same seed. No row ends early: draws for a finished row need not agree."""
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    prompt = batch(made)
    for chosen in SAMPLING:
        settings = {"max_new_tokens": NEW, "do_sample": True, "num_beams": 1, **chosen}
        reference, settings = without_end(made, prompt, settings)
        torch.manual_seed(5)
        assert_same(gf.generate(model, **prompt, **settings), reference)


@first_writers_soon
def test_beams(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    for prompt in (alone(made), batch(made)):
        plain = {"max_new_tokens": NEW, "do_sample": False, "num_beams": 4}
        reference = theirs(made, prompt, plain)
        assert_same(gf.generate(model, **prompt, **plain), reference)
        for chosen in BEAMS:
            end = early_end(made, reference)
            settings = {**plain, "eos_token_id": end, **chosen}
            ours = gf.generate(model, **prompt, **settings)
            assert_same(
                ours, theirs(made, prompt, settings), pad=model.config.pad_token_id, end=end, start=first_new(made)
            )


def alone(made: Checkpoint) -> dict[str, Tensor]:
    """The longest row, which has no padding."""
    return {name: made.inputs[name][:1] for name in ("input_ids", "attention_mask")}


def batch(made: Checkpoint) -> dict[str, Tensor]:
    """Sources are padded on the right, prompts on the left, because transformers continues at their end."""
    ids, keep = made.inputs["input_ids"], made.inputs["attention_mask"]
    if made.sample.model_type not in SEQ2SEQ:
        ids, keep = to_left(ids, keep)
    return {"input_ids": ids, "attention_mask": keep}


def theirs(made: Checkpoint, prompt: dict[str, Tensor], settings: dict[str, Any]) -> Tensor:
    torch.manual_seed(5)
    config = made.model.config
    # transformers sizes the cache by T5's encoder: too few layers for a deeper decoder.
    deeper = made.sample.model_type in ("t5", "mt5") and config.num_decoder_layers > config.num_layers
    return made.model.generate(**prompt, **settings, use_cache=not deeper)


def early_end(made: Checkpoint, reference: Tensor) -> int:
    """A token that the first row generates early: as the end token, it ends this row before the others."""
    return int(reference[0, min(first_new(made) + 3, reference.shape[1] - 1)])


def first_new(made: Checkpoint) -> int:
    """The index of the first generated token."""
    return 1 if made.sample.model_type in SEQ2SEQ else made.sample.length


def without_end(made: Checkpoint, prompt: dict[str, Tensor], settings: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Settings with an end token that this sampling never draws."""
    for end in range(10, 70):
        reference = theirs(made, prompt, settings | {"eos_token_id": end})
        if not (reference[:, -NEW:] == end).any():
            return reference, settings | {"eos_token_id": end}
    raise AssertionError("every token was sampled")


def assert_same(
    ours: Tensor, reference: Tensor, *, pad: int | None = None, end: int | None = None, start: int = 0
) -> None:
    """In beam search with padding id 0, transformers pads with the end token: `pad` replaces it."""
    if pad == 0 and end is not None:
        ends = (reference == end) & (torch.arange(reference.shape[1]) >= start)
        ended = ends.cumsum(dim=1) - ends.int() > 0
        reference = reference.masked_fill(ended, pad)
    assert ours.tolist() == reference.tolist()
