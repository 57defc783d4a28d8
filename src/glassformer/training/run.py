"""A training as a run folder: the model as any tool reads it, `run.json`, `metrics.jsonl`, the report.

runs/mine/run.json        what was asked for, and in the end the results
runs/mine/metrics.jsonl   the curves
runs/mine/checkpoints/    to go on from
runs/mine/tokens/         text of your own, ready for a language model
runs/mine/config.json, model.safetensors, tokenizer.json, ...   once it has ended
runs/mine/report.html     the same for people
"""

import json
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from glassformer.checkpoints.folder import WEIGHTS
from glassformer.checkpoints.run import RUN, is_run, read_record
from glassformer.checkpoints.save import write_model
from glassformer.errors import InputError, Stopped, nearest
from glassformer.io import partial_name, remove_partial, write_json
from glassformer.text.tokenizer import TOKENIZER
from glassformer.threads import Load, exactly, threads_of_training
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.loop import Trainer
from glassformer.training.ranks import Ranks
from glassformer.training.report import Report, as_time
from glassformer.training.settings import FREE, TrainSettings
from glassformer.training.signals import Signals
from glassformer.training.task import Scores, Task
from glassformer.version import __version__

METRICS, REPORT, LOG, TOKENS = "metrics.jsonl", "report.html", "tensorboard", "tokens"


def check_free(settings: TrainSettings) -> None:
    """Refuses a folder that holds something else, or a run that is neither to be resumed nor replaced; asked before
    any work is done."""
    out = settings.out
    if out.is_file():
        raise InputError(f"--out {out} is a file: expected a folder to write")
    if out.resolve() == Path.cwd():
        raise InputError(f"--out {out} is the folder you are in: name one inside it, such as runs/mine")
    if settings.resume:
        if not is_run(out):
            raise InputError(f"--resume: {out} has no {RUN}, so there is no run to go on with. Leave --resume out")
        check_same(settings)
        return
    if not out.is_dir() or not any(entry.name != TOKENS for entry in out.iterdir()):
        return
    if not is_run(out):
        raise InputError(f"--out {out} is a folder with other things in it: choose another")
    if not settings.overwrite:
        state = "a finished run" if (out / WEIGHTS).is_file() else "a run that has not ended"
        raise InputError(
            f"--out {out} holds {state}: choose another folder, go on with it (--resume), or replace it (--overwrite)"
        )


def check_same(settings: TrainSettings) -> None:
    """A resumed run is the same run: what would change its result is refused by name."""
    record = read_record(settings.out)
    if record["task"] != settings.task:
        raise InputError(f"--resume: {settings.out} was trained for {record['task']}, not {settings.task}")
    before, now = record["settings"], settings.to_dict()
    for name, value in now.items():
        if name not in FREE and name in before and before[name] != value:
            raise InputError(
                f"--resume: --{name.replace('_', '-')} is {value!r} and was {before[name]!r} when the run began. Leave "
                "it out, or start another run"
            )


def check_metric(task: Task, settings: TrainSettings) -> None:
    if settings.metric not in (None, *task.metrics):
        known = nearest(str(settings.metric), task.metrics)
        raise InputError(f"--metric {settings.metric}: {task.name} does not measure it{known}")


def run(
    make_task: Callable[[TrainSettings], Task],
    settings: TrainSettings,
    console: Console,
    *,
    verb: str,
    command: str | None = None,
) -> tuple[Task, Scores]:
    """Trains, writes the model, and scores: in that order, so that what was trained is kept in any case.

    `command` is what a person wrote for it; what was typed, if not given.
    """
    ranks = Ranks(settings.device)
    if not ranks.is_first:
        console = Console(quiet=True)
    try:
        current = Run(settings, ranks, console, verb, command)
        try:
            return current.go(make_task)
        except BaseException:
            current.put_back()
            raise
    finally:
        ranks.close()


