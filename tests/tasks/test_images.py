"""Image classification: augmentation, normalisation, the parts of the data, and a run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from helpers.command import run
from PIL import Image, ImageOps
from scipy import ndimage
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.utils.class_weight import compute_class_weight

import glassformer as gf
from glassformer.errors import InputError
from glassformer.tasks.images import ImageClasses, affine, choose_patch
from glassformer.tasks.settings import ImagesSettings

SMALL = {"d_model": 16, "num_layers": 1, "num_heads": 2, "out": Path("unused")}
MOST = 2  # an eighth of 16 pixels


def made(**changes: Any) -> ImageClasses:
    return ImageClasses(ImagesSettings(**{**SMALL, **changes}))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bright red and dark blue images of 16x16 pixels, three reds per blue; four of each for the test."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for part, counts in {"train": {"red": 30, "blue": 10}, "test": {"red": 4, "blue": 4}}.items():
        for name, count in counts.items():
            (root / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 60, (16, 16, 3), dtype=np.uint8)
                pixels[..., 0 if name == "red" else 2] += 150
                Image.fromarray(pixels).save(root / part / name / f"{i:02}.png")
    return root


# --- augmentation -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    """An image whose pixels all differ, so that any shift shows."""
    return np.random.default_rng(1).permutation(256).astype(np.uint8).reshape(1, 16, 16)


def shifts(picture: np.ndarray) -> dict[bytes, tuple[int, int]]:
    """All images that SciPy makes from this one by a shift with its edges extended."""
    span = range(-MOST, MOST + 1)
    moved = {(y, x): ndimage.shift(picture, (0, y, x), order=0, mode="nearest") for y in span for x in span}
    return {pixels.tobytes(): shift for shift, pixels in moved.items()}


def test_a_shift_is_one_of_scipys_and_every_one_occurs(picture: np.ndarray, photos: Path) -> None:
    task, known = made(data=photos, augment="shift"), shifts(picture)
    found = [task.changed(picture, epoch, example) for epoch in range(3) for example in range(150)]
    assert {pixels.shape for pixels in found} == {picture.shape}
    assert {pixels.dtype for pixels in found} == {np.dtype(np.uint8)}
    assert {known[pixels.tobytes()] for pixels in found} == set(known.values())


def test_half_of_the_flipped_ones_are_pillows_mirror_image(picture: np.ndarray, photos: Path) -> None:
    task = made(data=photos, augment="flip")
    known = shifts(picture)
    mirrored = {
        np.asarray(ImageOps.mirror(Image.frombytes("L", (16, 16), pixels))).tobytes(): shift
        for pixels, shift in known.items()
    }
    found = [task.changed(picture, 0, example).tobytes() for example in range(400)]
    assert all((pixels in known) != (pixels in mirrored) for pixels in found)
    assert 0.4 < sum(pixels in mirrored for pixels in found) / len(found) < 0.6


def test_mirror_shifts_half_as_far_and_mirrors_half_of_the_images(picture: np.ndarray, photos: Path) -> None:
    task = made(data=photos, augment="mirror")
    near = {pixels: shift for pixels, shift in shifts(picture).items() if max(map(abs, shift)) <= MOST // 2}
    mirrored = {np.asarray(ImageOps.mirror(Image.frombytes("L", (16, 16), pixels))).tobytes() for pixels in near}
    found = [task.changed(picture, 0, example).tobytes() for example in range(400)]
    assert set(found) == {*near, *mirrored}
    assert 0.4 < sum(pixels in mirrored for pixels in found) / len(found) < 0.6


def test_erasing_replaces_one_rectangle_of_half_of_the_images_by_noise(photos: Path) -> None:
    task, plain = made(data=photos, erase=0.5), np.full((3, 30, 40), 7, dtype=np.uint8)
    found = [task.changed(plain, 0, example) for example in range(400)]
    assert (plain == 7).all(), "the image itself is not changed"
    assert 0.4 < np.mean([(pixels != 7).any() for pixels in found]) < 0.6
    for pixels in found:
        box = np.argwhere((pixels != 7).any(0))  # rows and columns of changed pixels
        if len(box):
            height, width = np.ptp(box, axis=0) + 1
            assert len(box) == height * width, "a whole rectangle"
            assert 0.01 < len(box) / 1200 < 0.4
    noise = np.concatenate([pixels[pixels != 7] for pixels in found])
    assert abs(noise.mean() - 127.5) < 2


def test_erasing_comes_after_the_shift_and_changes_no_other_draw(picture: np.ndarray, photos: Path) -> None:
    without, always = made(data=photos, augment="mirror"), made(data=photos, augment="mirror", erase=1.0)
    for example in range(50):
        shifted, both = without.changed(picture, 0, example), always.changed(picture, 0, example)
        assert 0.5 < (shifted == both).mean() < 1


@pytest.mark.parametrize(("angle", "sides", "shift"), [(0.15, (1.0, 1.0), (0, 0)), (-0.1, (0.92, 1.07), (0.05, -0.03))])
def test_an_affine_change_is_scipys(angle: float, sides: tuple[float, float], shift: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    smooth = ndimage.gaussian_filter(rng.uniform(0, 255, (20, 20)), 1.5)
    pixels = np.pad(((smooth - smooth.min()) / np.ptp(smooth) * 255).astype(np.uint8), 4)[None]
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])  # SciPy's axes are y, x
    matrix = turn @ np.diag([sides[1], sides[0]])
    middle = np.array([13.5, 13.5])
    offset = middle - matrix @ middle + 28 * np.array([shift[1], shift[0]])
    theirs = ndimage.affine_transform(pixels[0].astype(float), matrix, offset, order=1)
    ours = affine(pixels, angle, sides, shift)
    assert ours.dtype == np.uint8
    assert np.abs(ours[0] - theirs).max() <= 1, "but for rounding"
    assert np.abs(ours[0] - pixels[0].astype(float)).max() > 20, "it is another image"


def test_affine_changes_stay_small_and_differ(picture: np.ndarray, photos: Path) -> None:
    task = made(data=photos, augment="affine")
    dot = np.zeros((1, 32, 32), np.uint8)
    dot[0, 15:17, 15:17] = 255
    found = [task.changed(dot, 0, example)[0].astype(float) for example in range(60)]
    middles = np.array([ndimage.center_of_mass(image) for image in found])
    assert np.abs(middles - 15.5).max() < 32 / 16 + 0.6, "no further than a sixteenth of the side"
    assert middles.std(axis=0).min() > 0.5
    assert len({task.changed(picture, 0, example).tobytes() for example in range(30)}) == 30


@pytest.mark.parametrize("augment", ["flip", "affine"])
def test_a_change_is_a_function_of_seed_epoch_and_example(augment: str, picture: np.ndarray, photos: Path) -> None:
    def changes(seed: int, epoch: int, examples: range) -> list[bytes]:
        task = made(data=photos, augment=augment, seed=seed)
        return [task.changed(picture, epoch, example).tobytes() for example in examples]

    here = changes(0, 0, range(20))
    assert here == changes(0, 0, range(20))
    assert here[10:] == changes(0, 0, range(10, 20)), "not of what was changed before"
    assert here != changes(0, 1, range(20))
    assert here != changes(1, 0, range(20))
    assert len(set(here)) > 10


def test_a_batch_is_the_same_in_whichever_order_and_company(photos: Path) -> None:
    task = made(data=photos, augment="flip")
    pixels = task.collate([3, 11, 7], 2)["pixel_values"]
    assert torch.equal(task.collate([7, 3], 2)["pixel_values"], pixels[[2, 0]])
    assert not torch.equal(task.collate([3, 11, 7], 3)["pixel_values"], pixels)


def test_only_training_images_are_changed_and_only_when_told_to(photos: Path) -> None:
    plain, changed = made(data=photos), made(data=photos, augment="flip")
    expected = plain.as_input(plain.train.take([0, 5]))
    assert torch.equal(plain.collate([0, 5], 0)["pixel_values"], expected)
    assert not torch.equal(changed.collate([0, 5], 0)["pixel_values"], expected)
    changed.model.load_state_dict(plain.model.state_dict())
    for task in (plain, changed):
        task.model.eval()
    assert changed.validate() == plain.validate()
    assert changed.evaluate().metrics == plain.evaluate().metrics


# --- data -------------------------------------------------------------------------------------------------------------


def test_pixels_have_mean_0_and_deviation_1_and_transformers_prepares_them_alike(photos: Path, tmp_path: Path) -> None:
    task = made(data=photos)
    pixels = task.as_input(task.train.take(range(len(task.train))))
    assert pixels.dtype == torch.float32
    torch.testing.assert_close(pixels.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(pixels.std(dim=(0, 2, 3)), torch.ones(3), atol=2e-3, rtol=0)
    task.write_beside(tmp_path)
    processor = getattr(transformers, "ViTImageProcessorPil", None) or transformers.ViTImageProcessor
    images = [Image.open(file) for file in task.train.files[:3]]
    theirs = processor.from_pretrained(tmp_path)(images, return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(pixels[:3], theirs, atol=1e-5, rtol=1e-5)


def test_the_parts_of_a_folder(photos: Path) -> None:
    task = made(data=photos)
    assert (len(task.train), len(task.valid), len(task.test or ())) == (36, 4, 8)
    assert task.names == ("blue", "red")
    assert np.bincount(task.valid.labels).tolist() == [1, 3], "each class in its proportion"
    assert not set(task.train.files) & set(task.valid.files)
    assert task.judged is task.test
    other = made(data=photos / "train", valid=photos / "test", test=photos / "test", grey=True)
    assert (len(other.train), len(other.valid), len(other.test or ())) == (40, 8, 8)
    assert other.collate([0], 0)["pixel_values"].shape == (1, 1, 16, 16)
    assert other.model.config.image.channels == 1
    assert "40 images to train on, 8 held out, 8 to test, of 16x16 pixels, 2 classes" in other.describe()["data"]
    assert other.try_next(Path("runs/a"))[0][:3] == ["glassformer", "predict", "runs/a"]


def test_images_that_are_in_two_parts_are_said(photos: Path, tmp_path: Path) -> None:
    for part in ("train", "test"):
        shutil.copytree(photos / part, tmp_path / part)
    assert not made(data=tmp_path).shared
    copied = sorted((tmp_path / "train" / "red").iterdir())[:2]
    for file in copied:
        shutil.copy(file, tmp_path / "test" / "red" / f"copy of {file.name}")
    task = made(data=tmp_path)
    said = "2 of the 10 test images are also in the training images"
    assert said in task.describe()["images"]
    assert said in task.evaluate().notes


def test_a_mode_for_all_images(photos: Path) -> None:
    assert made(data=photos, mode="grey").model.config.image.channels == 1
    assert made(data=photos, mode="rgb").model.config.image.channels == 3
    with pytest.raises(InputError, match="--grey contradicts it"):
        made(data=photos, mode="rgb", grey=True)
    with pytest.raises(InputError, match="the built-in digits are grey"):
        made(mode="rgb")


def test_a_size_that_the_built_in_digits_do_not_have_is_refused() -> None:
    assert made(size=8).train.size == 8
    with pytest.raises(InputError, match="--size 20: the built-in digits are 8x8 pixels"):
        made(size=20)
    assert made(size=20, resume=True).train.size == 8, "a run that began with it goes on"


def test_balanced_weights_are_scikit_learns(photos: Path) -> None:
    task = made(data=photos, class_weights="balanced")
    expected = compute_class_weight("balanced", classes=np.arange(2), y=task.train.labels)
    assert task.class_weights is not None
    np.testing.assert_allclose(task.class_weights.numpy(), expected, rtol=1e-6)
    assert made(data=photos).class_weights is None


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_")  # some pixels are never used
def test_baselines_are_scikit_learns() -> None:
    """On the built-in digits, where it makes many errors."""
    task = made()
    assert task.test is not None
    known, asked = (x.take(range(len(x))).reshape(len(x), -1).astype(np.float64) for x in (task.train, task.test))
    found, _ = task.baselines(task.test)
    nearest = NearestCentroid().fit(known, task.train.labels).score(asked, task.test.labels)
    assert found["nearest mean image"]["accuracy"] == pytest.approx(nearest)
    majority = DummyClassifier().fit(known, task.train.labels).score(asked, task.test.labels)
    assert found["always the most frequent class"]["accuracy"] == pytest.approx(majority)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: {"data": root / "only"}, "has no training images, only those of test"),
        (
            lambda root: {"data": root / "train", "test": root / "odd"},
            "odd: unknown class 'green'",
        ),
    ],
    ids=["no training", "unknown class"],
)
def test_bad_data_is_named(
    change: Callable[[Path], dict[str, Path]], message: str, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "train").symlink_to(photos / "train")
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "test").symlink_to(photos / "test")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "green").symlink_to(photos / "test" / "red")
    with pytest.raises(InputError, match=message):
        made(**change(tmp_path))


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    flags = ["--steps=40", "--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-size=16", "--augment=flip"]
    assert run("train", "images", "--data", photos, "--out", out, "--warmup=5", *flags) == 0
    return out


def test_a_run_learns_and_transformers_answers_the_same(trained: Path, photos: Path) -> None:
    results = json.loads((trained / "run.json").read_text(encoding="utf-8"))["results"]
    assert results["accuracy"] == 1.0
    model = transformers.ViTForImageClassification.from_pretrained(trained, attn_implementation="eager").eval()
    task = made(init=str(trained), d_model=None, num_layers=None, num_heads=None, data=photos)
    task.model.eval()
    with torch.no_grad():
        theirs = model(pixel_values=task.as_input(task.valid.take(range(4)))).logits
    torch.testing.assert_close(task.judge(task.valid)[0], theirs, atol=1e-5, rtol=1e-5)
    assert model.config.id2label == {0: "blue", 1: "red"}


def test_a_stem_is_trained_saved_and_answers(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, photo = tmp_path / "run", photos / "test" / "red" / "00.png"
    sizes = ["--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-size=16", "--stem=1", "--pooling=mean"]
    assert run("train", "images", "--data", photos, "--out", out, "--warmup=5", "--steps=40", *sizes) == 0
    model = gf.load(out)
    assert model.config.image.stem == 1
    assert model.config.pooling == "mean"
    assert json.loads((out / "config.json").read_text(encoding="utf-8"))["model_type"] == "glassformer"
    capsys.readouterr()
    assert run("predict", out, photo) == 0
    assert "red" in capsys.readouterr().out
    for stem, message in (
        ("3", "--patch must be a multiple of 8, not"),
        ("-1", "--stem is -1: expected 0 or more"),
        ("99999", "no image"),
    ):
        assert run("train", "images", "--data", photos, "--out", tmp_path / "no", "--stem", stem) == 2
        assert message in capsys.readouterr().err


def test_positions_begin_as_sines_of_row_and_column(photos: Path) -> None:
    table = made(data=photos).model.encoder.embed.positions.weight[1:].unflatten(0, (4, 4))
    assert len(table.flatten(0, 1).unique(dim=0)) == 16
    assert torch.allclose(table[:, :1, :8], table[:, 1:, :8].mean(dim=1, keepdim=True))  # the row
    assert torch.allclose(table[:1, :, 8:], table[1:, :, 8:].mean(dim=0, keepdim=True))  # the column


def test_a_run_is_scored_on_other_images(trained: Path, photos: Path, tmp_path: Path) -> None:
    """With the model's classes in their order, even if the folder lacks one."""
    (tmp_path / "red").symlink_to(photos / "test" / "red")
    scores = gf.evaluate(trained, data=[tmp_path])
    assert scores.metrics["accuracy"] == 1.0
    assert (scores.count, scores.classes, scores.baselines) == (4, ["blue", "red"], {})
    with pytest.raises(InputError, match="2 folders or files to score: expected one"):
        gf.evaluate(trained, data=[tmp_path, photos])


