"""A training as a run folder: the model as any tool reads it, `run.json` with the settings, `metrics.jsonl`.

The folder is written as NAME.partial and takes its name when all is there, so a run is whole or not a run.
"""

import json
import shlex
import sys
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from glassformer import __version__
from glassformer.checkpoints.files import WEIGHTS, whole_folder, write_model
from glassformer.errors import InputError
from glassformer.settings import TrainSettings
from glassformer.text import Tokenizer
from glassformer.train.loop import Task, train
from glassformer.train.report import Report

RUN = "run.json"


class TextTask(Task, Protocol):
    """A task whose model reads text."""

    name: str
    tokenizer: Tokenizer


def check_free(settings: TrainSettings) -> None:
    """Refuses a folder that holds something else; asked before any work is done."""
    out = settings.out
    if out.is_file():
        raise InputError(f"--out {out} is a file: expected a folder to write")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / RUN).is_file():
        raise InputError(f"--out {out} is a folder with other things in it: choose another")
    if (out / WEIGHTS).is_file() and not settings.overwrite:
        raise InputError(f"--out {out} holds a finished run: choose another folder, or replace it with --overwrite")


def run(task: TextTask, settings: TrainSettings, console: Console) -> dict[str, float]:
    """Trains, scores, and writes the run folder."""
    with whole_folder(settings.out) as folder:
        with Report(settings.steps, folder / "metrics.jsonl", console) as report:
            results = train(task, settings, report)
        record: dict[str, Any] = {
            "task": task.name,
            "command": shlex.join(["glassformer", *sys.argv[1:]]),
            "glassformer_version": __version__,
            "settings": settings.to_dict(),
            "results": {key: round(value, 6) for key, value in results.items()},
        }
        (folder / RUN).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        write_model(task.model, folder, task.tokenizer)
    return results


def task_of(path: str | Path) -> str:
    """What a run folder was trained for."""
    file = Path(path) / RUN
    if not file.is_file():
        raise InputError(f"{path} has no {RUN}: it is half-written, or not a run folder")
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["task"])
    except (ValueError, KeyError):
        raise InputError(f"{file} cannot be read. Is the file whole?") from None
