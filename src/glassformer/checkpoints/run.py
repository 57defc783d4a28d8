"""`run.json`: how a run came about, and how its inputs were prepared. Written by `training/run.py`."""

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
    """How a training treated its texts, so that they are treated alike ever after. Of other models nothing is known."""

    max_len: int | None = None  # tokens of a text
    truncate: bool = False  # whether a longer text was cut, or refused
    columns: tuple[str, ...] = ()  # of the texts, in tables
    texts: int | None = None  # in an example: 1, or the 2 of a pair


NO_RULES = TextRules()


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
    if isinstance(record["settings"], dict):
        record["settings"] = EARLIER.get(str(record["task"]), {}) | record["settings"]
    return record


def read_text_rules(folder: Path) -> TextRules:
    """How the training that wrote this folder treated its texts, if one did."""
    record = parse_json(folder / RUN) if is_run(folder) else {}
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
        return NO_RULES  # no run of ours
    settings = record["settings"]
    named = settings.get("text_columns") or [settings.get("source_column") or settings.get("text_column")]
    columns = tuple(str(name) for name in named if name)
    return TextRules(
        max_len=settings.get("max_len"),
        truncate=bool(settings.get("truncate")),
        columns=columns,
        texts=record.get("texts") or (len(columns) if settings.get("text_columns") else None),
    )
