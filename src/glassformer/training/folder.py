"""The folder of a run: checks that it is free, writes run.json first, and restores a replaced run if the training
fails.

`run.json` is written first and atomically, so that a kill at any moment leaves a folder that the same command, --resume
or --overwrite can use. A run that is being replaced is kept in `.mine.replaced` until the new one has a model.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.checkpoints.folder import WEIGHTS
from glassformer.checkpoints.run import RUN, is_run, read_record
from glassformer.errors import InputError
from glassformer.io import discard, partial_name, remove_partial, replaced_place, sync, write_json
from glassformer.training.checkpoint import FOLDER as CHECKPOINTS
from glassformer.training.checkpoint import has_checkpoint
from glassformer.training.settings import DATA, FREE, NOT_STORED, TrainSettings

METRICS, REPORT, LOG, TOKENS = "metrics.jsonl", "report.html", "tensorboard", "tokens"
MODELS = ("init", "tokenizer_from")  # the settings that may name a folder
UNFINISHED_FILES = (METRICS, LOG, CHECKPOINTS)  # files of a run without a checkpoint, deleted before it starts again


def check_free(settings: TrainSettings) -> None:
    """Refuses a folder that holds something else, or a run that is neither resumed nor replaced. Called before any
    work is done."""
    out = settings.out
    if out.is_file():
        raise InputError(f"--out {out} is a file: expected a folder to write")
    if out.resolve() == Path.cwd():
        raise InputError(f"--out {out} is the current folder. Name one inside it, such as runs/mine")
    if not is_run(out) and replaced_place(out).is_dir() and not settings.overwrite:
        raise InputError(
            f"--out {out}: an earlier --overwrite was interrupted. The old run is complete, in "
            f"{replaced_place(out)}. Move it back, or replace it with --overwrite"
        )
    if settings.resume:
        if not is_run(out):
            raise InputError(f"--resume: {out} has no {RUN}, so there is no run to continue. Leave --resume out")
        check_same_settings(settings)
        return
    if is_empty(out):
        return
    if not is_run(out):
        raise InputError(f"--out {out} is a folder with other files in it. Choose another")
    if not settings.overwrite and not can_start_again(settings):
        state = "a finished run" if (out / WEIGHTS).is_file() else "an unfinished run"
        raise InputError(
            f"--out {out} holds {state}: choose another folder, continue the run (--resume) or replace it (--overwrite)"
        )


def is_empty(out: Path) -> bool:
    """Whether a folder is empty, or holds only what a killed process left before its run began."""
    return not out.is_dir() or all(is_leftover(entry.name) for entry in out.iterdir())


def is_leftover(name: str) -> bool:
    return name in (TOKENS, ".lock") or (name.startswith(f".{RUN}.") and name.endswith(".partial"))


def can_start_again(settings: TrainSettings) -> bool:
    """Whether the folder holds the start of this same run without a checkpoint: nothing is lost if it starts again."""
    out = settings.out
    if not is_run(out) or (out / WEIGHTS).exists() or has_checkpoint(out):
        return False
    record = read_record(out)
    return record["task"] == settings.task and identity(record["settings"]) == identity(settings.to_dict())


def identity(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that identify a run."""
    return {name: value for name, value in with_absolute_paths(settings).items() if name not in (*NOT_STORED, "out")}


def check_same_settings(settings: TrainSettings) -> None:
    """Refuses to resume with settings that would change the result."""
    record = read_record(settings.out)
    if record["task"] != settings.task:
        raise InputError(f"--resume: {settings.out} was trained for {record['task']}, not {settings.task}")
    before, now = with_absolute_paths(record["settings"]), with_absolute_paths(settings.to_dict())
    for name, value in now.items():
        if name not in FREE and name in before and before[name] != value:
            raise InputError(
                f"--resume: --{name.replace('_', '-')} is {value!r}, but the run was started with {before[name]!r}. "
                "Leave it out, or start a new run"
            )


