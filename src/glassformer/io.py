"""Reads and writes JSON, and writes files and folders atomically.

A file is written under a hidden temporary name beside its destination and renamed when it is complete. A reader never
sees half of it, and if the writer is stopped, the old file stays.
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

MAX_JSON_BYTES = 1 << 26  # bytes; the parsed values take up to twenty times as much memory


def parse_json(file: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(read_small(file, MAX_JSON_BYTES).decode("utf-8"))
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not JSON: it is not UTF-8 text ({error}). The file may be damaged") from None
    except ValueError as error:
        raise InputError(f"{file} is not JSON ({error}). The file may be incomplete") from None
    except RecursionError:
        raise InputError(
            f"{file} is nested too deeply to be read: expected a few levels of objects and lists"
        ) from None


def read_small(file: Path, most: int) -> bytes:
    """The content of a file that should be small, such as settings or a vocabulary: at most `most` bytes."""
    with file.open("rb") as stream:
        content = stream.read(min(file.stat().st_size, most) + 1)
    if len(content) > most:
        raise InputError(
            f"{file} has {max(len(content), file.stat().st_size):,} bytes: expected at most {most:,}. Is it the right "
            "file?"
        )
    return content


def read_json(file: Path, expected: str = "an object, as in {}") -> dict[str, Any]:
    """The object in a JSON file; for any other value, the error says what was expected."""
    values = parse_json(file)
    if not isinstance(values, dict):
        raise InputError(f"{file}: expected {expected}")
    return values


def write_json(file: Path, values: Mapping[str, Any], *, durable: bool = False) -> None:
    """Writes indented JSON, atomically."""
    text = json.dumps(values, indent=2, ensure_ascii=False)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:  # a path that is not UTF-8
        content = json.dumps(values, indent=2).encode("ascii")
    write_atomic(file, content + b"\n", durable=durable)


def write_atomic(file: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Writes a file atomically."""
    with atomic_file(file, durable=durable) as stream:
        stream.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def atomic_file(file: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """A temporary file to write to, which is renamed to `file` when it is complete.

    With `durable` it is flushed to disk first, so that it survives a crash of the machine. A device or a pipe, such as
    /dev/stdout, is written to directly.
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
def atomic_folder(path: Path, *, stays: Callable[[Path, Path], bool] = lambda entry, new: False) -> Iterator[Path]:
    """A temporary folder to write to, which is renamed to `path` when it is complete.

    `stays` is called with each entry of the old folder and the new folder; entries for which it is true are kept. A
    kill between the two renames leaves the old folder at its `replaced_place`, and the next call moves it back.
    """
    folder = path.resolve()
    partial, old = partial_name(folder), replaced_place(folder)
    try:
        if old.is_dir() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)  # left by an earlier process with the same id
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
    """Hard-links a file, or the files of a folder; copies where the file system has no hard links."""

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
    """The temporary name of a file or folder: unique to this process, and never too long."""
    return place.with_name(f".{place.name[:60]}.{os.getpid()}.partial")


def remove_partial(folder: Path, *, before: float = math.inf, of: str = "") -> None:
    """Removes unfinished files and folders of killed processes from a folder; with `of`, only those with that name.

    Files changed at the time `before` or later stay; without `before`, files that a live process is writing stay.
    """
    for partial in folder.glob(f".{glob.escape(of)}*.partial"):
        with suppress(FileNotFoundError):  # its writer has just finished
            is_new = partial.lstat().st_mtime >= before if math.isfinite(before) else is_being_written(partial)
            if is_new:
                continue
            if partial.is_dir() and not partial.is_symlink():
                shutil.rmtree(partial, ignore_errors=True)
            else:
                partial.unlink()


def is_being_written(partial: Path) -> bool:
    """Whether its name belongs to another live process of this machine."""
    found = re.search(r"\.(\d+)\.partial$", partial.name)
    number = int(found[1]) if found and len(found[1]) < 10 else os.getpid()
    return number != os.getpid() and is_alive(number)


def is_alive(process: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def discard(folder: Path) -> None:
    """Removes a folder: it is renamed first, so that a kill leaves at most a temporary folder."""
    gone = partial_name(folder.with_name(f"{folder.name[:50]}.gone"))
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def replaced_place(folder: Path) -> Path:
    """The place of a run while another one replaces it."""
    return hidden_beside(folder, "replaced")


def hidden_beside(folder: Path, ending: str) -> Path:
    """A hidden name beside a folder, unique to it and never too long."""
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
    """Tells whether data has changed: a hash of a file's content, or of the names, sizes and times of a folder's files.

    None for what can be read only once, such as a pipe.
    """
    if path.is_file():
        return {"bytes": path.stat().st_size, "sha256": checksum(path)}
    if not path.is_dir():
        return None
    return fingerprint_of(path, (entry for entry in path.rglob("*") if entry.is_file()))


def fingerprint_of(folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """The same for several files, by their relative paths, sizes and times."""
    digest, count = hashlib.sha256(), 0
    for file in sorted(set(files)):
        about = file.stat()
        name = os.path.relpath(file, folder)
        digest.update(f"{name}\0{about.st_size}\0{about.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
        count += 1
    return {"files": count, "sha256": digest.hexdigest()}


def sync(folder: Path) -> None:
    """Flushes the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
