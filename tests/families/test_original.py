"""An original Transformer trained here is saved in Marian's layout; transformers loads it with the same outputs."""

from pathlib import Path

import pytest
import torch
import transformers
from helpers.samples import ARCHITECTURES, SAMPLES, Sample

import glassformer as gf
from glassformer.checkpoints.choose_layout import layout_for
from glassformer.checkpoints.read_layout import layout_of
from glassformer.families import FAMILIES

STACK = gf.StackConfig(
    d_model=12, num_layers=2, num_heads=3, d_ff=20, max_len=32, norm_order="post", activation="relu", dropout=0.1
)
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
CHOICES = {
    "shared": {},
    "two vocabularies": {"target_vocab_size": 31},
    "two vocabularies, untied": {"target_vocab_size": 31, "tie_embeddings": False},
    "with a bias": {"head_bias": True},
    "unscaled, halves": {"scale_embeddings": False, "encoder": "halves", "decoder": "halves"},
    "different depths": {"decoder": STACK.replace(num_layers=3, d_ff=24, num_heads=2, activation="relu")},
}


def make(**choices: object) -> gf.Transformer:
    torch.manual_seed(0)
    for side in ("encoder", "decoder"):
        stack = choices.get(side, STACK)
        choices[side] = STACK.replace(sinusoids=stack) if isinstance(stack, str) else stack
    config = {"vocab_size": 37, "scale_embeddings": True, "init": "paper", **SPECIAL, **choices}
    model = gf.Transformer(gf.TransformerConfig(**config)).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("name", CHOICES)
def test_it_opens_in_transformers_and_here(name: str, tmp_path: Path) -> None:
    model = make(**CHOICES[name])
    gf.save(model, tmp_path / "run")
    ids, keep = torch.randint(3, 37, (2, 7)), torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    target = torch.randint(3, 31, (2, 5))
    with torch.no_grad():
        expected = model(ids, keep, decoder_input_ids=target)
        ours = gf.load(tmp_path / "run")(ids, keep, decoder_input_ids=target)
        opened = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run").eval()
        theirs = opened(input_ids=ids, attention_mask=keep, decoder_input_ids=target)
    assert isinstance(opened, transformers.MarianMTModel)
    assert expected.logits is not None
    torch.testing.assert_close(ours.logits, expected.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(theirs.logits, expected.logits, atol=1e-5, rtol=1e-5)
    written = gf.generate(model, ids, attention_mask=keep, max_new_tokens=8)
    assert torch.equal(opened.generate(ids, attention_mask=keep, max_new_tokens=8), written)


def test_a_saved_run_is_saved_again_as_it_is(tmp_path: Path) -> None:
    gf.save(make(), tmp_path / "once")
    gf.save(gf.load(tmp_path / "once"), tmp_path / "twice")
    for file in ("model.safetensors", "config.json", "generation_config.json"):
        assert (tmp_path / "once" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"encoder": STACK.replace(norm_order="pre")}, "encoder.norm_order is 'pre', where a marian model has 'post'"),
        ({"decoder": STACK.replace(gated=True)}, "decoder.gated is True"),
        ({"encoder": STACK.replace(head_dim=5), "decoder": STACK.replace(head_dim=5)}, "encoder.head_dim is 5"),
        ({"num_segments": 2}, "num_segments is 2"),
        ({"tie_embeddings": False}, "tie_embeddings is False"),
        ({"decoder": None}, "scale_embeddings is True, where a bert model has False"),
        ({"decoder": STACK.replace(sinusoids="halves")}, "encoder.sinusoids is 'interleaved', where a marian"),
    ],
)  # fmt: skip
def test_what_marian_cannot_express_is_ours_and_named(choices: dict[str, object], reason: str, tmp_path: Path) -> None:
    model = make(**choices)
    layout = layout_for(model)
    assert layout.family is None
    assert reason in layout.reason
    gf.save(model, tmp_path / "run")
    again = gf.load(tmp_path / "run")
    assert again.config == model.config
    for name, parameter in model.named_parameters():
        assert torch.equal(again.get_parameter(name), parameter)


DESCRIBED = [sample for sample in SAMPLES if FAMILIES[sample.model_type].describe is not None]


@pytest.mark.parametrize("sample", DESCRIBED, ids=str)
def test_a_config_of_a_family_made_anew_is_that_family(sample: Sample) -> None:
    """`describe` is the inverse of `config` for every head, except for rotary scaling and a decoder's windows."""
    for kind, architecture in ARCHITECTURES[sample.model_type].items():
        settings = {key: value for key, value in sample.config.items() if key != "num_labels" or kind != "span"}
        values = transformers.CONFIG_MAPPING[sample.model_type](**settings).to_dict()
        config = layout_of({**values, "architectures": [architecture]}, name="config.json").config
        with torch.device("meta"):
            layout = layout_for(gf.Transformer(config))
        kinds = config.decoder.layer_kinds if config.decoder else ()
        if any(kind.rotary_scaling or kind.window for kind in kinds):
            assert layout.reason.startswith("decoder.layer_kinds is")
        else:
            assert layout.values["model_type"] == sample.model_type, layout.reason
            assert layout.values["architectures"] == [architecture]
            assert layout.config == config
