"""Files: JSON in and out, and how a file appears whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import InputError


def parse_json(file: Path) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file} is not JSON ({error}). Is the file whole?") from None


def write_whole(file: Path, values: Mapping[str, Any]) -> None:
    """Writes JSON beside its place and moves it there."""
    partial = file.with_name(f".{file.name}.partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


def sync(folder: Path) -> None:
    """Makes sure that the names in a folder are on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
