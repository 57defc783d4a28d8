"""Tables of images with texts: rows, splits and errors."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data.image_texts import ImageTexts, read_image_texts
from glassformer.errors import InputError

CAPTION = {"caption": "--caption-column"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four uniform grey images of 8x8 pixels."""
    (tmp_path / "in").mkdir()
    for number in range(4):
        Image.fromarray(np.full((8, 8), 60 * number, np.uint8)).save(tmp_path / "in" / f"{number}.png")
    return tmp_path


def table(folder: Path, *rows: dict[str, object]) -> Path:
    file = folder / "table.jsonl"
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return file


def read(folder: Path, *rows: dict[str, object], **options: bool) -> ImageTexts:
    return read_image_texts(table(folder, *rows), "image", CAPTION, **options)  # type: ignore[arg-type]


def test_a_row_is_a_picture_and_its_text(folder: Path) -> None:
    found = read(folder, {"image": "in/2.png", "caption": "회색"}, {"image": "in\\1.png", "caption": "dark"})
    assert found.texts == (("회색",), ("dark",))
    assert (found.images.size, found.images.mode) == (8, "grey")
    assert found.images.take([0, 1])[:, 0, 0, 0].tolist() == [120, 60]
    assert found.places[1].endswith("line 2")


def test_questions_come_with_their_answers(folder: Path) -> None:
    file = table(folder, {"image": "in/0.png", "question": "is it dark?", "answer": "yes"})
    found = read_image_texts(file, "image", {"question": "--question-column", "answer": "--answer-column"})
    assert found.texts == (("is it dark?", "yes"),)


def test_a_picture_with_several_texts_is_on_one_side(folder: Path) -> None:
    rows = [{"image": f"in/{number % 4}.png", "caption": f"text {number}"} for number in range(12)]
    kept, held_out = read(folder, *rows).parted(0.5, seed=0, name="table")
    assert len(kept) == len(held_out) == 6
    assert not {*kept.images.files} & {*held_out.images.files}
    assert sorted((*kept.texts, *held_out.texts)) == sorted((f"text {number}",) for number in range(12))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"image": "in/0.png", "caption": "a"}, {"image": "in/9.png", "caption": "b"}],
            r"table\.jsonl, line 2: .*9\.png does not exist\. Correct the table",
        ),
        ([{"image": " ", "caption": "a"}], "line 1: the image path is empty"),
        ([{"image": "in/0.png", "caption": " "}], "the caption of 'in/0.png' is empty.*--skip-empty"),
        ([{"image": "in/0.png", "text": "a"}], "caption"),
        ([{"image": "in", "caption": "a"}], "does not exist"),
    ],
)
def test_rows_that_cannot_be_used_are_named(folder: Path, rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(folder, *rows)


def test_every_missing_picture_is_counted(folder: Path) -> None:
    rows = [{"image": f"in/{number}.png", "caption": "a"} for number in range(40)]
    with pytest.raises(InputError, match=r"line 5: .* does not exist; and 26 more\. Correct the table"):
        read(folder, *rows)


def test_what_is_no_picture_is_refused_or_left_out(folder: Path) -> None:
    whole = (folder / "in" / "0.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    rows = [{"image": "in/0.png", "caption": "a"}, {"image": "cut.png", "caption": "b"}]
    with pytest.raises(InputError, match=r"cut\.png.*--skip-corrupt"):
        read(folder, *rows)
    found = read(folder, *rows, skip_corrupt=True)
    assert found.texts == (("a",),)
    assert [file.name for file in found.images.skipped] == ["cut.png"]
    with pytest.raises(InputError, match="none of the 1 images"):
        read(folder, rows[1], skip_corrupt=True)


def test_a_picture_made_to_fill_the_memory_is_refused(folder: Path) -> None:
    Image.new("1", (20000, 20000)).save(folder / "huge.png")
    with pytest.raises(InputError, match=r"huge\.png"):
        read(folder, {"image": "huge.png", "caption": "a"})


def test_empty_rows_are_counted_when_they_are_left_out(folder: Path) -> None:
    found = read(folder, {"image": "in/0.png", "caption": "a"}, {"image": "in/1.png", "caption": ""}, skip_empty=True)
    assert (len(found), found.left_out) == (1, 1)


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.csv: there is no such file.*columns image, caption"):
        read_image_texts(tmp_path / "no.csv", "image", CAPTION)
