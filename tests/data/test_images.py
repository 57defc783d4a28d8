"""Images from folders, tables and idx files, and errors about broken ones."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from helpers.shared import shared
from PIL import Image

from glassformer.checkpoints.preparation import Preparation
from glassformer.data.images import Images, read_images
from glassformer.errors import InputError
from glassformer.predict.images import read_pixels


def draw(path: Path, colour: tuple[int, int, int] | int, size: tuple[int, int] = (6, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L" if isinstance(colour, int) else "RGB", size, colour).save(path)
    return path


def write_idx(path: Path, values: np.ndarray, magic: int) -> None:
    content = magic.to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in values.shape) + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_mnist(folder: Path, ending: str = "") -> tuple[np.ndarray, np.ndarray]:
    pixels = np.random.default_rng(0).integers(0, 256, size=(7, 5, 5), dtype=np.uint8)
    labels = np.array([3, 1, 4, 1, 3, 4, 1], dtype=np.uint8)
    for part, rows in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        write_idx(folder / f"{part}-images-idx3-ubyte{ending}", pixels[rows], 0x0803)
        write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", labels[rows], 0x0801)
    return pixels, labels


def test_folders_named_after_classes(tmp_path: Path) -> None:
    draw(tmp_path / "red" / "1.png", (255, 0, 0))
    draw(tmp_path / "red" / "more" / "2.JPG", (254, 0, 0))
    draw(tmp_path / "blue" / "1.bmp", (0, 0, 255))
    (tmp_path / "red" / ".hidden").write_text("not looked at")
    images = read_images(tmp_path)["all"]
    assert images.names == ("blue", "red")
    assert images.labels.tolist() == [0, 1, 1]
    assert (images.size, images.mode, len(images)) == (6, "rgb", 3)
    pixels = images.take([0, 1])
    assert pixels.shape == (2, 3, 6, 6)
    assert pixels.dtype == np.uint8
    assert pixels[:, :, 0, 0].tolist() == [[0, 0, 255], [255, 0, 0]]


def test_a_split_that_is_already_made(tmp_path: Path) -> None:
    for part in ("train", "val", "test"):
        for name, grey in (("dark", 10), ("light", 240)):
            draw(tmp_path / part / name / "1.png", grey)
    parts = read_images(tmp_path)
    assert set(parts) == {"train", "validation", "test"}
    assert parts["test"].take([1])[0, 0, 0, 0] == 240
    assert parts["test"].mode == "grey"
    draw(tmp_path / "test" / "striped" / "1.png", 5)
    with pytest.raises(
        InputError, match=r"1\.png: the class 'striped' is only in test\. The training classes are dark, light"
    ):
        read_images(tmp_path)


def test_a_split_without_training(tmp_path: Path) -> None:
    draw(tmp_path / "test" / "a" / "1.png", 5)
    assert list(read_images(tmp_path)) == ["test"], "enough to be judged by"
    draw(tmp_path / "val" / "a" / "1.png", 5)
    draw(tmp_path / "valid" / "a" / "1.png", 5)
    with pytest.raises(InputError, match="two folders for validation"):
        read_images(tmp_path)


def test_size_and_mode_on_request(tmp_path: Path) -> None:
    wide = draw(tmp_path / "a" / "1.png", (0, 0, 0), size=(12, 6))
    with Image.open(wide) as image:
        image.paste((200, 100, 0), (2, 0, 10, 6))  # the centre
        image.save(wide)
    small = read_images(tmp_path, size=3)["all"].take([0])
    assert small.shape == (1, 3, 3, 3)
    as_predicted = Preparation(resize=3, resample=3, crop=(3, 3), scale=1.0, mean=(0.0,) * 3, deviation=(1.0,) * 3)
    assert np.array_equal(small[0], read_pixels(wide, as_predicted).numpy()), "training and prediction differ"
    grey = read_images(tmp_path, size=4, mode="grey")["all"].take([0])
    assert grey.shape == (1, 1, 4, 4)
    as_predicted = Preparation(resize=4, resample=3, crop=(4, 4), scale=1.0, mean=(0.0,), deviation=(1.0,))
    assert np.array_equal(grey[0], read_pixels(wide, as_predicted).numpy())


def test_a_size_and_a_mode_are_chosen_for_pictures_that_differ(tmp_path: Path) -> None:
    """The median of the shorter sides, at most 64 and a multiple of 8; in colour unless all are grey."""
    draw(tmp_path / "a" / "1.png", 5)
    draw(tmp_path / "a" / "2.png", 5, size=(7, 9))
    draw(tmp_path / "a" / "3.png", 5, size=(30, 20))
    images = read_images(tmp_path)["all"]
    assert (images.size, images.mode) == (7, "grey")
    draw(tmp_path / "a" / "2.png", (1, 2, 3), size=(31, 33))
    images = read_images(tmp_path)["all"]
    assert (images.size, images.mode) == (16, "rgb")
    assert images.take([0, 1, 2]).shape == (3, 3, 16, 16)
    assert images.found is not None
    assert images.found.sizes() == "6x6 to 31x33"
    assert images.found.notes("rgb", upright=True, background="white") == [
        "2 grey read as colour, like the others (--mode grey reads all as grey)"
    ]
    for number in (1, 2, 3):
        draw(tmp_path / "a" / f"{number}.png", 5, size=(400, 300))
    assert read_images(tmp_path)["all"].size == 64
    assert read_images(tmp_path, size=50, mode="rgb")["all"].take([0]).shape == (1, 3, 50, 50)


@pytest.mark.parametrize(("name", "comma"), [("labels.csv", ","), ("labels.tsv", "\t")])
def test_a_table_of_files(tmp_path: Path, name: str, comma: str) -> None:
    draw(tmp_path / "pictures" / "1.png", 1)
    draw(tmp_path / "pictures" / "2.png", 2)
    table = tmp_path / name
    table.write_text(f"label{comma}image\nb{comma}pictures/2.png\na{comma}pictures/1.png\n", encoding="utf-8")
    images = read_images(table)["all"]
    assert images.names == ("a", "b")
    assert images.labels.tolist() == [1, 0]
    assert images.take([0, 1])[:, 0, 0, 0].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,class\n1.png,a\n", "has the columns image, class, but none called 'label'"),
        ("image,label\nnone.png,a\n", "line 2: .*none.png does not exist"),
        ("image,label\n1.png,\n", "line 2: '1.png' has no label"),
        ("image,label\n1.png,a,b\n", "line 2: 3 cells, expected 2"),
        ("image,label\n", "has a header but no rows"),
    ],
)
def test_a_faulty_table(tmp_path: Path, text: str, message: str) -> None:
    draw(tmp_path / "1.png", 1)
    table = tmp_path / "labels.csv"
    table.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_images(table)


def test_a_broken_picture_is_named_or_skipped_and_counted(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, size=(40, 40, 3), dtype=np.uint8)
    (tmp_path / "a").mkdir()
    Image.fromarray(noise).save(tmp_path / "a" / "whole.png")
    broken = tmp_path / "a" / "broken.png"
    broken.write_bytes((tmp_path / "a" / "whole.png").read_bytes()[:1500])  # the header is good, the end is missing
    with pytest.raises(InputError, match=r"broken\.png cannot be read as an image"):
        read_images(tmp_path)
    images = read_images(tmp_path, skip=True)["all"]
    assert len(images) == 1
    assert images.skipped == (broken,)
    (tmp_path / "a" / "whole.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match="none of the 2 images can be read"):
        read_images(tmp_path, skip=True)


def test_what_is_no_picture_is_an_error(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "1.png", 1)
    (tmp_path / "a" / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"notes\.txt is not an image"):
        read_images(tmp_path)
    (tmp_path / "a" / "notes.txt").rename(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="is not in a class folder"):
        read_images(tmp_path)
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match="b is empty"):
        read_images(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        read_images(tmp_path / "none")


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx_files(tmp_path: Path, ending: str) -> None:
    pixels, labels = write_mnist(tmp_path, ending)
    parts = read_images(tmp_path)
    assert set(parts) == {"train", "test"}
    assert parts["train"].names == ("1", "3", "4")
    assert [parts["train"].names[label] for label in parts["train"].labels] == [str(label) for label in labels[:5]]
    np.testing.assert_array_equal(parts["test"].take([0, 1])[:, 0], pixels[5:])
    larger = read_images(tmp_path, size=10, mode="rgb")["train"]
    assert larger.take(range(5)).shape == (5, 3, 10, 10)


def test_faulty_idx_files(tmp_path: Path) -> None:
    pixels, _ = write_mnist(tmp_path)
    train = tmp_path / "train-images-idx3-ubyte"
    write_idx(train, pixels[:5], 0x0D03)
    with pytest.raises(InputError, match="begins with 0x00000d03: expected 0x00000803"):
        read_images(tmp_path)
    write_idx(train, pixels[:4], 0x0803)
    with pytest.raises(InputError, match="has 4 images, but train-labels-idx1-ubyte has 5 labels"):
        read_images(tmp_path)
    write_idx(train, pixels[:5], 0x0803)
    train.write_bytes(train.read_bytes()[:-3])
    with pytest.raises(InputError, match="has 122 bytes"):
        read_images(tmp_path)
    write_idx(train, pixels[:5], 0x0803)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte", np.array([4, 9], dtype=np.uint8), 0x0801)
    with pytest.raises(InputError, match="unknown class 9"):
        read_images(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="has train-images-idx3-ubyte but not its labels"):
        read_images(tmp_path)


def test_fashion_mnist() -> None:
    folder = shared("fashion-mnist")
    parts: dict[str, Images] = read_images(folder)
    assert {name: len(part) for name, part in parts.items()} == {"train": 60_000, "test": 10_000}
    assert np.bincount(parts["test"].labels).tolist() == [1000] * 10
    assert parts["train"].take([0]).shape == (1, 1, 28, 28)
