"""Labelled images: from one folder per class, from a table of files, or from idx files.

    root/cat/1.png, root/dog/2.jpg             one folder per class
    root/train/cat/1.png, root/test/...        the same, already split (valid, validation, val, test)
    labels.csv or .tsv                         columns image,label; paths relative to the table
    train-images-idx3-ubyte(.gz), ...          MNIST's files (LeCun et al., 1998), and others in its format

Image files are read on demand (`pixels.py`), so a folder may be larger than memory; idx files are read at once. Every
file is decoded once at the start: unreadable ones are reported together, or skipped and counted with `skip=True`.
Files that the operating system puts into folders are ignored.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.data.files import AS_FOUND, BLOCK, opened, read_table, unit_of
from glassformer.data.formats.table import ExpectedColumns, TableOptions
from glassformer.data.pixels import SUFFIXES, ImageProperties, Mode, PixelNote, Pixels, inspect_image, read_image
from glassformer.data.texts import as_label
from glassformer.errors import InputError

PART_FOLDERS = {
    "train": "train",
    "valid": "validation",
    "validation": "validation",
    "val": "validation",
    "test": "test",
}
IDX_PARTS = {"train": "train", "t10k": "test"}
IDX_PIXELS, IDX_LABELS = 0x0803, 0x0801  # magic numbers: 3-d and 1-d arrays of unsigned bytes
MODE_CHANNELS = {"grey": 1, "rgb": 3}
SYSTEM_FILES = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"}  # and names that begin with a dot
SYSTEM_FOLDERS = {"__macosx", "@eadir", "$recycle.bin"}
MAX_NAMED = 10  # files listed in an error
MAX_CHOSEN_SIDE = 64  # largest default side in pixels for images of different sizes
ASK_FOR_SKIP = "use --skip-corrupt to skip unreadable files"
PIXEL_NOTES: dict[PixelNote, str] = {
    "rotated": "{} rotated upright by EXIF data",
    "deep": "{} converted from 16 to 8 bits per channel (65535 becomes 255)",
    "cmyk": "{} converted from CMYK to RGB without a colour profile",
    "frames": "{} with several frames: only the first is used",
}


@dataclass(frozen=True)
class FolderFindings:
    """The properties of the files of a data set, for notes to the user."""

    looks: Mapping[ImageProperties, int] = field(repr=False)  # number of images with each set of properties
    system: tuple[str, ...]  # names of ignored system files

    @property
    def are_alike(self) -> bool:
        """Whether all images are squares of one size."""
        return are_alike(self.looks)

    def sizes(self) -> str:
        """The smallest and the largest size."""
        ordered = sorted((look.width * look.height, look.width, look.height) for look in self.looks)
        shown = [f"{width}x{height}" for _, width, height in (ordered[0], ordered[-1])]
        return shown[0] if shown[0] == shown[1] else f"{shown[0]} to {shown[1]}"

    def notes(self, mode: Mode, *, upright: bool, background: str | None) -> list[str]:
        """Notes on how some images were converted."""
        counts: Counter[PixelNote] = Counter()
        for look, count in self.looks.items():
            counts.update(dict.fromkeys(look.facts, count))
        if not upright:
            del counts["rotated"]
        said = [text.format(f"{counts[fact]:,}") for fact, text in PIXEL_NOTES.items() if counts[fact]]
        if counts["transparent"]:
            done = "transparency dropped" if background is None else f"drawn on {background}"
            said.append(f"{counts['transparent']:,} transparent: {done}")
        other = sum(count for look, count in self.looks.items() if look.mode != mode)
        mixed = ", like the others (--mode grey reads all as grey)" if other < sum(self.looks.values()) else ""
        if other:
            said.append(f"{other:,} grey read as colour{mixed}" if mode == "rgb" else f"{other:,} colour read as grey")
        if count := len(self.system):
            names = ", ".join(sorted(set(self.system))[:3])
            said.append(f"{count:,} system file{'s' * (count > 1)} skipped ({names})")
        return said


@dataclass(frozen=True)
class Images:
    """Labelled images of one size: in memory (`pixels`), or read from `files` on demand."""

    labels: NDArray[np.int64]  # (N), indices into names
    names: tuple[str, ...]  # class names
    size: int
    mode: Mode
    files: tuple[Path, ...] = ()
    pixels: Pixels | None = field(default=None, repr=False)  # (N, C, Y, X)
    skipped: tuple[Path, ...] = ()  # unreadable files
    read: Callable[[Path], Pixels] | None = field(default=None, repr=False)  # file -> (C, Y, X); default: read_image
    found: FolderFindings | None = None  # of all parts together, if they are files

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, rows: Sequence[int]) -> "Images":
        """The images with these indices, in this order."""
        files = tuple(self.files[row] for row in rows) if self.files else ()
        pixels = None if self.pixels is None else self.pixels[list(rows)]
        return replace(self, labels=self.labels[list(rows)], files=files, pixels=pixels)

    def named_like(self, names: Sequence[str], origin: str) -> "Images":
        """The same images with labels as indices into other names; an unknown class is an error."""
        for name in self.names:
            if name not in names:
                raise InputError(f"{origin}: unknown class {name!r}. The training classes are {', '.join(names)}")
        places = np.array([names.index(name) for name in self.names], dtype=np.int64)
        return replace(self, labels=places[self.labels], names=tuple(names))

    def contents(self) -> list[bytes]:
        """A digest of each image: equal for equal files, or for equal pixels in memory."""
        if self.pixels is not None:
            return [digest_of(image.tobytes()) for image in self.pixels]
        return [digest_of(file.read_bytes()) for file in self.files]

    def take(self, indices: Sequence[int]) -> Pixels:
        """The pixels of these images, (N, C, Y, X)."""
        if self.pixels is not None:
            return self.pixels[list(indices)]
        read = self.read or partial(read_image, size=self.size, mode=self.mode)
        taken = [read(self.files[index]) for index in indices]
        return np.stack(taken) if taken else np.zeros((0, MODE_CHANNELS[self.mode], self.size, self.size), np.uint8)


def digest_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


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
    """The parts of a data set by name: "train", "validation" and "test", or "all" if it is not split.

    Every image becomes a square of `size` in one `mode`. By default, both are chosen from the files.
    """
    if size is not None and size < 1:
        raise InputError(f"size {size}: expected at least 1 pixel")
    if mode not in (None, "grey", "rgb"):
        raise InputError(f"mode {mode!r}: expected 'grey' or 'rgb'")
    if path.is_file():
        return open_parts(path, {"all": read_rows(path, image_column, label_column, options)}, size, mode, skip)
    if not path.is_dir():
        raise InputError(f"{path}: there is no such file or folder")
    if any(idx_files(path)):
        return read_idx_folder(path, size, mode)
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not is_of_system(entry))
    if folders and all(folder.name in PART_FOLDERS for folder in folders):
        parts: dict[str, FileList] = {}
        for folder in folders:
            if PART_FOLDERS[folder.name] in parts:
                raise InputError(
                    f"{path} has two folders for {PART_FOLDERS[folder.name]}, one is {folder.name}. Merge them"
                )
            parts[PART_FOLDERS[folder.name]] = read_classes(folder)
        return open_parts(path, parts, size, mode, skip)
    return open_parts(path, {"all": read_classes(path)}, size, mode, skip)


@dataclass
class FileList:
    """The files of a part with their labels, the files that are not images and why, and system files."""

    examples: list[tuple[Path, str]] = field(default_factory=list)
    others: list[tuple[Path, str]] = field(default_factory=list)
    system: list[str] = field(default_factory=list)


def is_of_system(path: Path) -> bool:
    """Whether this is a hidden file or folder, or one of the operating system."""
    name = path.name.lower()
    return name.startswith(".") or name in SYSTEM_FILES or name in SYSTEM_FOLDERS


def list_images(folder: Path) -> tuple[list[Path], list[Path], list[str]]:
    """The images in a folder and its subfolders, sorted by name; the other files; and the names of system files."""
    pictures, others, system = [], [], []
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder).parts
        if not file.is_file():
            continue
        if any(is_of_system(Path(part)) for part in inside):
            system.append(file.name)
        elif file.suffix.lower() in SUFFIXES:
            pictures.append(file)
        else:
            others.append(file)
    return pictures, others, system


def read_classes(root: Path) -> FileList:
    """The files of root/<class>/ with their class."""
    listed = FileList()
    for folder in sorted(root.iterdir()):
        if is_of_system(folder):
            listed.system += [folder.name]
        elif not folder.is_dir():
            expected = f"is not in a class folder: expected {root / '<class>' / folder.name}"
            listed.others.append((folder, expected))
        else:
            pictures, others, system = list_images(folder)
            listed.examples += [(file, folder.name) for file in pictures]
            listed.others += [(file, "is not an image") for file in others]
            listed.system += system
            if not pictures and not others:
                raise InputError(f"{folder} is empty: expected images of class {folder.name!r}. Add some, or delete it")
    if not listed.examples and not listed.others:
        raise InputError(f"{root} is empty: expected one folder of images per class")
    return listed


def read_rows(path: Path, image_column: str, label_column: str, options: TableOptions = AS_FOUND) -> FileList:
    """The images and labels of a table; paths are relative to its folder."""
    table = read_table(path, options, ExpectedColumns((image_column, label_column)))
    listed, wrong, unit = FileList(), [], unit_of(path)
    images, labels = table.texts(image_column, "--image-column"), table.column(label_column, "--label-column")
    columns = zip(table.rows, images, labels, strict=True)
    for row, image, cell in columns:
        file, label = file_named(path, image), as_label(cell)
        if not label:
            wrong.append(f"{unit} {row.line}: {image!r} has no label")
        elif not file.is_file():
            wrong.append(f"{unit} {row.line}: {file} does not exist")
        listed.examples.append((file, label))
    if wrong:
        raise InputError(f"{path}, {first_of(wrong)}. Correct the table")
    return listed


def file_named(table: Path, cell: str) -> Path:
    """The file named in a cell, relative to the table's folder. Backslashes are allowed."""
    file = table.parent / cell.strip()
    return file if file.is_file() or "\\" not in cell else table.parent / cell.strip().replace("\\", "/")


