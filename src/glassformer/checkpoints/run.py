"""`run.json`: how a run came about, and how its inputs were prepared. Written by `training/run.py`."""

from pathlib import Path
from typing import Any

from glassformer.errors import InputError
from glassformer.io import parse_json

RUN = "run.json"


def is_run(folder: Path) -> bool:
    """Whether a training wrote this folder."""
    return (folder / RUN).is_file()


def read_record(path: str | Path) -> dict[str, Any]:
    """What a run folder says of itself."""
    file = Path(path) / RUN
    if not is_run(Path(path)):
        raise InputError(f"{path} has no {RUN}: it is half-written, or not a run folder")
    record = parse_json(file)
    if not isinstance(record, dict) or "task" not in record or "settings" not in record:
        raise InputError(f"{file} does not say what the run was trained for")
    return record
