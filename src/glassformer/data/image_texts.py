"""Images with texts, from a table: each row holds an image and its caption, or an image, a question and the answer.

    captions.csv, .tsv, .jsonl, .json, .parquet, .xlsx     columns image,caption; paths relative to the table
    questions.jsonl                                        columns image,question,answer

An image may have several rows. Each file is decoded once at the start, as in `images.py`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from glassformer.data.files import AS_FOUND, locate, read_table, unit_of
from glassformer.data.formats.table import ExpectedColumns, TableFormat, TableOptions
from glassformer.data.images import FolderFindings, Images, choose_mode, choose_size, file_named, first_of, look_at_all
from glassformer.data.pixels import Mode
from glassformer.data.split import split
from glassformer.errors import InputError

NO_CLASS = ("",)  # images with texts have no classes


@dataclass(frozen=True)
class ImageTexts:
    """Images, and the texts of each: a caption, or a question and its answer."""

    images: Images
    texts: tuple[tuple[str, ...], ...]
    places: tuple[str, ...]  # file and line of each
    form: TableFormat | None = None  # format of the table
    left_out: int = 0  # number of rows with an empty text

    def __len__(self) -> int:
        return len(self.texts)

    def subset(self, rows: Sequence[int]) -> "ImageTexts":
        """The rows with these indices, in this order."""
        texts = tuple(self.texts[row] for row in rows)
        places = tuple(self.places[row] for row in rows)
        return replace(self, images=self.images.subset(rows), texts=texts, places=places)

    def parted(self, fraction: float, *, seed: int, name: str) -> tuple["ImageTexts", "ImageTexts"]:
        """Training and held-out rows; all rows of an image are on the same side."""
        files = list(dict.fromkeys(self.images.files))
        _, held_out = split(len(files), fraction, seed=seed, name=name)
        secret = {files[number] for number in held_out}
        sides: tuple[list[int], list[int]] = ([], [])
        for row, file in enumerate(self.images.files):
            sides[file in secret].append(row)
        return self.subset(sides[0]), self.subset(sides[1])


def read_image_texts(
    path: Path,
    image_column: str,
    text_columns: Mapping[str, str],
    *,
    size: int | None = None,
    mode: Mode | None = None,
    skip_corrupt: bool = False,
    skip_empty: bool = False,
    options: TableOptions = AS_FOUND,
) -> ImageTexts:
    """The rows of a table. `text_columns` maps each text column to the flag that sets it.

    Every image becomes a square of `size` in one `mode`. By default, both are chosen from the files.
    """
    if not path.is_file():
        wanted = f"a table with the columns {image_column}, {', '.join(text_columns)}"
        raise InputError(f"{path}: there is no such file. Expected {wanted}, such as captions.csv or captions.jsonl")
    table = read_table(path, options, ExpectedColumns((image_column, *text_columns)))
    named = table.texts(image_column, "--image-column")
    columns = [table.texts(column, flag) for column, flag in text_columns.items()]
    files: list[Path] = []
    texts: list[tuple[str, ...]] = []
    places: list[str] = []
    wrong, left_out = [], 0
    for row, image, *said in zip(table.rows, named, *columns, strict=True):
        empty = next((column for column, text in zip(text_columns, said, strict=True) if not text.strip()), None)
        file = file_named(path, image)
        if empty is not None and skip_empty:
            left_out += 1
        elif empty is not None:
            raise InputError(
                f"{locate(path, row.line)}: the {empty} of {image!r} is empty. Fill it, or leave such rows out with "
                "--skip-empty"
            )
        elif not image.strip() or not file.is_file():
            what = f"{file} does not exist" if image.strip() else "the image path is empty"
            wrong.append(f"{unit_of(path)} {row.line}: {what}")
        else:
            files.append(file)
            texts.append(tuple(said))
            places.append(locate(path, row.line))
    if wrong:
        raise InputError(f"{path}, {first_of(wrong)}. Correct the table")
    if not files:
        raise InputError(f"{path} has no row with an image and its texts: expected at least one")
    looks = look_at_all(path, files, skip=skip_corrupt)
    if not looks:
        raise InputError(f"none of the {len(set(files)):,} images of {path} can be read: expected at least one")
    kept = [number for number, file in enumerate(files) if file in looks]
    seen = tuple(looks.values())
    images = Images(
        np.zeros(len(kept), dtype=np.int64),
        NO_CLASS,
        size or choose_size(seen),
        mode or choose_mode(seen),
        tuple(files[number] for number in kept),
        skipped=tuple(dict.fromkeys(file for file in files if file not in looks)),
        found=FolderFindings(Counter(seen), ()),
    )
    told, lines = tuple(texts[number] for number in kept), tuple(places[number] for number in kept)
    return ImageTexts(images, told, lines, form=table.form, left_out=left_out)
