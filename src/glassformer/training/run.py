"""A training and its run folder: the model in the Hugging Face format, `run.json`, `metrics.jsonl` and the report.

runs/mine/run.json        the settings and, at the end, the results
runs/mine/metrics.jsonl   the curves
runs/mine/checkpoints/    to resume from
runs/mine/tokens/         your own text, tokenised for a language model
runs/mine/config.json, model.safetensors, tokenizer.json, ...   written at the end
runs/mine/report.html     settings, curves and results for people
"""

import errno
import json
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from glassformer.checkpoints.folder import WEIGHTS
from glassformer.checkpoints.run import read_record
from glassformer.checkpoints.save import write_model
from glassformer.errors import InputError, Stopped, did_you_mean
from glassformer.io import fingerprint, fingerprint_of, partial_name
from glassformer.text.tokenizer import TOKENIZER
from glassformer.threads import Load, exactly, threads_of_training
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.folder import LOG, METRICS, REPORT, RunFolder, with_absolute_paths
from glassformer.training.lock import Lock
from glassformer.training.loop import Trainer, check_accumulation
from glassformer.training.plan import (
    MARGIN,
    MIN_TRAINING_SHARE,
    OF_MODEL,
    TIMED,
    MeasuredTimes,
    Plan,
    describe_plan,
    describe_shares,
    plan_minutes,
    plan_steps,
    sample_size,
    seconds_each,
)
from glassformer.training.quicker import keep_freed_memory
from glassformer.training.ranks import Ranks
from glassformer.training.report import Report, readable_time
from glassformer.training.settings import NOT_STORED, TrainSettings
from glassformer.training.signals import Signals
from glassformer.training.task import Scores, Task
from glassformer.training.waiting import ProgressBars
from glassformer.version import __version__

LENGTH_SETTINGS = ("steps", "minutes")  # the settings that decide how long a run trains
CHANGED = 0.1  # a new plan is printed if its steps differ from those last printed by more than this fraction
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
MAX_LISTED_FILES = 5  # changed files named in an error


def check_data(now: Mapping[str, Any], before: Mapping[str, Any], *, accepted: bool) -> list[str]:
    """Refuses to resume with changed data unless it is `accepted`. Returns the changed files."""
    changed = [
        path
        for path, told in now.items()
        if any(name in told and told[name] != value for name, value in before.get(path, {}).items())
    ]
    if changed and not accepted:
        some = ", ".join(changed[:MAX_LISTED_FILES]) + (
            f" and {len(changed) - MAX_LISTED_FILES} more" if len(changed) > MAX_LISTED_FILES else ""
        )
        raise InputError(
            f"--resume: the data has changed since the run was started: {some}. Restore it, start a new run, or "
            "continue anyway with --accept-changed-data"
        )
    return changed


def check_metric(task: Task, settings: TrainSettings) -> None:
    if settings.metric not in (None, *task.metrics):
        known = did_you_mean(str(settings.metric), task.metrics)
        raise InputError(f"--metric {settings.metric}: {task.name} does not measure it{known}")


def run(
    make_task: Callable[[TrainSettings], Task],
    settings: TrainSettings,
    console: Console,
    *,
    verb: str,
    began: float | None = None,
    command: str | None = None,
) -> tuple[Task, Scores]:
    """Trains, writes the model, then scores it: the model is kept even if scoring fails.

    `began` is when the user started to wait, by `time.perf_counter` (default: now). `command` is recorded as the
    command of the run (default: the command line).
    """
    began = time.perf_counter() if began is None else began
    ranks = Ranks(settings.device)
    if not ranks.is_first:
        console = Console(quiet=True)
    try:
        with ExitStack() as lock:
            with ranks.together():
                if ranks.is_first:
                    lock.enter_context(Lock(settings.out))
                current = Run(settings, ranks, console, verb, began, command)
            try:
                return current.go(make_task)
            except BaseException as error:
                last = Checkpoints(settings.out, ranks, 1).last()
                if ranks.is_first:
                    with suppress(OSError):  # on a full disk the old run cannot be moved either
                        current.folder.put_back()
                if isinstance(error, OSError) and error.errno in NOT_WRITTEN:
                    raise write_error(error, settings.out, last) from error
                raise
    finally:
        ranks.close()


def write_error(error: OSError, out: Path, last: Path | None) -> InputError:
    """The error for a disk that is full or not writable."""
    advice = "Check disk space and permissions"
    if last:
        advice = f"The last checkpoint, {last}, is complete. {advice}, then continue with --resume"
    return InputError(f"{error.filename or out} could not be written ({error.strerror}). {advice}")


