"""Files: JSON in and out, and how a file or a folder appears whole or not at all.

What is written stands under a hidden name beside its place until it is whole, and moves there then. So a reader never
sees half of it, and whatever stops the writer leaves what was there before.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from glassformer.errors import InputError

LARGEST_JSON = 1 << 26  # bytes: its values take up to twenty times as much memory


def parse_json(file: Path) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(read_small(file, LARGEST_JSON).decode("utf-8"))
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not JSON: it is not UTF-8 text ({error}). Is the file whole?") from None
    except ValueError as error:
        raise InputError(f"{file} is not JSON ({error}). Is the file whole?") from None
    except RecursionError:
        raise InputError(
            f"{file} is nested too deeply to be read: expected a few levels of objects and lists"
        ) from None


def read_small(file: Path, most: int) -> bytes:
    """The content of a file that holds settings or a vocabulary, and so has no more than `most` bytes."""
    with file.open("rb") as stream:
        content = stream.read(min(file.stat().st_size, most) + 1)
    if len(content) > most:
        raise InputError(
            f"{file} has {max(len(content), file.stat().st_size):,} bytes: expected at most {most:,}. Is it the right "
            "file?"
        )
    return content


def read_json(file: Path, expected: str = "an object, as in {}") -> dict[str, Any]:
    """The object that a JSON file holds; of another one, the error says what was expected."""
    values = parse_json(file)
    if not isinstance(values, dict):
        raise InputError(f"{file}: expected {expected}")
    return values


def write_json(file: Path, values: Mapping[str, Any], *, durable: bool = False) -> None:
    """Writes JSON for people to read, whole or not at all."""
    write_whole(file, json.dumps(values, indent=2, ensure_ascii=False) + "\n", durable=durable)


def write_whole(file: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Writes a file, whole or not at all."""
    with whole_file(file, durable=durable) as stream:
        stream.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def whole_file(file: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its place when all is written.

    With `durable` it is on the disk then, whatever happens to the machine. A device or a pipe, such as /dev/stdout, has
    no place to take and is written to as it is.
    """
    if file.exists() and not file.is_file():
        with file.open("wb") as stream:
            yield stream
        return
    place = file.resolve()
    partial = partial_name(place)
    try:
        with partial.open("wb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        partial.replace(place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync(place.parent)


@contextmanager
def whole_folder(path: Path, *, stays: Callable[[Path], bool] = lambda entry: False) -> Iterator[Path]:
    """A folder to write to, which takes its place when all in it is written.

    Entries of the folder that was there before go over to the new one if they are to stay, and go if not.
    """
    folder = path.resolve()
    partial = partial_name(folder)
    old = partial.with_suffix(".old")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of a process that had this number before
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield partial
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if old.exists():
        for entry in old.iterdir():
            if stays(entry):
                entry.replace(folder / entry.name)
        shutil.rmtree(old, ignore_errors=True)


def partial_name(place: Path) -> Path:
    """What a file or folder is called until it is whole: another name in each process, and never too long a one."""
    return place.with_name(f".{place.name[:60]}.{os.getpid()}.partial")


def remove_partial(folder: Path, *, before: float = math.inf) -> None:
    """Removes what a killed process left half-written in a folder; only what was last changed `before` a time."""
    for partial in folder.glob(".*.partial"):
        if partial.lstat().st_mtime >= before:
            continue
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def checksum(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def fingerprint(path: Path) -> dict[str, Any] | None:
    """What tells whether data has changed: of a file its content, of a folder the names, sizes and times of its files.

    None where there is nothing to look at twice, such as a pipe.
    """
    if path.is_file():
        return {"bytes": path.stat().st_size, "sha256": checksum(path)}
    if not path.is_dir():
        return None
    return fingerprint_of(path, (entry for entry in path.rglob("*") if entry.is_file()))


def fingerprint_of(folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """The same of several files, by their paths from a folder, sizes and times."""
    digest, count = hashlib.sha256(), 0
    for file in sorted(set(files)):
        about = file.stat()
        name = os.path.relpath(file, folder)
        digest.update(f"{name}\0{about.st_size}\0{about.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
        count += 1
    return {"files": count, "sha256": digest.hexdigest()}


def sync(folder: Path) -> None:
    """Makes sure that the names in a folder are on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
