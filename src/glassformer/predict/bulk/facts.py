"""What decides the bytes of an output: a job that is gone on with must have the same facts as when it was begun."""

import hashlib
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoints.folder import FILES, WEIGHT_FILES
from glassformer.checkpoints.run import RUN
from glassformer.errors import InputError
from glassformer.predict.bulk.journal import Facts
from glassformer.predict.series import SCALE
from glassformer.version import __version__

EDGE = 1 << 20  # bytes at both ends of a large file that are looked at
LARGE = 1 << 26


def facts_of(folder: Path, checksum: str, count: int, settings: dict[str, Any], chunk: tuple[int, int]) -> Facts:
    """The facts of a job, but for how many threads and which engine compute it: those are chosen when it begins."""
    return {
        "glassformer": __version__,
        "torch": torch.__version__,
        "model": model_checksum(folder),
        "input": checksum,
        "rows": count,
        "settings": {name: as_plain(value) for name, value in settings.items()},
        "chunk": list(chunk),
    }


def check_same(before: Facts, now: Facts, out: Path, file: Path, folder: Path) -> None:
    """Refuses to go on with an output that was begun otherwise."""
    way_out = "or start anew with --overwrite"
    for name, value in {**before.get("settings", {}), **now["settings"]}.items():
        was = before.get("settings", {}).get(name)
        if value != was or name not in now["settings"]:
            flag, is_now = f"--{name.replace('_', '-')}", now["settings"].get(name)
            raise InputError(
                f"--out {out} was begun with {said(flag, was)}, and now it is {said(flag, is_now)}: give the same "
                f"command as then, {way_out}"
            )
    changed = {
        "input": f"{file} has changed since: bring the old one back",
        "rows": f"{file} has changed since: bring the old one back",
        "model": f"the model in {folder} has changed since: bring the old one back",
        "glassformer": f"by glassformer {before.get('glassformer')}, and this is {__version__}: use that version",
        "torch": f"with torch {before.get('torch')}, and this is {torch.__version__}: use that version",
        "chunk": "in chunks of another size: use the version of glassformer that began it",
    }
    for name, what in changed.items():
        if before.get(name) != now[name]:
            raise InputError(f"--out {out} was begun, and {what}, {way_out}")


def said(flag: str, value: Any) -> str:
    return f"no {flag}" if value is None else f"{flag} {value}"


def as_plain(value: Any) -> Any:
    """A value as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def model_checksum(folder: Path) -> str:
    """Of a model's files: their names and sizes, and their content, of large ones the beginning and the end."""
    found = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        is_ours = file.name in {*FILES, RUN, SCALE} or WEIGHT_FILES.fullmatch(file.name)
        if not is_ours or not file.is_file():
            continue
        size = file.stat().st_size
        found.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as opened:
            if size <= LARGE:
                found.update(opened.read())
            else:
                found.update(opened.read(EDGE))
                opened.seek(-EDGE, 2)
                found.update(opened.read())
    return found.hexdigest()