class Run:
    """One training and its folder."""

    task: Task
    plan: Plan
    told = 0  # number of steps last printed
    deadline: float | None = None  # when everything must end, if this process made the plan for --minutes

    def __init__(
        self,
        settings: TrainSettings,
        ranks: Ranks,
        console: Console,
        verb: str,
        began: float,
        command: str | None = None,
    ) -> None:
        self.settings, self.ranks, self.console, self.out = settings, ranks, console, settings.out
        self.began = began
        self.load = Load()
        self.folder = RunFolder(settings)
        self.record: dict[str, Any] = {
            "task": settings.task,
            "verb": verb,
            "command": command or shlex.join(["glassformer", *sys.argv[1:]]),
            "glassformer_version": __version__,
            "settings": with_absolute_paths({**settings.to_dict(), **dict.fromkeys(NOT_STORED, False)}),
        }
        self.before: dict[str, Any] = {}  # the record of the resumed run
        self.threads: int | None = None  # that the run was started with
        if settings.resume:
            self.before = read_record(self.out)
            self.record["command"] = self.before["command"]  # the one that started it
            self.threads = self.before.get("threads")
            if "plan" in self.before:  # valid until `keep_plan` replaces it
                self.record["plan"] = self.before["plan"]
                self.record["settings"] |= {name: self.before["settings"].get(name) for name in LENGTH_SETTINGS}

    def go(self, make_task: Callable[[TrainSettings], Task]) -> tuple[Task, Scores]:
        with ProgressBars(self.console) as bars, bars.waiting("reading data"):
            with self.ranks.together():  # the others use the files that the first process writes
                if self.ranks.is_first:
                    self.know_data()
                    self.folder.begin(self.record)
                    self.task = make_task(self.settings)
                    self.know_named()
            with self.ranks.together():
                if not self.ranks.is_first:
                    self.task = make_task(self.settings)
                check_metric(self.task, self.settings)
                check_accumulation(self.task, self.settings, self.ranks)
        self.record |= self.task.record()
        self.most_threads = torch.get_num_threads()
        threads = self.record["threads"] = threads_of_training(self.load, self.threads)
        with exactly(threads), keep_freed_memory():
            return self.train()

    def train(self) -> tuple[Task, Scores]:
        with self.ranks.together():
            if self.ranks.is_first:
                self.prepare()
        for name, said in self.task.describe().items():
            self.console.print(f"{name:8}{said}")
        self.tell_threads()
        checkpoints = Checkpoints(self.out, self.ranks, self.settings.keep)
        metrics = self.out / METRICS if self.ranks.is_first else Path("/dev/null")
        log = self.out / LOG if self.settings.tensorboard and self.ranks.is_first else None
        unit = "tokens" if self.task.tokenizer is not None else self.task.unit
        with Report(metrics, self.console, unit=unit, steps=None, log=log) as report, self.following(report.bars):
            trainer = Trainer(self.task, self.settings, self.ranks, checkpoints, report)
            with report.bars.named("timing"):
                costs = self.time_costs(trainer)
            if self.settings.resume:
                self.go_back(trainer, report)
            self.keep_plan(self.make_plan(trainer, costs), report)
            trainer.plan = self.plan
            trainer.tell_plan = lambda plan: self.change_plan(plan, report)
            self.tell_plan()
            with Signals() as signals, report.bars.named("evaluation"):
                number = trainer.run(signals)
        if number:
            raise Stopped(number, self.how_to_go_on(number, trainer))
        kept = trainer.finish()
        scores = None
        with self.ranks.together():
            if self.ranks.is_first:
                with ProgressBars(self.console) as bars, self.following(bars):
                    scores = self.write(trainer, kept)
        return self.task, self.ranks.from_first(scores)

    @contextmanager
    def following(self, bars: ProgressBars) -> Iterator[None]:
        """Inside, the task shows its loops on these bars."""
        before, self.task.follow = self.task.follow, bars
        try:
            yield
        finally:
            self.task.follow = before

    def know_data(self) -> None:
        """Records the fingerprints of the data, and refuses to resume with changed data."""
        paths = [path.absolute() for files in self.settings.files.values() for path in files]
        told = {str(path): fingerprint(path) for path in paths}
        self.record["data"] = {path: about for path, about in told.items() if about is not None}
        self.check_known()

    def know_named(self) -> None:
        """The same for files named in the data files, such as images in a table."""
        if not self.ranks.is_first:
            return
        for table, files in self.task.named_files().items():
            self.record["data"][str(table.absolute())]["names"] = fingerprint_of(table.parent, files)
        self.check_known()

    def check_known(self) -> None:
        before = {str(Path(path).absolute()): about for path, about in self.before.get("data", {}).items()}
        changed = check_data(self.record["data"], before, accepted=self.settings.accept_changed_data)
        changes = [*self.before.get("changed_data", ()), *changed]
        if changes:
            self.record["changed_data"] = list(dict.fromkeys(changes))

    @property
    def has_plan(self) -> bool:
        """Whether the run is resumed with the length it was started with."""
        before = self.before.get("settings", {})
        return "plan" in self.before and all(
            before.get(name) == getattr(self.settings, name) for name in LENGTH_SETTINGS
        )

    def time_costs(self, trainer: Trainer) -> MeasuredTimes | None:
        """Times steps and scoring, if a plan for `--minutes` is needed."""
        if self.settings.minutes is None or self.has_plan:
            return None
        return trainer.costs(TIMED * 60 * self.settings.minutes)

    def make_plan(self, trainer: Trainer, costs: MeasuredTimes | None) -> Plan:
        """The plan the run was started with, or a new one if it has none or its length has changed."""
        settings, task, step = self.settings, self.task, trainer.state.step
        before = Plan.from_dict(self.before["plan"]) if "plan" in self.before else None
        if before is not None and self.has_plan:
            return before
        warmup = before.warmup if before is not None else settings.warmup if step else None
        if costs is None or settings.minutes is None:
            steps = task.budget(settings)
            assert steps is not None
            return plan_steps(settings, steps, task.validated, warmup)
        budget, earlier = 60 * settings.minutes, trainer.state.seconds
        if step and earlier >= budget:
            return plan_steps(settings, step, task.validated, warmup)
        plan = plan_minutes(
            settings,
            costs,
            waited=time.perf_counter() - self.began + earlier,
            valid=min(task.count("valid"), task.validated or task.count("valid")),
            test=task.count("test"),
            step=step,
            most=settings.steps,
            warmup=warmup,
        )
        plan = self.ranks.from_first(plan)
        assert plan.seconds is not None
        self.deadline = max(
            self.began + (1 - MARGIN / 2) * budget - earlier, time.perf_counter() + MIN_TRAINING_SHARE * budget
        )
        trainer.until = self.deadline - MARGIN / 2 * budget - plan.seconds.scoring
        trainer.evaluation_seconds = costs.valid * (plan.valid or 0)
        return plan

    def tell_plan(self) -> None:
        self.told = self.plan.steps
        valid, test = self.task.count("valid"), self.task.count("test")
        unit = self.task.counts or self.task.unit
        for line in describe_plan(self.plan, self.settings, valid=valid, test=test, unit=unit):
            self.console.print(f"{'plan':8}{line}")
        if self.deadline is None or self.plan.seconds is None or self.settings.minutes is None:
            return
        shares, minutes = self.plan.seconds, self.settings.minutes
        self.console.print(f"{'plan':8}{describe_shares(shares)}")
        if shares.reading > (1 - MIN_TRAINING_SHARE) * 60 * minutes:
            whole = readable_time(self.deadline - self.began)
            self.console.print(
                f"{'plan':8}reading took most of --minutes {minutes:g}: the run will take about {whole} in total"
            )

    def change_plan(self, plan: Plan, report: Report) -> None:
        """Stores a changed plan, and prints it if the number of steps has changed much."""
        if abs(plan.steps - self.told) > CHANGED * self.told:
            how = "slower" if plan.steps < self.told else "faster"
            self.console.print(f"{'plan':8}now {plan.steps:,} steps, because steps are {how} than planned")
            self.told = plan.steps
        self.keep_plan(plan, report)

    def keep_plan(self, plan: Plan, report: Report) -> None:
        """Writes a plan to run.json before it takes effect."""
        self.plan = plan
        self.record["plan"] = plan.to_dict()
        self.record["settings"] |= {name: getattr(self.settings, name) for name in LENGTH_SETTINGS}
        report.plan_for(plan.steps)
        if self.ranks.is_first:
            self.folder.write(self.record)

    def prepare(self) -> None:
        """Prepares the folder; a run to be replaced is moved aside."""
        self.check_tokenizer()
        self.folder.replace(self.record)
        self.folder.write(self.record)
        self.folder.clean()
        if self.task.tokenizer is not None:
            self.task.tokenizer.save(self.out)

    def tell_threads(self) -> None:
        """Prints if a run uses fewer threads than it could, or not the number it was started with."""
        threads = self.record["threads"]
        if self.threads not in (None, threads):
            self.console.print(
                f"threads {threads}, from OMP_NUM_THREADS; the run was started with {self.threads}, so results will "
                "differ in the last bits"
            )
        elif threads < self.most_threads:
            self.console.print(
                f"threads {threads} of {self.most_threads}: other programs are running. To use all, set "
                f"OMP_NUM_THREADS={self.most_threads}"
            )

    def check_tokenizer(self) -> None:
        """Refuses to resume with a different tokenizer: the token ids would mean other words."""
        file = self.out / TOKENIZER
        if self.task.tokenizer is None or not self.settings.resume or not file.is_file():
            return
        if json.loads(file.read_text(encoding="utf-8")) != json.loads(self.task.tokenizer.backend.to_str()):
            raise InputError(
                f"--resume: the tokenizer learned from the data differs from {file}, so the data must have changed. "
                "Restore the data, or start a new run with another --out"
            )

    def go_back(self, trainer: Trainer, report: Report) -> None:
        found = trainer.restore()
        if self.ranks.is_first:
            report.restart(trainer.state.step)
        where = f"from step {trainer.state.step}" if found else "from the start: there is no checkpoint yet"
        self.console.print(f"{'resume':8}{where}")

    def how_to_go_on(self, number: int, trainer: Trainer) -> str:
        start = ["glassformer"]
        if self.ranks.size > 1:
            start = ["torchrun", "--nproc-per-node", str(self.ranks.size), "-m", "glassformer"]
        words = shlex.join([*start, "train", self.settings.task, "--out", str(self.out), "--resume"])
        name = signal.Signals(number).name
        return f"stopped by {name} at step {trainer.state.step} and saved. To continue:\n  {words}"

    def write(self, trainer: Trainer, kept: str) -> Scores:
        """Writes the model, then its scores, then the report: the model is kept even if scoring fails."""
        from glassformer.training.page import write_page

        partial = partial_name(self.out / "model")
        partial.mkdir()
        write_model(self.task.model, partial, self.task.tokenizer)
        self.task.write_beside(partial)
        # The weights come last: a folder that has them is complete.
        for file in sorted(partial.iterdir(), key=lambda file: file.name.startswith(Path(WEIGHTS).stem)):
            file.replace(self.out / file.name)
        partial.rmdir()
        self.folder.end()
        ready = time.perf_counter()
        scores = self.task.evaluate(self.sample())
        scores.notes.extend(self.notes(scores))
        now = time.perf_counter()
        results = {**scores.metrics, "count": scores.count, "train_seconds": trainer.state.seconds}
        self.record |= {
            "kept": kept,
            "steps": trainer.state.step,
            "results": {key: round(value, 6) for key, value in results.items()},
            "sample": scores.sample,
            "baselines": scores.baselines,
            "notes": scores.notes,
            "seconds": {"scoring": round(now - ready, 1), "whole": round(now - self.began, 1)},
        }
        self.folder.write(self.record)
        write_page(self.out / REPORT, self.record, self.task, scores, self.out / METRICS)
        whole = "" if self.settings.resume else f", {readable_time(now - self.began)} in total"
        self.console.print(f"\nsaved   {kept}, after {readable_time(trainer.state.seconds)} of training{whole}")
        return scores

    def sample(self) -> int | None:
        """The number of examples for the final score: those that fit into the remaining time, if there is a limit.

        A resumed run takes the number from its plan.
        """
        now, shares = time.perf_counter(), self.plan.seconds
        if self.deadline is None or shares is None:
            self.task.until = now + shares.scoring if shares is not None else None
            return self.plan.test
        left, count = max(self.deadline - now, shares.scoring / 2), self.task.count("test")
        each = seconds_each(self.task.score_some, count, left / 10)
        test = sample_size(OF_MODEL * left / each, count)
        self.record["plan"] = self.plan.replace(test=test).to_dict()
        self.folder.write(self.record)
        self.task.until = now + left
        return test

    def notes(self, scores: Scores) -> Iterator[str]:
        """Notes that belong to the scores."""
        if scores.sample:
            everything = shlex.join(["glassformer", "eval", str(self.out)])
            yield f"scored on {scores.sample}, to stay within --minutes. `{everything}` scores all"
        if "changed_data" in self.record:
            changed = ", ".join(self.record["changed_data"])
            yield f"the data changed during the run (--accept-changed-data): {changed}"
        if self.task.test is None:
            yield "scored on the validation set, which also selected the weights: the score may be too optimistic"
