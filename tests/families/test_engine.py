"""The engine, whose steps have fixed shapes, generates the same tokens as the plain path, for every family."""

from collections.abc import Callable

import pytest
import torch
from helpers.reference import Checkpoint, to_left
from helpers.samples import GENERATES, NOT_GENERATED, SAMPLES, Sample
from torch import Tensor

import glassformer as gf
from glassformer.families import FAMILIES
from glassformer.generation.engine import Engine

Checkpoints = Callable[[Sample, str], Checkpoint]
Loaded = Callable[[Sample, str], gf.Transformer]
WRITERS = [
    sample
    for sample in SAMPLES
    if sample.model_type in GENERATES and sample.model_type in FAMILIES and str(sample) not in NOT_GENERATED
]
WAYS = {
    "greedy": {"do_sample": False, "num_beams": 1},
    "sampled": {"do_sample": True, "num_beams": 1, "num_return_sequences": 2, "top_k": 7, "temperature": 1.3},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sample", WRITERS, ids=str)
def test_the_same_tokens(sample: Sample, way: str, checkpoint: Checkpoints, loaded: Loaded) -> None:
    made, model = checkpoint(sample, "language"), loaded(sample, "language")
    engine = Engine(model, backend="eager")
    for prompt in prompts(made):
        ours = [
            write(**prompt, **WAYS[way], max_new_tokens=10, generator=torch.Generator().manual_seed(3))
            for write in (lambda input_ids, **rest: gf.generate(model, input_ids, **rest), engine.generate)
        ]
        assert ours[0].tolist() == ours[1].tolist()


def prompts(made: Checkpoint) -> list[dict[str, Tensor]]:
    """Ragged batches, padded on the right and on the left."""
    right = made.inputs["input_ids"], made.inputs["attention_mask"]
    return [{"input_ids": ids, "attention_mask": keep} for ids, keep in (right, to_left(*right))]
