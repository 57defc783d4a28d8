"""Pictures with labels: from folders named after the classes, from a table of files, or from idx files.

    root/cat/1.png, root/dog/2.jpg             one folder a class
    root/train/cat/1.png, root/test/...        the same, already split (valid, validation, val, test)
    labels.csv or .tsv                         columns image,label; paths relative to the table
    train-images-idx3-ubyte(.gz), ...          the files of MNIST (LeCun et al., 1998) and of what copies its format

Files are read when they are asked for, so a folder larger than the memory can be used; idx files are read at once.
A picture that cannot be read is an error that names it, or is left out and counted when `skip=True`.
"""

import gzip
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.data.files import AS_FOUND, read_table
from glassformer.data.formats.table import Reads, TableOptions
from glassformer.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

Mode = Literal["grey", "rgb"]
Pixels = NDArray[np.uint8]

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
PARTS = {"train": "train", "valid": "validation", "validation": "validation", "val": "validation", "test": "test"}
IDX_PARTS = {"train": "train", "t10k": "test"}
IDX_PIXELS, IDX_LABELS = 0x0803, 0x0801  # unsigned bytes of three dimensions, and of one
CHANNELS = {"grey": 1, "rgb": 3}
BICUBIC = 3  # as pillow numbers its filters


@dataclass(frozen=True)
class Images:
    """Labelled pictures of one size. `pixels` holds them, or they are read from `files` when taken."""

    labels: NDArray[np.int64]  # (N), places in names
    names: tuple[str, ...]  # of the classes
    size: int
    mode: Mode
    files: tuple[Path, ...] = ()
    pixels: Pixels | None = field(default=None, repr=False)  # (N, C, Y, X)
    skipped: tuple[Path, ...] = ()  # could not be read
    read: Callable[[Path], Pixels] | None = field(default=None, repr=False)  # a file -> (C, Y, X), in a way of its own

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: Sequence[int]) -> "Images":
        """Some of them, in this order."""
        files = tuple(self.files[row] for row in rows) if self.files else ()
        pixels = None if self.pixels is None else self.pixels[list(rows)]
        return replace(self, labels=self.labels[list(rows)], files=files, pixels=pixels)

    def named_like(self, names: Sequence[str], origin: str) -> "Images":
        """With labels as places in other names; a class that is not among them is an error."""
        for name in self.names:
            if name not in names:
                raise InputError(f"the class {name!r} of {origin} is not known: training has {', '.join(names)}")
        places = np.array([names.index(name) for name in self.names], dtype=np.int64)
        return replace(self, labels=places[self.labels], names=tuple(names))

    def take(self, indices: Sequence[int]) -> Pixels:
        """The pixels of some pictures: (N, C, Y, X)."""
        if self.pixels is not None:
            return self.pixels[list(indices)]
        read = self.read or partial(read_image, size=self.size, mode=self.mode)
        taken = [read(self.files[index]) for index in indices]
        return np.stack(taken) if taken else np.zeros((0, CHANNELS[self.mode], self.size, self.size), np.uint8)


def read_images(
    path: Path,
    *,
    size: int | None = None,
    mode: Mode | None = None,
    skip: bool = False,
    image_column: str = "image",
    label_column: str = "label",
    options: TableOptions = AS_FOUND,
) -> dict[str, Images]:
    """The parts of a data set by name, "train", "validation" and "test", or "all" where it is not split.

    Every picture is brought to a square of `size` and to one `mode`. Without them, all must be alike already.
    """
    if size is not None and size < 1:
        raise InputError(f"size {size}: expected at least 1 pixel")
    if mode not in (None, "grey", "rgb"):
        raise InputError(f"mode {mode!r}: expected 'grey' or 'rgb'")
    if path.is_file():
        return open_parts({"all": read_rows(path, image_column, label_column, options)}, size, mode, skip)
    if not path.is_dir():
        raise InputError(f"{path}: there is no such file or folder")
    if any(idx_files(path)):
        return read_idx_folder(path, size, mode)
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    if folders and all(folder.name in PARTS for folder in folders):
        parts: dict[str, list[tuple[Path, str]]] = {}
        for folder in folders:
            if PARTS[folder.name] in parts:
                raise InputError(f"{path} has the part {PARTS[folder.name]} twice, one is {folder.name}. Join them")
            parts[PARTS[folder.name]] = read_classes(folder)
        return open_parts(parts, size, mode, skip)
    return open_parts({"all": read_classes(path)}, size, mode, skip)


