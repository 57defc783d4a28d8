"""Reads `run.json`: the task and settings of a run, and how its inputs were prepared. `training/run.py` writes it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import InputError
from glassformer.io import parse_json

RUN = "run.json"
# Settings that runs of earlier versions lack, as those versions behaved.
EARLIER = {"classify": {"examples": "documentation"}}


@dataclass(frozen=True)
class TextRules:
    """How training prepared its texts, so that prediction prepares them in the same way. Unknown for other models."""

    max_len: int | None = None  # tokens per text
    truncate: bool = False  # whether longer texts were truncated; else they were refused
    columns: tuple[str, ...] = ()  # the table columns with the texts
    texts: int | None = None  # texts per example: 1, or 2 for pairs


NO_RULES = TextRules()


def is_run(folder: Path) -> bool:
    """Whether this folder was written by training."""
    return (folder / RUN).is_file()


def read_record(path: str | Path) -> dict[str, Any]:
    """The content of `run.json`."""
    file = Path(path) / RUN
    if not is_run(Path(path)):
        raise InputError(f"{path} has no {RUN}: it is incomplete, or not a run folder")
    record = parse_json(file)
    if not isinstance(record, dict) or "task" not in record or "settings" not in record:
        raise InputError(f"{file} has no task and settings: expected the file that glassformer train wrote")
    if isinstance(record["settings"], dict):
        record["settings"] = EARLIER.get(str(record["task"]), {}) | record["settings"]
    return record


def read_text_rules(folder: Path) -> TextRules:
    """How training prepared the texts of the run in this folder, if it is one."""
    record = parse_json(folder / RUN) if is_run(folder) else {}
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
        return NO_RULES  # not a run of ours
    settings = record["settings"]
    named = settings.get("text_columns") or [settings.get("source_column") or settings.get("text_column")]
    columns = tuple(str(name) for name in named if name)
    return TextRules(
        max_len=settings.get("max_len"),
        truncate=bool(settings.get("truncate")),
        columns=columns,
        texts=record.get("texts") or (len(columns) if settings.get("text_columns") else None),
    )
