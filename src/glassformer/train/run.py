"""A training as a run folder: the model as any tool reads it, `run.json` with the settings, `metrics.jsonl`.

The folder is written beside its place and moved there when all is there, so a run is whole or not a run.
"""

import json
import shlex
import sys
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from glassformer import __version__
from glassformer.checkpoints.folder import WEIGHTS, whole_folder
from glassformer.checkpoints.save import write_model
from glassformer.errors import InputError
from glassformer.schema import parse_json
from glassformer.settings import TrainSettings
from glassformer.text import Tokenizer
from glassformer.train.loop import Task, train
from glassformer.train.report import Report

RUN, METRICS = "run.json", "metrics.jsonl"


class TextTask(Task, Protocol):
    """A task whose model reads text."""

    name: str
    tokenizer: Tokenizer


def check_free(settings: TrainSettings) -> None:
    """Refuses a folder that holds something else, or a finished run; asked before any work is done."""
    out = settings.out
    if out.is_file():
        raise InputError(f"--out {out} is a file: expected a folder to write")
    if out.resolve() == Path.cwd():
        raise InputError(f"--out {out} is the folder you are in: name one inside it, such as runs/mine")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / RUN).is_file():
        raise InputError(f"--out {out} is a folder with other things in it: choose another")
    if (out / WEIGHTS).is_file() and not settings.overwrite:
        raise InputError(f"--out {out} holds a finished run: choose another folder, or replace it with --overwrite")


def run(task: TextTask, settings: TrainSettings, console: Console, *, verb: str) -> dict[str, float]:
    """Trains, writes the run folder, and scores: in that order, so that what was trained is kept in any case."""
    check_free(settings)
    record: dict[str, Any] = {
        "task": task.name,
        "verb": verb,
        "command": shlex.join(["glassformer", *sys.argv[1:]]),
        "glassformer_version": __version__,
        "settings": settings.to_dict(),
    }
    with whole_folder(settings.out, replaces=(RUN, METRICS)) as folder:
        with Report(settings.steps, folder / METRICS, console) as report:
            seconds = train(task, settings, report)
        write_model(task.model, folder, task.tokenizer)
        write_record(folder, record)
    results = {**task.evaluate(), "train_seconds": seconds}
    write_record(settings.out, {**record, "results": {key: round(value, 6) for key, value in results.items()}})
    return results


def write_record(folder: Path, record: dict[str, Any]) -> None:
    written = folder / f"{RUN}.partial"
    written.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    written.replace(folder / RUN)


def read_record(path: str | Path) -> dict[str, Any]:
    """What a run folder says of itself."""
    file = Path(path) / RUN
    if not file.is_file():
        raise InputError(f"{path} has no {RUN}: it is half-written, or not a run folder")
    record = parse_json(file)
    if not isinstance(record, dict) or "task" not in record:
        raise InputError(f"{file} does not say what the run was trained for")
    return record
