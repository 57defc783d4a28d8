"""Files: JSON in and out, and how a file or a folder appears whole or not at all.

What is written stands under a hidden name beside its place until it is whole, and moves there then. So a reader never
sees half of it, and whatever stops the writer leaves what was there before.
"""

import glob
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
    text = json.dumps(values, indent=2, ensure_ascii=False)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:  # a path that is not UTF-8
        content = json.dumps(values, indent=2).encode("ascii")
    write_whole(file, content + b"\n", durable=durable)


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
def whole_folder(path: Path, *, stays: Callable[[Path, Path], bool] = lambda entry, new: False) -> Iterator[Path]:
    """A folder to write to, which takes its place when all in it is written.

    Entries of the folder that was there before are in the new one, too, if they are to stay: `stays` is asked with each
    and with the new folder. A kill between the two renames leaves the old folder at its `replaced_place`, from which
    the next call takes it back.
    """
    folder = path.resolve()
    partial, old = partial_name(folder), replaced_place(folder)
    try:
        if old.is_dir() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)  # of a process that had this number before
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield partial
        if folder.exists():
            for entry in folder.iterdir():
                if stays(entry, partial):
                    link(entry, partial / entry.name)
            discard(old)
            folder.rename(old)
        partial.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise
    discard(old)


def link(entry: Path, place: Path) -> None:
    """The same file, or folder of files, under a second name; a copy where the file system has no such thing."""

    def same(source: str, target: str) -> None:
        Path(target).unlink(missing_ok=True)
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError:
            shutil.copy2(source, target, follow_symlinks=False)

    if entry.is_dir() and not entry.is_symlink():
        shutil.copytree(entry, place, symlinks=True, copy_function=same, dirs_exist_ok=True)
    else:
        same(str(entry), str(place))


def partial_name(place: Path) -> Path:
    """What a file or folder is called until it is whole: another name in each process, and never too long a one."""
    return place.with_name(f".{place.name[:60]}.{os.getpid()}.partial")


def remove_partial(folder: Path, *, before: float = math.inf, of: str = "") -> None:
    """Removes what a killed process left half-written in a folder; of a name only, where one is given.

    What was last changed at the time `before` or later stays; without it, what a live process is writing.
    """
    for partial in folder.glob(f".{glob.escape(of)}*.partial"):
        with suppress(FileNotFoundError):  # its writer has just finished it
            is_new = partial.lstat().st_mtime >= before if math.isfinite(before) else is_being_written(partial)
            if is_new:
                continue
            if partial.is_dir() and not partial.is_symlink():
                shutil.rmtree(partial, ignore_errors=True)
            else:
                partial.unlink()


def is_being_written(partial: Path) -> bool:
    """Whether another process of this machine that is alive gave it its name."""
    found = re.search(r"\.(\d+)\.partial$", partial.name)
    number = int(found[1]) if found and len(found[1]) < 10 else os.getpid()
    return number != os.getpid() and is_alive(number)


def is_alive(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def discard(folder: Path) -> None:
    """Removes a folder, which is gone at once under its name: a kill leaves a half-written one at most."""
    gone = partial_name(folder.with_name(f"{folder.name[:50]}.gone"))
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def replaced_place(folder: Path) -> Path:
    """Where a run stands while another takes its place."""
    return hidden_beside(folder, "replaced")


def hidden_beside(folder: Path, ending: str) -> Path:
    """A hidden name beside a folder that is its own, and never too long a one."""
    place = folder.resolve()
    name, encoded = place.name, os.fsencode(place.name)
    if len(encoded) > 200:
        name = f"{name[:40]}-{hashlib.sha256(encoded).hexdigest()[:16]}"
    return place.with_name(f".{name}.{ending}")


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