def first_of(names: Sequence[str]) -> str:
    """The first of these, and the number of the others."""
    more = f"; and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return "; ".join(names[:MAX_NAMED]) + more


def skipped_note(files: Sequence[Path], total: int) -> str:
    """A note on skipped files."""
    names = first_of([str(file) for file in files])
    return f"{len(files):,} of {total:,} files cannot be read, skipped (--skip-corrupt): {names}"


def open_parts(
    path: Path, parts: dict[str, FileList], size: int | None, mode: Mode | None, skip: bool
) -> dict[str, Images]:
    """Decodes every file once, so that training does not stop at a broken one hours later."""
    known = next((name for name in ("train", "all") if name in parts), next(iter(parts)))
    names = tuple(sorted({label for _, label in parts[known].examples}))
    for part, listed in parts.items():
        for file, label in listed.examples:
            if label not in names:
                raise InputError(
                    f"{file}: the class {label!r} is only in {part}. The training classes are {', '.join(names)}"
                )
    all_files = (file for listed in parts.values() for file, _ in listed.examples)
    looks = look_at_all(path, all_files, [one for listed in parts.values() for one in listed.others], skip=skip)
    for part, listed in parts.items():
        check_kept(part, listed.examples, looks)
    seen = tuple(looks.values())
    found = FolderFindings(Counter(seen), tuple(name for listed in parts.values() for name in listed.system))
    size, mode = size or choose_size(seen), mode or choose_mode(seen)
    opened = {}
    for part, listed in sorted(parts.items(), key=lambda item: item[0] != known):  # training first
        kept = [(file, names.index(label)) for file, label in listed.examples if file in looks]
        skipped = tuple(file for file, _ in (*listed.examples, *listed.others) if file not in looks)
        labels = np.array([label for _, label in kept], dtype=np.int64)
        files = tuple(file for file, _ in kept)
        opened[part] = Images(labels, names, size, mode, files, skipped=skipped, found=found)
    return opened


