"""Models made here open in transformers: saved as the most similar family, with the same tensors and outputs.

Each config is one that a user might write; both transformers and Glassformer open the saved folder.
"""

import re
from inspect import signature
from pathlib import Path

import pytest
import torch
import transformers
from helpers.export_configs import (
    BERT,
    EXPORTED,
    GPT2,
    LLAMA,
    MASKED,
    MODERN,
    NEAR,
    forecast,
    made,
    picture,
    stack,
    text,
)
from safetensors import safe_open
from torch import Tensor, nn

import glassformer as gf
from glassformer.checkpoints.choose_layout import layout_for
from glassformer.checkpoints.example import make_example


def names_and_shapes(file: Path) -> dict[str, list[int]]:
    with safe_open(file, "pt") as tensors:
        return {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118


@torch.no_grad()
def answer(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    words = signature(model.forward).parameters
    theirs = inputs if "decoder_input_ids" in words else {n.removeprefix("decoder_"): x for n, x in inputs.items()}
    output = model(**theirs)
    logits: Tensor = getattr(output, "prediction_outputs", None)
    logits = output.logits if logits is None else logits
    keep = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    return logits[:, -keep.shape[1] :][keep.bool()] if keep is not None and logits.ndim == 3 else logits


@pytest.mark.parametrize("name", EXPORTED)
def test_transformers_opens_what_was_made_here(name: str, tmp_path: Path) -> None:
    model, architecture = made(EXPORTED[name]), name.partition(" ")[0]
    gf.save(model, tmp_path / "ours")

    theirs, report = getattr(transformers, architecture).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    inputs = make_example(model.config)
    torch.testing.assert_close(answer(theirs.eval(), inputs), answer(model, inputs), atol=1e-5, rtol=1e-5)
    theirs.save_pretrained(tmp_path / "theirs")
    stored = names_and_shapes(tmp_path / "theirs" / "model.safetensors")
    assert names_and_shapes(tmp_path / "ours" / "model.safetensors") == stored


@pytest.mark.parametrize("name", [name for name in EXPORTED if not name.startswith("Marian")])
def test_what_was_made_here_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = made(EXPORTED[name])
    gf.save(model, tmp_path)
    again = gf.load(tmp_path)
    assert dict(again.named_parameters()).keys() == dict(model.named_parameters()).keys()
    for parameter, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(parameter, other)
    inputs = make_example(model.config)
    assert torch.equal(answer(again, inputs), answer(model, inputs))
    gf.save(again, tmp_path / "again")
    assert layout_for(again).family is layout_for(model).family


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (text(decoder=stack(LLAMA, gated=False)), "decoder.gated is False, where a llama model has True"),
        (text(decoder=stack(LLAMA, layer_kinds=(NEAR,))), r"decoder.layer_kinds is \[.*6.*\], where a llama model has"),
        (text(decoder=stack(LLAMA, out_bias=True)), "decoder.out_bias is True, where a llama model has False"),
        (
            text(decoder=stack(GPT2, positions="alibi")),
            "decoder.positions is 'alibi', where a gpt2 model has 'learned'",
        ),
        (text(encoder=stack(BERT), **MASKED), "num_segments is 0, where a bert model has 1"),
        (
            text(encoder=stack(MODERN, first_norm=True), **MASKED),
            "encoder.first_norm is True, where a modernbert model has False",
        ),
        (picture(12, 4, 3, pooling="mean"), "pooling is 'mean', where a vit model has 'first'"),
        (forecast(channels=None), "series.channels is None, where a patchtst model has 1"),
        (forecast({"final_norm": True}), "encoder.final_norm is True, where a patchtst model has False"),
        (forecast(patch=30), "patch_length is 30: expected less than context_length = 30"),
    ],
)
def test_what_a_family_cannot_express_is_named(config: gf.TransformerConfig, reason: str, tmp_path: Path) -> None:
    model = made(config)
    layout = layout_for(model)
    assert layout.family is None
    assert re.search(reason, layout.reason), layout.reason
    gf.save(model, tmp_path)
    assert gf.load(tmp_path).config == config
