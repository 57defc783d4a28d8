"""CLIP, both sides together: the same vectors, logits and loss as transformers, and files that it loads again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from helpers.reference import randomise
from helpers.samples import CONFIGS
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassformer as gf
from glassformer.errors import InputError
from glassformer.families import PAIR_FAMILIES

SIZES = {"plain": ("plain", "plain"), "ends_pad": ("ends_pad", "grey"), "old_end": ("old_end", "eps")}
IDS = {"bos_token_id": 1, "eos_token_id": 5, "pad_token_id": 3}


def made(name: str, path: Path) -> Any:
    """One of the samples, saved by transformers."""
    text, image = SIZES[name]
    torch.manual_seed(len(name))
    config = transformers.CLIPConfig(
        text_config=IDS | CONFIGS["clip_text_model"][text],
        vision_config=CONFIGS["clip_vision_model"][image],
        projection_dim=11,
        logit_scale_init_value=1.3,
    )
    model = transformers.CLIPModel(config)
    randomise(model)
    model.save_pretrained(path)
    return transformers.CLIPModel.from_pretrained(path, attn_implementation="eager").eval()


def inputs_of(model: Any) -> dict[str, Tensor]:
    """Three texts of different lengths, two images."""
    generator = torch.Generator().manual_seed(3)
    text, image = model.config.text_config, model.config.vision_config
    keep = (torch.arange(13) < torch.tensor([13, 9, 6])[:, None]).long()
    ids = torch.randint(10, 78, keep.shape, generator=generator)
    ids[torch.arange(3), keep.sum(1) - 1] = text.eos_token_id if text.eos_token_id != 2 else 79
    pixels = torch.randn(2, image.num_channels, *[image.image_size] * 2, generator=generator)
    return {
        "input_ids": ids.masked_fill(keep == 0, text.pad_token_id), "attention_mask": keep, "pixel_values": pixels
    }  # fmt: skip


def called(model: Any, inputs: dict[str, Tensor], **more: Any) -> Any:
    with torch.no_grad():
        return model(**inputs, **more)


def test_the_registry_names_what_is_tried_here() -> None:
    assert {kind: family.architecture for kind, family in PAIR_FAMILIES.items()} == {"clip": "CLIPModel"}


@pytest.mark.parametrize("name", SIZES)
def test_outputs_and_round_trip(name: str, tmp_path: Path) -> None:
    theirs = made(name, tmp_path / "theirs")
    inputs = inputs_of(theirs)
    ours = gf.load(tmp_path / "theirs")
    assert isinstance(ours, gf.Pair)
    expected, found = called(theirs, inputs), called(ours, inputs)
    for field in ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds"):
        torch.testing.assert_close(getattr(found, field), expected[field], rtol=1e-4, atol=1e-5)
    two = {key: value[:2] for key, value in inputs.items()}
    torch.testing.assert_close(called(ours, two, return_loss=True).loss, called(theirs, two, return_loss=True).loss)

    gf.save(ours, tmp_path / "again")

    assert (
        load_file(tmp_path / "again/model.safetensors").keys()
        == load_file(tmp_path / "theirs/model.safetensors").keys()
    )
    again, report = transformers.CLIPModel.from_pretrained(
        tmp_path / "again", attn_implementation="eager", output_loading_info=True
    )
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    before, after = (
        transformers.AutoConfig.from_pretrained(tmp_path / folder).to_dict() for folder in ("theirs", "again")
    )
    assert {**before, "_name_or_path": ""} == {**after, "_name_or_path": ""}
    assert torch.equal(called(again.eval(), inputs).logits_per_image, expected.logits_per_image)


@pytest.mark.parametrize(
    ("side", "architecture"), [("text", "CLIPTextModelWithProjection"), ("image", "CLIPVisionModelWithProjection")]
)
def test_a_side_is_a_model_of_its_own(side: str, architecture: str, tmp_path: Path) -> None:
    theirs = made("plain", tmp_path / "pair")
    inputs = inputs_of(theirs)
    pair = gf.load(tmp_path / "pair")
    gf.save(getattr(pair, side), tmp_path / "side")
    alone = getattr(transformers, architecture).from_pretrained(tmp_path / "side").eval()
    names = ("input_ids", "attention_mask") if side == "text" else ("pixel_values",)
    given = {name: inputs[name] for name in names}
    vectors = called(alone, given)[f"{side}_embeds"]
    torch.testing.assert_close(called(gf.load(tmp_path / "side"), given).pooled, vectors, rtol=1e-4, atol=1e-5)


def test_a_pair_made_here_is_saved_as_clip(tmp_path: Path) -> None:
    pair = small_pair()
    gf.save(pair, tmp_path)
    theirs, report = transformers.CLIPModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids, pixels = torch.tensor([[1, 6, 7, 2], [1, 8, 2, 0]]), torch.randn(2, 3, 8, 8)
    given = {"input_ids": ids, "attention_mask": (ids > 0).long(), "pixel_values": pixels}
    torch.testing.assert_close(
        called(pair, given).logits_per_image, called(theirs.eval(), given).logits_per_image, rtol=1e-4, atol=1e-5
    )
    again = gf.load(tmp_path)
    assert again.config.text == pair.config.text
    assert torch.equal(called(again, given).logits_per_image, called(pair, given).logits_per_image)
    assert "zero-shot-image-classification" in (tmp_path / "README.md").read_text()


def small_pair(**text: Any) -> gf.Pair:
    torch.manual_seed(0)
    stack = gf.StackConfig(
        d_model=16, num_layers=2, num_heads=2, d_ff=24, max_len=12, positions="learned", activation="quick_gelu"
    )
    shared = {"head": "pool", "pooled_dim": 10, "head_bias": False}
    return gf.Pair(
        gf.PairConfig(
            text=gf.TransformerConfig(
                decoder=stack.replace(**text), vocab_size=20, pooling="highest_id", eos_token_id=2, bos_token_id=1,
                pad_token_id=0, **shared,
            ),
            image=gf.TransformerConfig(
                encoder=stack.replace(final_norm=False), pooling="first", head_norm=True,
                image=gf.ImageConfig(size=8, patch=4, patch_bias=False, embed_norm=True), **shared,
            ),
        )
    ).eval()  # fmt: skip


@pytest.mark.parametrize("name", ["plain", "old_end"])
def test_verify_and_convert_take_a_pair(name: str, tmp_path: Path) -> None:
    made(name, tmp_path / "theirs")
    done = gf.convert(tmp_path / "theirs", tmp_path / "half", dtype="bfloat16")
    assert (done.model_type, done.head, done.dtype) == ("clip", "pair", "bfloat16")
    for folder in ("theirs", "half"):
        certificate = gf.verify(tmp_path / folder)
        assert certificate.passed, certificate
        verdicts = {check.name: check.verdict for check in certificate.checks}
        assert verdicts["transformers"] == verdicts["save -> load"] == verdicts["cut = whole"] == "passed"
    assert verdicts["golden values"] == "passed"


def test_a_side_and_its_projection_are_verified(tmp_path: Path) -> None:
    made("plain", tmp_path / "pair")
    pair = gf.load(tmp_path / "pair")
    for side in (pair.text, pair.image):
        gf.save(side, tmp_path / "side")
        verdicts = {check.name: check.verdict for check in gf.verify(tmp_path / "side").checks}
        assert verdicts["transformers"] == "passed"
        assert "differs" not in verdicts.values()


def test_older_files_are_read(tmp_path: Path) -> None:
    """Sides configured twice, positions stored as weights, and a text side under its prefix."""
    theirs = made("plain", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    old = {
        **config,
        "text_config_dict": config["text_config"],
        "text_config": {"vocab_size": 7},
        "vision_config_dict": None,
    }
    (tmp_path / "config.json").write_text(json.dumps(old))
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["text_model.embeddings.position_ids"] = torch.arange(24)[None]
    tensors["vision_model.embeddings.position_ids"] = torch.arange(10)[None]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    inputs = inputs_of(theirs)
    expected = called(theirs, inputs).logits_per_image
    torch.testing.assert_close(called(gf.load(tmp_path), inputs).logits_per_image, expected, rtol=1e-4, atol=1e-5)

    text = {**config["text_config"], "architectures": ["CLIPTextModel"]}
    (tmp_path / "config.json").write_text(json.dumps(text))
    side = {name: value for name, value in tensors.items() if name.startswith("text_model.")}
    save_file(side, tmp_path / "model.safetensors", metadata={"format": "pt"})
    given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    expected = called(theirs.text_model, given).pooler_output
    torch.testing.assert_close(called(gf.load(tmp_path), given).pooled, expected, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    made("plain", tmp_path)
    with pytest.raises(InputError, match=r"num_classes does not work with a pair of models"):
        gf.load(tmp_path, num_classes=3)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["logit_scale"]
    save_file({**tensors, "more": torch.zeros(2)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"(?s)missing +logit_scale.*unexpected +more"):
        gf.load(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "vision_config": {**config["vision_config"], "new": 1}})
    )
    with pytest.raises(InputError, match="vision_config: unknown key 'new'"):
        gf.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "siglip"}))
    with pytest.raises(InputError, match="'siglip', which is not supported: its text model is not causal"):
        gf.load(tmp_path)


def test_a_pair_that_clip_does_not_express_is_refused_by_the_field(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a pair is saved as CLIP, which cannot express its text model: .*sinusoidal"):
        gf.save(small_pair(positions="sinusoidal"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_both_sides_must_meet_in_one_space() -> None:
    config = small_pair().config
    with pytest.raises(InputError, match=r"vectors of width 10 and PairConfig.image of width 16: set pooled_dim"):
        config.replace(image=config.image.replace(pooled_dim=None))
    with pytest.raises(InputError, match=r"PairConfig.text.head is 'none': expected 'pool'"):
        config.replace(text=config.text.replace(head="none", pooled_dim=None))
    with pytest.raises(InputError, match="does not read images"):
        config.replace(image=config.text)
    pair = small_pair()
    with pytest.raises(InputError, match="give input_ids, pixel_values or both"):
        pair()
    with pytest.raises(InputError, match="as many texts as images"):
        pair(torch.tensor([[1, 6, 2]]), pixel_values=torch.zeros(2, 3, 8, 8), return_loss=True)
