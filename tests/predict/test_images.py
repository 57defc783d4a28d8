"""Classifying images from files, a folder, and an idx file."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from helpers.command import lines, run
from helpers.head_checkpoints import (
    LABELS,
    SMALL,
)
from PIL import Image

import glassformer as gf
from glassformer.data.pixels import read_image
from glassformer.errors import InputError
from glassformer.figures.png import as_png


@torch.no_grad()
@pytest.mark.parametrize("name", ["ViT", "DeiT"])
def test_images(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        **SMALL, image_size=24, patch_size=8, id2label=LABELS, label2id={v: k for k, v in LABELS.items()}
    )
    model = getattr(transformers, f"{name}ForImageClassification")(config).eval()
    model.classifier.weight.normal_()
    model.save_pretrained(tmp_path)
    settings = {
        "image_processor_type": f"{name}ImageProcessor", "do_resize": True, "size": {"height": 24, "width": 24},
        "resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
        "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4],
    }  # fmt: skip
    if name == "DeiT":
        settings |= {"size": {"height": 30, "width": 30}, "do_center_crop": True, "resample": 3}
        settings["crop_size"] = {"height": 24, "width": 24}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
    colours = np.random.default_rng(0).integers(0, 255, (2, 5, 7, 3), dtype=np.uint8)
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for file, image in zip(files, colours, strict=True):
        Image.fromarray(image).resize((50, 40)).save(file)
    processor = getattr(transformers, f"{name}ImageProcessorPil", None) or getattr(
        transformers, f"{name}ImageProcessor"
    )
    images = [Image.open(file) for file in files]
    pixels = processor.from_pretrained(tmp_path)(images, return_tensors="pt")["pixel_values"]
    expected = model(pixels).logits.softmax(dim=1)
    assert run("predict", tmp_path, *files, "--json") == 0
    for row, scores in zip(lines(capsys), expected, strict=True):
        assert list(row["scores"].values()) == pytest.approx(scores.tolist(), abs=1e-4)
        assert row["label"] == LABELS[int(scores.argmax())]
    assert run("predict", tmp_path, tmp_path / "none.png") == 2
    assert "none.png: there is no such image file" in capsys.readouterr().err
    assert run("predict", tmp_path, tmp_path / "config.json") == 2
    assert "cannot be read as an image: expected a file such as .png or .jpg" in capsys.readouterr().err
    (tmp_path / "preprocessor_config.json").unlink()
    assert run("predict", tmp_path, *files) == 2
    assert "has no preprocessor_config.json" in capsys.readouterr().err


def test_images_of_a_folder_and_of_an_idx_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    model = tmp_path / "model"
    config = transformers.ViTConfig(**SMALL, image_size=24, patch_size=8, num_channels=1, id2label=LABELS)
    torch.manual_seed(0)
    transformers.ViTForImageClassification(config).save_pretrained(model)
    settings = {"size": {"height": 24, "width": 24}, "image_mean": [0.5], "image_std": [0.5]}
    (model / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
    pixels = np.random.default_rng(0).integers(0, 255, (3, 20, 20), dtype=np.uint8)
    (tmp_path / "images" / "deep").mkdir(parents=True)
    files = [tmp_path / "images" / name for name in ("a.png", "b.png", "deep/c.png")]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    (tmp_path / "images" / "Thumbs.db").touch()
    (tmp_path / "images" / "deep" / "._c.png").touch()  # macOS writes one next to each file on other disks
    assert run("predict", model, *files, "--json") == 0
    expected = lines(capsys)
    assert run("predict", model, "--file", tmp_path / "images", "--json") == 0
    assert lines(capsys) == expected
    header = (0x0803).to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in pixels.shape)
    idx = tmp_path / "t10k-images-idx3-ubyte"
    idx.write_bytes(header + pixels.tobytes())
    assert run("predict", model, "--file", idx, "--json") == 0
    rows = lines(capsys)
    assert [row["input"] for row in rows] == [f"{idx}[{i}]" for i in range(3)]
    assert [row["scores"] for row in rows] == [row["scores"] for row in expected]
    (tmp_path / "none").mkdir()
    assert run("predict", model, "--file", tmp_path / "none") == 2
    assert "has no images" in capsys.readouterr().err
    (tmp_path / "images" / "notes.txt").touch()
    assert run("predict", model, "--file", tmp_path / "images") == 2
    assert "has files that are not images" in (said := capsys.readouterr().err)
    assert "notes.txt. Move them elsewhere" in said


def test_what_training_refuses_of_an_image_so_does_prediction(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    """32-bit pixels and a truncated file are refused by name, not rounded or guessed."""
    deep, half = tmp_path / "deep.tif", tmp_path / "half.png"
    Image.fromarray(np.arange(64, dtype=np.int32).reshape(8, 8) * 1000).save(deep)
    half.write_bytes(as_png(np.zeros((8, 8), np.uint8))[:45])
    predict = gf.pipeline(folder_of("image"))
    for file, said in ((deep, "has 32 bits per pixel"), (half, "cannot be read as an image")):
        with pytest.raises(InputError, match=f"{file.name} {said}"):
            predict([str(file)])
        with pytest.raises(InputError, match=f"{file.name} {said}"):
            read_image(file, 8, "grey")
