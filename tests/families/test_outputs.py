"""Every family, head and sample has the same outputs as transformers, layer by layer."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.reference import Checkpoint, to_left
from helpers.samples import (
    ARCHITECTURES,
    CAPTIONERS,
    DECODERS,
    POOLED_DECODERS,
    SAMPLES,
    SEQ2SEQ,
    SERIES,
    VISION,
    Sample,
)
from torch import Tensor
from torch.nn import functional

import glassformer as gf
from glassformer.families import FAMILIES

Checkpoints = Callable[[Sample, str], Checkpoint]
Loaded = Callable[[Sample, str], gf.Transformer]

CASES = [
    pytest.param(sample, kind, id=f"{sample}-{kind}")
    for sample in SAMPLES
    if sample.model_type in FAMILIES
    for kind in FAMILIES[sample.model_type].heads
]
# Our fields and their names in transformers; each head has some of them.
FIELDS = {
    "logits": "logits",
    "prediction_outputs": "logits",
    "last_hidden_state": "last_hidden_state",
    "encoder_last_hidden_state": "encoder_last_hidden_state",
    "pooler_output": "pooled",
    "text_embeds": "pooled",
    "image_embeds": "pooled",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}


@pytest.mark.parametrize("model_type", sorted(FAMILIES | ARCHITECTURES))
def test_the_registry_and_the_samples_name_the_same_families_and_heads(model_type: str) -> None:
    samples = [sample for sample in SAMPLES if sample.model_type == model_type]
    heads = {kind: head.architecture for kind, head in FAMILIES[model_type].heads.items()}
    assert heads == ARCHITECTURES[model_type]
    assert len(samples) >= 3, "a family needs at least three sample configs: add some to tests/helpers/samples.py"
    assert len({str(sample.config) for sample in samples}) == len(samples)


@pytest.mark.parametrize(("sample", "kind"), CASES)
def test_outputs(sample: Sample, kind: str, checkpoint: Checkpoints, loaded: Loaded) -> None:
    made = checkpoint(sample, kind)
    ours = called(loaded(sample, kind), made.call)
    fields = {theirs: mine for theirs, mine in FIELDS.items() if made.output.get(theirs) is not None}
    assert fields, "transformers returned nothing to compare"
    for theirs, mine in fields.items():
        expected = made.output[theirs]
        assert_close(mine, getattr(ours, mine), expected, kept(expected, made.call, theirs))


@pytest.mark.parametrize(("sample", "kind"), CASES)
def test_hidden_states(sample: Sample, kind: str, checkpoint: Checkpoints, loaded: Loaded) -> None:
    """The input of the first block and the output of each block; the last one after the final norm."""
    made, model = checkpoint(sample, kind), loaded(sample, kind)
    seen: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}
    hooks = [
        block.register_forward_hook(remember(seen[stack]))
        for stack in seen
        if getattr(model, stack) is not None
        for block in getattr(model, stack).blocks
    ]
    ours = called(model, made.call)
    for hook in hooks:
        hook.remove()
    single = "decoder" if sample.model_type in (*DECODERS, *POOLED_DECODERS) else "encoder"
    for stack, states in seen.items():
        expected = made.output.get(f"{stack}_hidden_states")
        if expected is None and stack == single:
            expected = made.output.hidden_states
        if expected is None:
            assert not states, f"we ran a {stack}, transformers did not"
            continue
        is_vision = sample.model_type in VISION or (sample.model_type in CAPTIONERS and stack == "encoder")
        has_prefix = stack == "decoder" and model.config.prefix
        if not is_vision and sample.model_type not in POOLED_DECODERS and not has_prefix:
            # With a prefix, the last state includes its rows; in the other families it precedes the final norm.
            last = ours.encoder_last_hidden_state if stack == "encoder" else None
            states[-1] = ours.last_hidden_state if last is None else last
        if sample.model_type in SERIES:  # the last state is not a hidden state
            states.pop()
        assert len(states) == len(expected)
        of_target = stack == "decoder" and sample.model_type in (*SEQ2SEQ, *CAPTIONERS)
        mask = made.call.get("decoder_attention_mask" if of_target else "attention_mask")
        if has_prefix and mask is not None:
            mask = functional.pad(mask, (expected[0].shape[1] - mask.shape[1], 0), value=1)
        for layer, (state, reference) in enumerate(zip(states, expected, strict=True)):
            assert_close(f"{stack} after {layer} blocks", state, reference, mask)


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.model_type in DECODERS and s.model_type in FAMILIES], ids=str
)
def test_padding_on_either_side_is_the_same(sample: Sample, checkpoint: Checkpoints, loaded: Loaded) -> None:
    inputs, model = checkpoint(sample, "language").inputs, loaded(sample, "language")
    right = called(model, inputs).logits
    ids, keep = to_left(inputs["input_ids"], inputs["attention_mask"])
    left = called(model, {"input_ids": ids, "attention_mask": keep}).logits
    assert_close("logits", left[keep.bool()], right[inputs["attention_mask"].bool()])


@pytest.mark.parametrize(
    ("sample", "kind"),
    [case for case in CASES if case.values[0].model_type in SEQ2SEQ and case.values[1] in ("class", "span")],
)
def test_answers_about_a_source_need_no_target(
    sample: Sample, kind: str, checkpoint: Checkpoints, loaded: Loaded
) -> None:
    """The decoder then reads the source itself, shifted right by one."""
    made = checkpoint(sample, kind)
    inputs = {name: made.inputs[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        expected = made.model(**inputs)
    ours = called(loaded(sample, kind), inputs)
    for name in ("logits",) if kind == "class" else ("start_logits", "end_logits"):
        assert_close(name, getattr(ours, name), expected[name], kept(expected[name], inputs, name))


def called(model: gf.Transformer, inputs: dict[str, Tensor]) -> Any:
    with torch.no_grad():
        return model(**inputs)


def remember(states: list[Tensor]) -> Callable[..., None]:
    def hook(block: torch.nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        states.extend([output] if states else [args[0], output])

    return hook


def kept(output: Tensor, inputs: dict[str, Tensor], name: str) -> Tensor | None:
    """The mask of this output's positions, if it has one value per position."""
    target = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    mask = inputs.get("attention_mask") if name.startswith("encoder") else target
    return mask if mask is not None and output.shape[:2] == mask.shape else None


def assert_close(name: str, ours: Tensor | None, reference: Tensor, keep: Tensor | None = None) -> None:
    """Asserts a difference of at most 1e-5 of the largest value."""
    assert ours is not None, f"{name} is None"
    assert ours.shape == reference.shape, f"{name}: {tuple(ours.shape)}, expected {tuple(reference.shape)}"
    if keep is not None:
        ours, reference = ours[keep.bool()], reference[keep.bool()]
    apart, scale = (ours - reference).abs().max().item(), reference.abs().max().item()
    assert apart <= 1e-5 * scale, f"{name} differs by {apart:.1e}, values up to {scale:.1f}"