def look_at_all(
    path: Path, files: Iterable[Path], others: Sequence[tuple[Path, str]] = (), *, skip: bool = False
) -> dict[Path, ImageProperties]:
    """The properties of each file after decoding it. Unreadable files are one error, or skipped with `skip`; `others`
    are files that are not images, each with the reason."""
    looks: dict[Path, ImageProperties] = {}
    wrong = {file: f"{file} {why}" for file, why in others}
    for file in dict.fromkeys(files):
        try:
            looks[file] = inspect_image(file)
        except InputError as error:
            wrong[file] = str(error)
    if wrong and not skip:
        raise InputError(f"{in_one_sentence(path, list(wrong.values()), len(looks))}, or {ASK_FOR_SKIP}")
    return looks


def in_one_sentence(path: Path, wrong: Sequence[str], good: int) -> str:
    if len(wrong) == 1:
        return f"{wrong[0]}. Replace or move it"
    return (
        f"{path}: {len(wrong):,} of {len(wrong) + good:,} files cannot be used: {first_of(wrong)}. Replace or move them"
    )


def check_kept(part: str, examples: Sequence[tuple[Path, str]], looks: dict[Path, ImageProperties]) -> None:
    """Refuses to lose a whole part or class with the skipped files."""
    of = "" if part == "all" else f" of {part}"
    if not any(file in looks for file, _ in examples):
        raise InputError(f"none of the {len(examples)} images{of} can be read: expected at least one")
    kept = {label for file, label in examples if file in looks}
    for label in sorted({label for _, label in examples} - kept):
        raise InputError(f"none of the images{of} in class {label!r} can be read. Leave the class out")


