"""The destination of an exported page: checked before the model runs, and written completely or not at all."""

import os
import stat
from pathlib import Path

from glassformer.errors import InputError
from glassformer.io import write_atomic


def check_destination(file: Path) -> Path:
    """The file to write, with links resolved; changes nothing."""
    try:
        kind, whole = stat_mode(file), file.resolve()
        has_folder = whole.parent.is_dir()
    except (OSError, RuntimeError) as error:  # a name too long, or circular links
        raise InputError(f"--export {short_path(file)}: {reason_of(error)}. Choose another file") from None
    if kind is not None and stat.S_ISDIR(kind):
        raise InputError(f"--export {file} is a folder: name a file in it, such as {file / 'page.html'}")
    if file.suffix.lower() != ".html":
        raise InputError(f"--export {file} does not end in .html: expected a name such as page.html")
    if kind is not None and not stat.S_ISREG(kind):
        raise InputError(f"--export {file} is a device, a pipe or a socket: choose a new name or a regular file")
    if not has_folder:
        raise InputError(f"--export {short_path(file)}: no folder {short_path(file.parent)}. Create it first")
    if not os.access(whole.parent, os.W_OK | os.X_OK):
        raise InputError(f"--export {file}: no permission to write to the folder {file.parent}. Choose another")
    if kind is not None and not os.access(whole, os.W_OK):
        raise InputError(f"--export {file}: no permission to write to this file. Choose another")
    if len(os.fsencode(whole.name)) > os.pathconf(whole.parent, "PC_NAME_MAX"):
        raise InputError(f"--export {short_path(file)}: the name is too long. Choose a shorter one")
    return whole


def stat_mode(file: Path) -> int | None:
    """The type of an existing file, from `stat`; None if there is none."""
    try:
        return file.stat().st_mode
    except FileNotFoundError:
        return None


def replace_page(file: Path, text: str) -> None:
    """Keeps the old file until the new one is complete."""
    place = check_destination(file)
    try:
        write_atomic(place, text)
    except OSError as error:
        raise InputError(f"--export {file} cannot be written: {reason_of(error)}. Choose another file") from None


def reason_of(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def short_path(path: Path) -> str:
    """A path short enough for an error message."""
    text = str(path)
    return text if len(text) <= 120 else f"{text[:80]}...{text[-20:]}"