class Run:
    """One training in its folder."""

    task: Task

    def __init__(
        self, settings: TrainSettings, ranks: Ranks, console: Console, verb: str, command: str | None = None
    ) -> None:
        self.settings, self.ranks, self.console, self.out = settings, ranks, console, settings.out
        self.load = Load()
        check_free(settings)
        self.was_there, self.moved_aside = self.out.exists(), False
        self.replaced = self.out.with_name(f".{self.out.name}.replaced")
        self.record: dict[str, Any] = {
            "task": settings.task,
            "verb": verb,
            "command": command or shlex.join(["glassformer", *sys.argv[1:]]),
            "glassformer_version": __version__,
            "settings": {**settings.to_dict(), "resume": False, "overwrite": False},
        }
        self.threads: int | None = None  # that the run began with
        if settings.resume:
            before = read_record(self.out)
            self.record["command"] = before["command"]  # the one that began it
            self.threads = before.get("threads")

    def go(self, make_task: Callable[[TrainSettings], Task]) -> tuple[Task, Scores]:
        with self.ranks.first_alone():
            self.task = make_task(self.settings)
        check_metric(self.task, self.settings)
        self.record |= self.task.record()
        self.most_threads = torch.get_num_threads()
        threads = self.record["threads"] = threads_of_training(self.load, self.threads)
        with exactly(threads):
            return self.train()

    def train(self) -> tuple[Task, Scores]:
        if self.ranks.is_first:
            self.prepare()
        self.ranks.wait()
        for name, said in self.task.describe().items():
            self.console.print(f"{name:8}{said}")
        self.tell_threads()
        checkpoints = Checkpoints(self.out, self.ranks, self.settings.keep)
        steps = self.task.budget(self.settings)
        metrics = self.out / METRICS if self.ranks.is_first else Path("/dev/null")
        log = self.out / LOG if self.settings.tensorboard and self.ranks.is_first else None
        unit = "tokens" if self.task.tokenizer is not None else self.task.unit
        with Report(metrics, self.console, unit=unit, steps=steps, log=log) as report:
            trainer = Trainer(self.task, self.settings, self.ranks, checkpoints, report)
            if self.settings.resume:
                self.go_back(trainer, report)
            with Signals() as signals:
                number = trainer.run(signals)
        if number:
            raise Stopped(number, self.how_to_go_on(number, trainer))
        kept = trainer.finish()
        scores = self.write(trainer, kept) if self.ranks.is_first else None
        return self.task, self.ranks.from_first(scores)

    def prepare(self) -> None:
        """Makes the folder. A run that is to be replaced stays aside until the new one has ended."""
        tokens, aside = self.out / TOKENS, self.out.with_name(f".{self.out.name}.{TOKENS}")
        if self.settings.overwrite and self.out.exists():
            shutil.rmtree(aside, ignore_errors=True)
            if tokens.is_dir():  # those of the task that was just made
                tokens.rename(aside)
            if (self.out / WEIGHTS).is_file():
                shutil.rmtree(self.replaced, ignore_errors=True)
                self.out.rename(self.replaced)
                self.moved_aside = True
            else:
                shutil.rmtree(self.out)
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            if aside.is_dir() and not tokens.exists():
                aside.rename(tokens)
            remove_partial(self.out)
        except OSError as error:
            raise InputError(f"--out {self.out} cannot be written: {error.strerror}") from None
        self.keep_tokenizer()
        write_json(self.out / RUN, self.record, durable=True)

    def tell_threads(self) -> None:
        """Says when a run uses fewer threads than it could, or not as many as it began with."""
        threads = self.record["threads"]
        if self.threads not in (None, threads):
            self.console.print(
                f"threads {threads}, as OMP_NUM_THREADS says; the run began with {self.threads}, so its last bits "
                "will differ"
            )
        elif threads < self.most_threads:
            self.console.print(
                f"threads {threads} of {self.most_threads}: other programs are busy. To take all of them, set "
                f"OMP_NUM_THREADS={self.most_threads}"
            )

    def keep_tokenizer(self) -> None:
        """Keeps the tokenizer from the start, and refuses to go on with another: the weights would mean other words."""
        if self.task.tokenizer is None:
            return
        file, now = self.out / TOKENIZER, self.task.tokenizer.backend.to_str()
        if self.settings.resume and file.is_file() and json.loads(file.read_text(encoding="utf-8")) != json.loads(now):
            raise InputError(
                f"--resume: the tokenizer that is learned from the data now is not that of {file}. Has the data changed"
                " since the run began? Start another run, with another --out"
            )
        self.task.tokenizer.save(self.out)

    def put_back(self) -> None:
        """A run that failed before its first checkpoint leaves the place to what it was to replace; one that has not
        even begun leaves nothing. With a checkpoint, both stay."""
        if not self.ranks.is_first or self.settings.resume:
            return
        if Checkpoints(self.out, self.ranks, 1).last() is not None:
            if self.moved_aside:
                print(f"the run that was to be replaced is in {self.replaced}", file=sys.stderr)
            return
        metrics = self.out / METRICS
        begun = metrics.is_file() and metrics.stat().st_size > 0
        if self.moved_aside or not (begun or self.was_there):
            shutil.rmtree(self.out, ignore_errors=True)
        if self.moved_aside:
            self.replaced.rename(self.out)

    def go_back(self, trainer: Trainer, report: Report) -> None:
        found = trainer.restore()
        if self.ranks.is_first:
            report.restart(trainer.state.step)
        where = f"from step {trainer.state.step}" if found else "from the beginning: it has no checkpoint yet"
        self.console.print(f"{'resume':8}{where}")

    def how_to_go_on(self, number: int, trainer: Trainer) -> str:
        start = ["glassformer"]
        if self.ranks.size > 1:
            start = ["torchrun", "--nproc-per-node", str(self.ranks.size), "-m", "glassformer"]
        words = shlex.join([*start, "train", self.settings.task, "--out", str(self.out), "--resume"])
        name = signal.Signals(number).name
        return f"stopped by {name} at step {trainer.state.step}, and saved. Go on with\n  {words}"

    def write(self, trainer: Trainer, kept: str) -> Scores:
        """The model first, then its scores, then the report: what was trained is kept if scoring it fails."""
        from glassformer.training.page import write_page

        partial = partial_name(self.out / "model")
        partial.mkdir()
        write_model(self.task.model, partial, self.task.tokenizer)
        self.task.write_beside(partial)
        # The weights come last: a folder that has them is whole.
        for file in sorted(partial.iterdir(), key=lambda file: file.name.startswith(Path(WEIGHTS).stem)):
            file.replace(self.out / file.name)
        partial.rmdir()
        shutil.rmtree(self.replaced, ignore_errors=True)
        scores = self.task.evaluate()
        if self.task.test is None:
            scores.notes.append(
                "scored on the validation set, by which the weights were chosen: take it with a grain of salt"
            )
        results = {**scores.metrics, "count": scores.count, "train_seconds": trainer.state.seconds}
        self.record |= {
            "kept": kept,
            "steps": trainer.state.step,
            "results": {key: round(value, 6) for key, value in results.items()},
            "baselines": scores.baselines,
            "notes": scores.notes,
        }
        write_json(self.out / RUN, self.record, durable=True)
        write_page(self.out / REPORT, self.record, self.task, scores, self.out / METRICS)
        self.console.print(f"\nkept    {kept}, after {as_time(trainer.state.seconds)} of training")
        return scores