def with_absolute_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as stored in run.json, with absolute paths, so that the run works from any folder."""

    def whole(path: Any) -> Any:
        if isinstance(path, list):
            return [whole(each) for each in path]
        return path and str(Path(path).absolute())

    data = {name: whole(settings[name]) for name in DATA if name in settings}
    models = {  # hub ids stay as they are
        name: whole(settings[name]) for name in MODELS if settings.get(name) and Path(settings[name]).exists()
    }
    return {**settings, **data, **models}


class RunFolder:
    """The folder of one training run, written by its first process, which holds the lock (`training/lock.py`)."""

    def __init__(self, settings: TrainSettings) -> None:
        check_free(settings)
        self.settings, self.out, self.place = settings, settings.out, settings.out.resolve()
        self.replaced = replaced_place(self.out)
        self.is_replacing = settings.overwrite and is_run(self.out)
        self.moved_aside = settings.overwrite and not is_run(self.out) and self.replaced.is_dir()
        takes_up = not settings.resume and is_run(self.out) and not self.is_replacing
        self.was_there = self.out.is_dir() and not takes_up

    def begin(self, record: Mapping[str, Any]) -> None:
        """Writes run.json before anything else. A resumed run already has it; a run that is to be replaced stays
        until `replace`."""
        if self.settings.resume or self.is_replacing:
            return
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            self.write(record)
            self.clean()
            for name in UNFINISHED_FILES:
                self.remove(self.out / name)
        except OSError as error:
            raise InputError(f"--out {self.out} cannot be written: {error.strerror}") from None

    def replace(self, record: Mapping[str, Any]) -> None:
        """Moves the old run aside once the new one has everything it needs."""
        if not self.is_replacing:
            return
        new = partial_name(self.place)
        try:
            shutil.rmtree(new, ignore_errors=True)  # left by an earlier process with the same id
            new.mkdir()
            write_json(new / RUN, record, durable=True)
            if (self.place / TOKENS).is_dir():  # of the task that was just made
                (self.place / TOKENS).rename(new / TOKENS)
            if (self.place / WEIGHTS).is_file() or not self.replaced.is_dir():
                discard(self.replaced)
                self.place.rename(self.replaced)
            else:  # an unfinished replacement: the old run still exists
                discard(self.place)
            self.moved_aside = True
            new.rename(self.place)
            sync(self.place.parent)
        except OSError as error:
            raise InputError(f"--out {self.out} cannot be written: {error.strerror}") from None

    def write(self, record: Mapping[str, Any]) -> None:
        write_json(self.out / RUN, record, durable=True)

    def clean(self) -> None:
        """Deletes half-written files of killed processes, in the folder and beside it."""
        remove_partial(self.out)
        for name in (self.place.name, self.replaced.name):
            remove_partial(self.place.parent, of=f"{name[:60]}.")

    def end(self) -> None:
        """Deletes the replaced run: the new model exists."""
        discard(self.replaced)

    def put_back(self) -> None:
        """Restores the replaced run if the new one failed before its first checkpoint; a run that had not begun
        leaves nothing. With a checkpoint, both stay."""
        if self.settings.resume:
            return
        if self.moved_aside:
            if has_checkpoint(self.out):
                print(f"the replaced run is in {self.replaced}", file=sys.stderr)
                return
            discard(self.place)
            self.replaced.rename(self.place)
            return
        metrics = self.out / METRICS
        if self.is_replacing or has_checkpoint(self.out) or (metrics.is_file() and metrics.stat().st_size > 0):
            return
        if not self.was_there:
            discard(self.place)
            return
        for entry in self.out.iterdir():
            if not is_leftover(entry.name):
                self.remove(entry)

    def remove(self, entry: Path) -> None:
        if entry.is_dir() and not entry.is_symlink():
            discard(entry)
        else:
            entry.unlink(missing_ok=True)
