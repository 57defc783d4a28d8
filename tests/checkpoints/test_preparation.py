"""An image model is saved with its image preparation, which transformers and Glassformer read alike."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from helpers.export_configs import GPT2, captioner, made, picture

import glassformer as gf
from glassformer.checkpoints.labels import name_classes
from glassformer.checkpoints.preparation import Preparation, read_preparation, write_preparation
from glassformer.errors import InputError
from glassformer.predict.images import read_pixels

GREY = Preparation(resize=(28, 28), resample=2, crop=None, scale=1 / 255, mean=(0.13,), deviation=(0.31,))
COLOUR = Preparation(
    resize=(12, 12), resample=3, crop=None, scale=1 / 255, mean=(0.4, 0.5, 0.6), deviation=(0.2, 0.3, 0.4)
)
CASES = {
    "grey": (picture(28, 7, 1), GREY),
    "colour": (picture(12, 4, 3), COLOUR),
    "cropped": (picture(12, 4, 3), Preparation(16, 2, (12, 12), 1 / 255, COLOUR.mean, COLOUR.deviation)),
    "as it is": (picture(12, 4, 3), Preparation(None, 2, None, 1 / 127.5, (1.0,) * 3, (1.0,) * 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_transformers_and_we_prepare_alike(name: str, tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image", reason="images are read with pillow")
    config, preparation = CASES[name]
    model = made(config)
    name_classes(model, ["a", "b", "c", "d", "e"])
    gf.save(model, tmp_path / "model", preparation=preparation)
    assert read_preparation(tmp_path / "model", config) == preparation

    size = (12, 12) if preparation.resize is None else (20, 20) if name == "cropped" else (40, 30)
    pixels = np.random.default_rng(0).integers(0, 255, (*size, 3)[: 3 if len(preparation.mean) == 3 else 2], np.uint8)
    image_module.fromarray(pixels).save(tmp_path / "image.png")
    processor = getattr(transformers, "ViTImageProcessorPil", transformers.ViTImageProcessor)
    with image_module.open(tmp_path / "image.png") as image:
        theirs = processor.from_pretrained(tmp_path / "model")(image, return_tensors="pt")["pixel_values"][0]
    ours = read_pixels(tmp_path / "image.png", preparation)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert gf.pipeline(tmp_path / "model")([str(tmp_path / "image.png")])[0].label in "abcde"


def test_a_preparation_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"makes images of size \(28, 28\), and the model reads \(12, 12\)"):
        write_preparation(GREY, tmp_path, picture(12, 4, 1))
    with pytest.raises(InputError, match="3 values for the mean: expected 1, one per channel"):
        write_preparation(COLOUR, tmp_path, picture(12, 4, 1))
    stack = gf.StackConfig(d_model=8, num_layers=1, num_heads=2)
    writer = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=9))
    with pytest.raises(InputError, match="is for images, and this model does not read images"):
        gf.save(writer, tmp_path / "text", preparation=GREY)
    assert not (tmp_path / "text").exists()


@pytest.mark.parametrize("size", [(41, 67), (30, 24), (24, 90), (24, 24)], ids=str)
@pytest.mark.parametrize("age", ["new", "old", "silent"])
def test_images_are_prepared_as_clip_prepares_them(age: str, size: tuple[int, int], tmp_path: Path) -> None:
    """The shorter side is resized, bicubic, and the centre is cropped; older files leave settings out."""
    image_module = pytest.importorskip("PIL.Image", reason="images are read with pillow")
    side = 224 if age == "silent" else 24
    config = gf.TransformerConfig(
        encoder=gf.StackConfig(d_model=8, num_layers=1, num_heads=2), image=gf.ImageConfig(size=side, patch=4),
        head="pool", pooled_dim=4,
    )  # fmt: skip
    processor = getattr(transformers, "CLIPImageProcessorPil", transformers.CLIPImageProcessor)
    made_by = processor(size={"shortest_edge": side}, crop_size={"height": side, "width": side})
    made_by.save_pretrained(tmp_path)
    if age == "old":
        old = {"feature_extractor_type": "CLIPFeatureExtractor", "size": side, "crop_size": side, "resample": 3}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(old))
    if age == "silent":
        (tmp_path / "preprocessor_config.json").write_text('{"image_processor_type": "CLIPImageProcessor"}')
    pixels = np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)
    image_module.fromarray(pixels).save(tmp_path / "image.png")
    with image_module.open(tmp_path / "image.png") as image:
        theirs = made_by(image, return_tensors="pt")["pixel_values"][0]

    preparation = read_preparation(tmp_path, config)
    ours = read_pixels(tmp_path / "image.png", preparation)

    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    (tmp_path / "again").mkdir()
    write_preparation(preparation, tmp_path / "again", config)
    with image_module.open(tmp_path / "image.png") as image:
        again = transformers.CLIPImageProcessor.from_pretrained(tmp_path / "again")(image, return_tensors="pt")
    torch.testing.assert_close(again["pixel_values"][0], theirs, atol=1e-5, rtol=1e-5)


SMALL = {"height": 12, "width": 12}
PROCESSORS: dict[str, dict[str, object]] = {
    "ViTImageProcessor": {"size": SMALL},
    "DeiTImageProcessor": {"size": {"height": 14, "width": 14}, "crop_size": SMALL},
    "BlipImageProcessor": {"size": SMALL},
    "CLIPImageProcessor": {"size": {"shortest_edge": 12}, "crop_size": SMALL},
}
PICTURES = {"wide": (40, 23, "RGB"), "tall": (17, 50, "RGB"), "small": (9, 12, "RGB"), "clear": (20, 30, "RGBA")}


@pytest.mark.parametrize("shape", PICTURES)
@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("saved", ["alone", "with a tokenizer", "old"])
def test_pixels_are_those_of_the_processors_of_captioners(name: str, shape: str, saved: str, tmp_path: Path) -> None:
    """The processors of ViT, DeiT, BLIP and CLIP, which GIT uses; saved in today's format and in the old one."""
    image_module = pytest.importorskip("PIL.Image", reason="images are read with pillow")
    width, height, mode = PICTURES[shape]
    pixels = np.random.default_rng(1).integers(0, 255, (height, width, len(mode)), np.uint8)
    image_module.fromarray(pixels, mode).save(tmp_path / "image.png")
    processor = getattr(transformers, f"{name}Pil")(**PROCESSORS[name])
    with image_module.open(tmp_path / "image.png") as image:
        theirs = processor(image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
    processor.save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    values = json.loads(file.read_text())
    if saved == "with a tokenizer":
        (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": values}))
        file.unlink()
    if saved == "old":
        old = {key: value for key, value in values.items() if key not in ("do_rescale", "rescale_factor")}
        for key in ("size", "crop_size"):
            sides = set(values.get(key, {}).values())
            old |= {key: sides.pop()} if len(sides) == 1 else {}
        file.write_text(json.dumps(old))
    prepared = read_preparation(tmp_path, captioner(GPT2))
    torch.testing.assert_close(read_pixels(tmp_path / "image.png", prepared), theirs, atol=1e-6, rtol=1e-6)
