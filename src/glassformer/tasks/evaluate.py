"""`gf.evaluate`: scores a finished run on its held-out data or on other files.

A run stores its settings, so its held-out data is found again: its files, the seed of its split, its columns.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from glassformer.checkpoints.folder import CONFIG, WEIGHTS
from glassformer.checkpoints.load import usable_device
from glassformer.checkpoints.run import RUN, is_run, read_record
from glassformer.errors import InputError
from glassformer.generation.choose_engine import EngineChoice, Use
from glassformer.hub import find_folder
from glassformer.io import replaced_place
from glassformer.tasks.registry import TASKS, make_task, settings_for_scoring
from glassformer.tasks.settings import TaskSettings
from glassformer.training.checkpoint import FOLDER as CHECKPOINTS
from glassformer.training.task import Scores, Task
from glassformer.training.waiting import LoopProgress

WRITING_TASKS = ("translate", "caption", "ask")  # tasks whose models generate by search
OWN_FILES = ("data", "valid", "test")
OF_A_FILE = ("delimiter", "quotes", "encoding", "sheet")  # settings of the format of those files


def evaluate(
    run: str | Path,
    data: Sequence[str | Path] = (),
    *,
    split: str | None = None,
    task: str | None = None,
    device: str | None = None,
    num_beams: int | None = None,
    engine: Use = "auto",
    follow: LoopProgress | None = None,
    **changes: Any,
) -> Scores:
    """The scores of a run, or of any model if `task` is given, on all of `data` or on a `split` of the run's own data.

    `changes` are settings that differ from training, such as `text_columns`. `engine` is as in `gf.pipeline`: with a
    compiled model, scores may differ in the sixth digit. `follow` shows the progress (`training/waiting.py`).
    """
    made = task_to_score(run, data, split=split, task=task, device=device, num_beams=num_beams, **changes)
    made.follow = follow or made.follow
    choice = EngineChoice(made.model, engine)
    with choice.running(made.work()) as (made.model, made.engine):
        return replace(made.evaluate(), engine=choice.used)


def task_to_score(
    run: str | Path,
    data: Sequence[str | Path] = (),
    *,
    split: str | None = None,
    task: str | None = None,
    device: str | None = None,
    num_beams: int | None = None,
    **changes: Any,
) -> Task:
    """The task of a run with its model loaded and its examples read, ready to be scored."""
    if isinstance(data, str | Path):
        raise InputError(f"data is {str(data)!r}: expected a list of files")
    if split not in (None, "valid", "test"):
        raise InputError(f"split is {split!r}: expected 'valid' or 'test'")
    if data and split:
        raise InputError(f"both files and split={split!r} given: a split belongs to the run's own data. Choose one")
    place = usable_device(device)
    settings = settings_of(run, task, bool(data), changes)
    if num_beams is not None:
        check_beams(num_beams, settings.task)
    files = [Path(file) for file in data]
    if not files:
        check_own_files(settings, str(run))
    made = make_task(settings, files)
    if split == "test" and made.test is None:
        raise InputError(f"{run} has no test set. Leave --split out to score it on the validation set")
    made.split = "valid" if split == "valid" else "test"
    model = made.model.to(place).eval()
    if num_beams is not None:
        model.config = model.config.replace(generation=model.config.generation.replace(num_beams=num_beams))
    return made


def settings_of(run: str | Path, task: str | None, has_data: bool, changes: dict[str, Any]) -> TaskSettings:
    """The settings in the run's record; for another model, the defaults of the named task."""
    if task not in (None, *TASKS):
        raise InputError(f"task is {task!r}: expected one of {', '.join(TASKS)}")
    folder = find_folder(run)
    if is_run(folder):
        record = read_record(folder)
        name, values = record["task"], record["settings"]
        if name not in TASKS:
            raise InputError(f"{folder / RUN}: the task is {name!r}, expected one of {', '.join(TASKS)}")
        if task not in (None, name):
            raise InputError(f"--task {task}: {run} was trained for {name}. Leave --task out")
        if not (folder / WEIGHTS).is_file() and ((folder / CHECKPOINTS).is_dir() or not (folder / CONFIG).is_file()):
            old = replaced_place(folder)
            kept = f". The run that it will replace is in {old}" if old.is_dir() else ""
            raise InputError(
                f"{run} is not finished, so there is no model to score yet. Continue it with train --resume{kept}"
            )
    elif task is None:
        raise InputError(
            f"{run} has no {RUN}, so it is not a run of glassformer train. To score another model, name its task, such "
            "as --task classify"
        )
    elif not has_data:
        raise InputError(f"{run} has no {RUN}, so its held-out data is unknown. Give files to score with --data")
    else:
        name, values = task, {}
    if has_data:  # another file may have another format
        values = {key: value for key, value in values.items() if key not in OF_A_FILE}
    settings = settings_for_scoring(name, values, str(folder))
    known = {entry.name for entry in fields(settings)}
    for change in changes:
        if change not in known:
            raise InputError(f"--{change.replace('_', '-')} is not a setting of {name}. Leave it out")
    return type(settings).from_dict({**settings.to_dict(), **changes})


def check_own_files(settings: TaskSettings, run: str) -> None:
    for name, files in settings.files.items():
        for file in files:
            if not file.exists():
                put_back = "Put it back" if file.is_absolute() else "Run eval in the folder where you ran train"
                raise InputError(
                    f"{file}, the --{name} of {run}, does not exist. {put_back}, or give files with --data"
                )


def check_beams(num_beams: int, task: str) -> None:
    if task not in WRITING_TASKS:
        raise InputError(f"--num-beams is for tasks that generate text, not for {task}. Leave it out")
    if num_beams < 1:
        raise InputError(f"num_beams is {num_beams}: expected at least 1")