def are_alike(looks: Iterable[ImageProperties]) -> bool:
    """Whether all images are squares of one size."""
    return len({side for look in looks for side in (look.width, look.height)}) == 1


def choose_size(looks: Sequence[ImageProperties]) -> int:
    """The common size if all are equal squares; otherwise about the median shorter side, at most MAX_CHOSEN_SIDE."""
    if are_alike(looks):
        return looks[0].width
    short = sorted(min(look.width, look.height) for look in looks)
    side = min(MAX_CHOSEN_SIDE, short[len(short) // 2])
    return side - side % 8 if side > 8 else side


def choose_mode(looks: Iterable[ImageProperties]) -> Mode:
    """Grey if all images are grey."""
    return "grey" if all(look.mode == "grey" for look in looks) else "rgb"


def idx_files(folder: Path) -> dict[tuple[str, str], Path]:
    """(part, "images" or "labels") -> file, by MNIST's names, gzipped or not."""
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
                raise InputError(f"{folder} has {files[part, other].name} but not its {kind}. Add them")
        pixels = read_idx(files[part, "images"], IDX_PIXELS)
        labels = read_idx(files[part, "labels"], IDX_LABELS)
        if len(pixels) != len(labels):
            belonging = files[part, "labels"].name
            raise InputError(
                f"{files[part, 'images']} has {len(pixels)} images, but {belonging} has {len(labels)} labels"
            )
        parts[part] = pixels, labels
    if "train" not in parts:
        raise InputError(f"{folder} has no train-images-idx3-ubyte: expected training images, not only test images")
    known = sorted(set(parts["train"][1].tolist()))
    opened: dict[str, Images] = {}
    for part, (pixels, labels) in parts.items():
        if unknown := sorted(set(labels.tolist()) - set(known)):
            raise InputError(f"{files[part, 'labels']}: unknown class {unknown[0]}. The training classes are {known}")
        size = size or min(pixels.shape[1:])
        square = fit_square(pixels, size)[:, None]  # (N, 1, Y, X)
        square = square.repeat(3, axis=1) if mode == "rgb" else square  # (N, C, Y, X)
        places = np.searchsorted(known, labels).astype(np.int64)
        opened[part] = Images(places, tuple(map(str, known)), size, mode or "grey", pixels=square)
    return opened


def fit_square(pixels: Pixels, size: int) -> Pixels:
    """Grey images (N, Y, X), cropped to the centre square and resized."""
    height, width = pixels.shape[1:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = pixels[:, top : top + side, left : left + side]
    if side == size:
        return square
    try:
        from PIL import Image
    except ImportError:
        raise InputError("resizing images needs pillow: pip install 'glassformer[vision]'") from None
    resized = (Image.fromarray(image).resize((size, size), Image.Resampling.BICUBIC) for image in square)
    return np.stack([np.asarray(image) for image in resized])


def read_idx(file: Path, magic: int) -> Pixels:
    """An idx file: a magic number for type and rank, the dimensions, then the bytes."""
    dimensions = magic & 0xFF
    with opened(file) as stream:
        begins, sizes = stream.read(4), stream.read(4 * dimensions)
        found = int.from_bytes(begins, "big")
        if found != magic:
            raise InputError(
                f"{file} begins with {found:#010x}: expected {magic:#010x}, an idx file of {dimensions}-d bytes"
            )
        shape = tuple(int.from_bytes(sizes[4 * d : 4 * d + 4], "big") for d in range(dimensions))
        promised, content = math.prod(shape), bytearray()
        while len(content) <= promised and (block := stream.read(BLOCK)):
            content += block
    if len(content) != promised:
        more = "more than " if len(content) > promised else ""
        raise InputError(
            f"{file} has {more}{min(len(content), promised):,} bytes of data, but its header says {shape}. Download it "
            "again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
