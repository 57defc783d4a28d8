"""The facts that determine the bytes of an output. A job can only be continued if they have not changed."""

import hashlib
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoints.folder import MODEL_FILES, WEIGHT_FILES
from glassformer.checkpoints.run import RUN
from glassformer.errors import InputError
from glassformer.predict.bulk.journal import JobFacts
from glassformer.predict.series import SCALE_FILE
from glassformer.version import __version__

EDGE = 1 << 20  # bytes hashed at each end of a large file
LARGE = 1 << 26


def job_facts(folder: Path, checksum: str, count: int, settings: dict[str, Any], chunk: tuple[int, int]) -> JobFacts:
    """The facts of a job, except for the number of threads and the engine, which are chosen when it starts."""
    return {
        "glassformer": __version__,
        "torch": torch.__version__,
        "model": model_checksum(folder),
        "input": checksum,
        "rows": count,
        "settings": {name: json_value(value) for name, value in settings.items()},
        "chunk": list(chunk),
    }


def check_same_job(before: JobFacts, now: JobFacts, out: Path, file: Path, folder: Path) -> None:
    """Refuses to continue an output that was started with other facts."""
    way_out = "or start over with --overwrite"
    for name, value in {**before.get("settings", {}), **now["settings"]}.items():
        was = before.get("settings", {}).get(name)
        if value != was or name not in now["settings"]:
            flag, is_now = f"--{name.replace('_', '-')}", now["settings"].get(name)
            raise InputError(
                f"--out {out} was started with {said(flag, was)}, and now with {said(flag, is_now)}: use the same "
                f"command as before, {way_out}"
            )
    changed = {
        "input": f", and {file} has changed since: restore it",
        "rows": f", and {file} has changed since: restore it",
        "model": f", and the model in {folder} has changed since: restore it",
        "glassformer": f" by glassformer {before.get('glassformer')}, and this is {__version__}: use that version",
        "torch": f" with torch {before.get('torch')}, and this is {torch.__version__}: use that version",
        "chunk": " with another chunk size: use the version of glassformer that started it",
    }
    for name, what in changed.items():
        if before.get(name) != now[name]:
            raise InputError(f"--out {out} was started{what}, {way_out}")


def said(flag: str, value: Any) -> str:
    return f"no {flag}" if value is None else f"{flag} {value}"


def json_value(value: Any) -> Any:
    """A value as it is after a round trip through JSON."""
    return list(value) if isinstance(value, tuple) else value


def model_checksum(folder: Path) -> str:
    """A checksum of a model's files: names, sizes and content; of large files only the start and the end."""
    found = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        is_ours = file.name in {*MODEL_FILES, RUN, SCALE_FILE} or WEIGHT_FILES.fullmatch(file.name)
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