def test_images_that_a_loaded_model_does_not_read(trained: Path, photos: Path) -> None:
    loaded = {"init": str(trained), "d_model": None, "num_layers": None, "num_heads": None, "data": photos}
    with pytest.raises(
        InputError, match=r"reads .*16x16 pixels and 3 channels, but these have 16x16 pixels and 1 channel\. C"
    ):
        made(**loaded, head="class", grey=True)
    with pytest.raises(InputError, match="--head span: images trains a model with head 'class'"):
        made(**loaded, head="span")


# --- files as people have them ----------------------------------------------------------------------------------------


def test_what_is_left_out_is_said_in_training_and_eval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("red", "blue"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(20):
            Image.new("RGB", (30 + i, 40), name).save(tmp_path / "photos" / name / f"{i:02}.png")
        for i in range(6):
            (tmp_path / "photos" / name / f"broken{i}.png").write_bytes(b"nothing")
    photos, out = tmp_path / "photos", tmp_path / "run"
    small = ["--steps=1", "--warmup=1", "--d-model=16", "--num-layers=1", "--num-heads=2"]
    assert run("train", "images", "--data", photos, "--out", out, *small) == 2
    assert "12 of 52 files cannot be used" in capsys.readouterr().err
    assert run("train", "images", "--data", photos, "--out", out, *small, "--skip-corrupt") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "30x40 to 49x40 pixels are resized to 40x40 (choose with --size): the shorter side is scaled" in printed
    said = "12 of 52 files cannot be read, skipped (--skip-corrupt): "
    assert said in printed
    notes = gf.evaluate(out, [photos]).notes
    assert notes[0].startswith("30x40 to 49x40 pixels are resized to 40x40: the shorter side is scaled")
    (note,) = [note for note in notes if note.startswith(said)]
    assert note.count("broken") == 10
    assert note.endswith("; and 2 more")


def test_transparent_and_turned_images_are_seen_as_a_person_sees_them(photos: Path, tmp_path: Path) -> None:
    """In new training, and in fine-tuning of a loaded model."""
    task = made(data=photos)
    assert (task.preparation.upright, task.preparation.background) == (True, "white")
    task.write_beside(tmp_path)
    stored = json.loads((tmp_path / "preprocessor_config.json").read_text(encoding="utf-8"))
    assert (stored["exif_rotation"], stored["background"]) == (True, "white")


def test_a_loaded_model_says_the_size(trained: Path, tmp_path: Path) -> None:
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        for i in range(12):
            Image.new("L", (70, 50), 20 * i).save(tmp_path / name / f"{i}.png")
    task = made(init=str(trained), head="class", d_model=None, num_layers=None, num_heads=None, data=tmp_path)
    assert (task.train.size, task.train.mode) == (16, "rgb")
    assert task.notes() == [
        "70x50 pixels are resized to 16x16: the shorter side is scaled, the longer one cropped at both ends",
        "24 grey read as colour",
    ]


@pytest.mark.parametrize(("size", "patch"), [(8, 2), (28, 4), (64, 8), (224, 32), (100, 10), (14, 2), (50, 5)])
def test_a_patch_divides_the_image(size: int, patch: int) -> None:
    assert choose_patch(size) == patch


def test_sizes_that_cannot_be_cut_are_named_with_the_flag(photos: Path) -> None:
    with pytest.raises(InputError, match=r"images of 97x97 pixels cannot be divided into equal patches. Use --size 96"):
        made(data=photos, size=97)
    with pytest.raises(InputError, match=r"--patch 5 must divide the image size 16\. Change it, or give --size"):
        made(data=photos, patch=5)