def read_classes(root: Path) -> list[tuple[Path, str]]:
    """The files of root/<class>/ with their class. One that is no picture is an error; hidden ones are passed over."""
    examples = []
    for folder in sorted(root.iterdir()):
        if folder.name.startswith("."):
            continue
        if not folder.is_dir():
            raise InputError(
                f"{folder} is a file: expected one folder for each class, {root / '<class>' / folder.name}"
            )
        found = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
        for file in found:
            if file.suffix.lower() not in SUFFIXES:
                raise InputError(f"{file} is no picture: expected {', '.join(sorted(SUFFIXES))}. Move it elsewhere")
            examples.append((file, folder.name))
        if not found:
            raise InputError(
                f"{folder} is empty: expected the pictures of the class {folder.name!r}, or no such folder"
            )
    if not examples:
        raise InputError(f"{root} is empty: expected one folder for each class, with pictures in it")
    return examples


def read_rows(
    path: Path, image_column: str, label_column: str, options: TableOptions = AS_FOUND
) -> list[tuple[Path, str]]:
    """Two columns of a table; a path in it starts at the table's own folder."""
    table = read_table(path, options, Reads((image_column, label_column)))
    examples = []
    images, labels = table.texts(image_column, "--image-column"), table.column(label_column, "--label-column")
    columns = zip(table.rows, images, labels, strict=True)
    for row, image, label in columns:
        where, file = f"{path}, line {row.line}", path.parent / image.strip()
        if not str(label).strip():
            raise InputError(f"{where}: {image!r} has no label")
        if not file.is_file():
            raise InputError(f"{where}: there is no file {file}")
        examples.append((file, str(label).strip()))
    return examples


def open_parts(
    parts: dict[str, list[tuple[Path, str]]], size: int | None, mode: Mode | None, skip: bool
) -> dict[str, Images]:
    """Checks every file once, by decoding it, so that training does not stop at a broken one hours later."""
    known = next((name for name in ("train", "all") if name in parts), next(iter(parts)))
    names = tuple(sorted({label for _, label in parts[known]}))
    first: Look | None = None
    opened = {}
    for part, examples in sorted(parts.items(), key=lambda item: item[0] != known):  # training first
        kept, skipped = [], []
        for file, label in examples:
            if label not in names:
                raise InputError(f"the class {label!r} of {file} is only in {part}: training has {', '.join(names)}")
            try:
                look = look_at(file)
            except InputError:
                if not skip:
                    raise
                skipped.append(file)
                continue
            first = first or look
            check_alike(look, first, size, mode)
            kept.append((file, names.index(label)))
        if not kept or first is None:
            raise InputError(f"none of the {len(examples)} pictures of {part} can be read")
        files, labels = zip(*kept, strict=True)
        places = np.array(labels, dtype=np.int64)
        opened[part] = Images(places, names, size or first.width, mode or first.mode, files, skipped=tuple(skipped))
    return opened


@dataclass(frozen=True)
class Look:
    """What a picture is like."""

    file: Path
    width: int
    height: int
    mode: Mode

    def __str__(self) -> str:
        return f"{self.width}x{self.height} and {self.mode}"


def look_at(file: Path) -> Look:
    """What a picture is like, once all of it has been decoded."""
    image = open_image(file)
    return Look(file, image.width, image.height, "grey" if image.mode in ("1", "L", "LA") else "rgb")


def check_alike(look: Look, first: Look, size: int | None, mode: Mode | None) -> None:
    """Without a size that was asked for, all pictures must be squares of one size; without a mode, of one mode."""
    if size is None and not look.width == look.height == first.width:
        expected = f"{first.width}x{first.width} as {first.file}" if look != first else "a square"
        raise InputError(f"{look.file} is {look}: expected {expected}. Ask for a size to bring all pictures to")
    if mode is None and look.mode != first.mode:
        raise InputError(f"{look.file} is {look}: {first.file} is {first.mode}. Ask for mode='grey' or mode='rgb'")


def read_image(file: Path, size: int, mode: Mode) -> Pixels:
    """One picture (C, Y, X): its shorter side brought to size, and what is then outside a centred square cut off."""
    image = open_image(file).convert("L" if mode == "grey" else "RGB")
    pixels = np.asarray(fitted(image, resize=size, resample=BICUBIC, crop=(size, size)))
    return pixels[None] if mode == "grey" else pixels.transpose(2, 0, 1)  # (C, Y, X)


def open_image(file: Path) -> "Image":
    """As `load_image`, for a data set: there a picture that cannot be read may be left out."""
    try:
        return load_image(file, str(file))
    except InputError as error:
        raise InputError(f"{error}. Replace it, or ask for skip=True (--skip-corrupt)") from None


