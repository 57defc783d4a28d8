"""Where an exported page goes: looked at before the model runs, and written whole or not at all."""

import os
import stat
from pathlib import Path

from glassformer.errors import InputError
from glassformer.io import write_whole


def check_destination(file: Path) -> Path:
    """The file that will be written, links followed; nothing is touched."""
    try:
        kind, whole = kind_of(file), file.resolve()
        has_folder = whole.parent.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, or links in a circle
        raise InputError(f"--export {shortened(file)}: {reason_of(error)}. Choose another file") from None
    if kind is not None and stat.S_ISDIR(kind):
        raise InputError(f"--export {file} is a folder: name a file in it, such as {file / 'page.html'}")
    if file.suffix.lower() != ".html":
        raise InputError(f"--export {file} does not end in .html: expected a name such as page.html")
    if kind is not None and not stat.S_ISREG(kind):
        raise InputError(
            f"--export {file} is a device, a pipe or a socket: choose a name that is free, or a plain file"
        )
    if not has_folder:
        raise InputError(f"--export {shortened(file)}: there is no folder {shortened(file.parent)}. Make it first")
    if not os.access(whole.parent, os.W_OK | os.X_OK):
        raise InputError(f"--export {file}: you may not write to the folder {file.parent}. Choose another")
    if kind is not None and not os.access(whole, os.W_OK):
        raise InputError(f"--export {file}: you may not write to this file. Choose another")
    if len(os.fsencode(whole.name)) > os.pathconf(whole.parent, "PC_NAME_MAX"):
        raise InputError(f"--export {shortened(file)}: the name is too long. Choose a shorter one")
    return whole


def kind_of(file: Path) -> int | None:
    """What is there already, as `stat` says it; None if nothing is."""
    try:
        return file.stat().st_mode
    except FileNotFoundError:
        return None


def write_page(file: Path, text: str) -> None:
    """What was there before stays until all is written."""
    place = check_destination(file)
    try:
        write_whole(place, text)
    except OSError as error:
        raise InputError(f"--export {file} cannot be written: {reason_of(error)}. Choose another file") from None


def reason_of(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def shortened(path: Path) -> str:
    """A path that fits into a sentence."""
    text = str(path)
    return text if len(text) <= 120 else f"{text[:80]}...{text[-20:]}"
