"""transformers loads what is saved here as the same model: same files, same tensors, bit-identical logits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from helpers.reference import Checkpoint
from helpers.samples import SAMPLES, Sample
from safetensors import safe_open

import glassformer as gf
from glassformer.families import FAMILIES

CASES = [
    pytest.param(sample, kind, id=f"{sample}-{kind}")
    for sample in SAMPLES
    if sample.model_type in FAMILIES
    for kind in FAMILIES[sample.model_type].heads
]
# Neither describes the model.
BOOKKEEPING = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "output_hidden_states"}


@pytest.mark.parametrize(("sample", "kind"), CASES)
def test_round_trip(
    sample: Sample,
    kind: str,
    checkpoint: Callable[[Sample, str], Checkpoint],
    loaded: Callable[[Sample, str], gf.Transformer],
    tmp_path: Path,
) -> None:
    made = checkpoint(sample, kind)
    gf.save(loaded(sample, kind), tmp_path)

    assert tensors(tmp_path) == tensors(made.path)
    assert settings(tmp_path) == settings(made.path)

    model_class = getattr(transformers, made.architecture)
    again, report = model_class.from_pretrained(tmp_path, attn_implementation="eager", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    output = replace(made, path=tmp_path).output
    for name in (
        "logits",
        "prediction_outputs",
        "last_hidden_state",
        "encoder_last_hidden_state",
        "pooler_output",
        "text_embeds",
        "image_embeds",
    ):
        if made.output.get(name) is not None:
            assert torch.equal(output[name].view_as(made.output[name]), made.output[name]), name
    if made.output.get("start_logits") is not None:
        assert torch.equal(output["start_logits"], made.output["start_logits"])
    if again.can_generate():
        assert generation(tmp_path) == generation(made.path)


def tensors(path: Path) -> dict[str, list[int]]:
    with safe_open(path / "model.safetensors", "pt") as file:
        return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118


def settings(path: Path) -> dict[str, Any]:
    config = transformers.AutoConfig.from_pretrained(path).to_dict()
    return {key: value for key, value in config.items() if key not in BOOKKEEPING}


def generation(path: Path) -> dict[str, Any]:
    config = transformers.GenerationConfig.from_pretrained(path).to_dict()
    return {key: value for key, value in config.items() if key not in BOOKKEEPING | {"_from_model_config"}}