def load_image(
    source: Path | BinaryIO,
    name: str,
    *,
    formats: tuple[str, ...] | None = None,
    check: Callable[[int, int], None] = lambda width, height: None,
) -> "Image":
    """A whole picture in memory, in whatever mode it has; those of more than 8 bits a pixel are refused, not rounded.

    `check` may refuse it by its width and height, before its pixels are unpacked.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError("reading pictures needs pillow: pip install 'glassformer[vision]'") from None
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(source, formats=formats) as image:
            check(*image.size)
            image.load()
    except InputError:
        raise
    except Image.DecompressionBombError:
        raise InputError(f"{name} has too many pixels: make it smaller") from None
    except UnidentifiedImageError:
        raise InputError(f"{name} cannot be read as a picture: expected a file such as .png or .jpg") from None
    except Exception as error:  # a file that is not what it says can fail anywhere in its decoder
        raise InputError(f"{name} cannot be read as a picture ({error}): expected a whole file") from None
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        raise InputError(f"{name} has more than 8 bits a pixel ({image.mode}): convert it to 8 first")
    return image


def fitted(
    image: "Image", *, resize: tuple[int, int] | int | None, resample: int, crop: tuple[int, int] | None
) -> "Image":
    """A picture brought to (height, width), or by its shorter side, the other in proportion; then cut to its centre."""
    if isinstance(resize, int):
        short = min(image.size)
        resize = (resize * image.height // short, resize * image.width // short)
    if resize is not None:
        image = image.resize((resize[1], resize[0]), resample=resample)
    if crop is not None:
        height, width = crop
        top, left = (image.height - height) // 2, (image.width - width) // 2
        image = image.crop((left, top, left + width, top + height))
    return image


def idx_files(folder: Path) -> dict[tuple[str, str], Path]:
    """(part, "images" or "labels") -> file, by MNIST's names, packed or not."""
    found = {}
    for prefix, part in IDX_PARTS.items():
        for kind, dimensions in (("images", 3), ("labels", 1)):
            for ending in ("", ".gz"):
                file = folder / f"{prefix}-{kind}-idx{dimensions}-ubyte{ending}"
                if file.is_file():
                    found[part, kind] = file
    return found


def read_idx_folder(folder: Path, size: int | None, mode: Mode | None) -> dict[str, Images]:
    files = idx_files(folder)
    parts: dict[str, tuple[Pixels, Pixels]] = {}
    for part in sorted({part for part, _ in files}, reverse=True):  # train, test
        for kind, other in (("images", "labels"), ("labels", "images")):
            if (part, kind) not in files:
                raise InputError(f"{folder} has {files[part, other].name} but not the {kind} that belong to it")
        pixels = read_idx(files[part, "images"], IDX_PIXELS)
        labels = read_idx(files[part, "labels"], IDX_LABELS)
        if len(pixels) != len(labels):
            belonging = files[part, "labels"].name
            raise InputError(f"{files[part, 'images']} has {len(pixels)} images, {belonging} has {len(labels)} labels")
        parts[part] = pixels, labels
    if "train" not in parts:
        raise InputError(f"{folder} has no train-images-idx3-ubyte: nothing to learn the classes from")
    known = sorted(set(parts["train"][1].tolist()))
    opened: dict[str, Images] = {}
    for part, (pixels, labels) in parts.items():
        if unknown := sorted(set(labels.tolist()) - set(known)):
            raise InputError(f"the class {unknown[0]} is only in {files[part, 'labels']}: training has {known}")
        size = size or min(pixels.shape[1:])
        square = fit_square(pixels, size)[:, None]  # (N, 1, Y, X)
        square = square.repeat(3, axis=1) if mode == "rgb" else square  # (N, C, Y, X)
        places = np.searchsorted(known, labels).astype(np.int64)
        opened[part] = Images(places, tuple(map(str, known)), size, mode or "grey", pixels=square)
    return opened


def fit_square(pixels: Pixels, size: int) -> Pixels:
    """Grey pictures (N, Y, X) cut to their centred square and brought to size."""
    height, width = pixels.shape[1:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = pixels[:, top : top + side, left : left + side]
    if side == size:
        return square
    try:
        from PIL import Image
    except ImportError:
        raise InputError("changing the size of pictures needs pillow: pip install 'glassformer[vision]'") from None
    resized = (Image.fromarray(image).resize((size, size), Image.Resampling.BICUBIC) for image in square)
    return np.stack([np.asarray(image) for image in resized])


def read_idx(file: Path, magic: int) -> Pixels:
    """An idx file: a magic number that says what it holds, the dimensions, then the bytes."""
    try:
        content = file.read_bytes()
        content = gzip.decompress(content) if file.suffix == ".gz" else content
    except (OSError, EOFError) as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    dimensions = magic & 0xFF
    found = int.from_bytes(content[:4], "big")
    if found != magic:
        raise InputError(
            f"{file} begins with {found:#010x}: expected {magic:#010x}, an idx file of {dimensions}-d bytes"
        )
    shape = tuple(int.from_bytes(content[4 + 4 * d : 8 + 4 * d], "big") for d in range(dimensions))
    values = np.frombuffer(content, dtype=np.uint8, offset=min(len(content), 4 + 4 * dimensions))
    if values.size != np.prod(shape, dtype=np.int64):
        raise InputError(f"{file} holds {values.size} bytes, and its first line promises {shape}. Fetch it again")
    return values.reshape(shape)
