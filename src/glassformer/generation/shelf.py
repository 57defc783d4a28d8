"""A cache of compiled code for later processes: one folder each, named by what it was compiled from.

A folder is written atomically, so two processes may build the same one. It holds the checksums of its files, and is
rebuilt if they have changed. The least recently used folders are deleted when the cache exceeds its limit. If nothing
can be cached (a full disk, a folder that is not writable), the result lives as long as the process, and a warning says
so once.
"""

import atexit
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from glassformer.errors import InputError
from glassformer.io import atomic_folder, checksum, remove_partial, write_json
from glassformer.version import __version__

LIMIT = 512 * 2**20  # bytes
SUMS = "checksums.json"
ABANDONED = 3600  # seconds after which a half-written folder counts as abandoned


class Shelf:
    """The folders of one kind."""

    def __init__(self, kind: str) -> None:
        self.home = cache_home() / kind

    def has(self, name: str) -> bool:
        return is_whole(self.home / name)

    def get(self, name: str, make: Callable[[Path], None], *, anew: bool = False) -> Path:
        """The folder of this name: the cached one, or one built now by `make`, which fills an empty folder; `anew`
        always builds."""
        place = self.home / name
        if anew or not is_whole(place):
            shutil.rmtree(place, ignore_errors=True)
            try:
                make_room(self.home.parent)
                with atomic_folder(place) as folder:
                    make(folder)
                    write_json(folder / SUMS, {file.name: checksum(file) for file in folder.iterdir()})
            except (OSError, InputError) as error:
                if anew or not is_whole(place):  # unless another process was faster
                    return self.not_kept(make, error)
        with suppress(OSError):
            os.utime(place)  # most recently used
        return place

    def not_kept(self, make: Callable[[Path], None], error: Exception) -> Path:
        warn_once(
            f"cannot write to the cache folder {self.home} ({error}): compiled code is kept for this process only"
        )
        folder = Path(tempfile.mkdtemp(prefix="glassformer-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        make(folder)
        return folder


def is_whole(folder: Path) -> bool:
    """Whether the files of a folder are unchanged."""
    try:
        sums = json.loads((folder / SUMS).read_text(encoding="utf-8"))
        return all(checksum(folder / name) == kept for name, kept in sums.items())
    except (OSError, ValueError, AttributeError):
        return False


def cache_home() -> Path:
    """GLASSFORMER_CACHE, or a folder in the user's cache."""
    chosen = os.environ.get("GLASSFORMER_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer"


def make_room(home: Path) -> None:
    """Deletes leftovers of killed processes, then the least recently used folders until the cache is within its
    limit."""
    for kind in home.iterdir() if home.is_dir() else ():
        if kind.is_dir():
            remove_partial(kind, before=time.time() - ABANDONED)
    folders = [folder for folder in home.glob("*/*") if folder.is_dir() and not folder.name.startswith(".")]
    folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    total = 0
    for folder in folders:
        total += sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
        if total > LIMIT:
            shutil.rmtree(folder, ignore_errors=True)


def shelf_key(*facts: object) -> str:
    """A hash of these facts, this machine, this torch and this version."""
    everything = (__version__, torch.__version__, sys.version_info[:2], machine(), *facts)
    return hashlib.sha256(repr(everything).encode()).hexdigest()[:24]


@cache
def machine() -> str:
    """What compiled code depends on: the processor and its features."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return f"{platform.machine()} {platform.processor()}"


@cache
def warn_once(message: str) -> None:
    """Prints a message to standard error, only the first time."""
    print(message, file=sys.stderr)
