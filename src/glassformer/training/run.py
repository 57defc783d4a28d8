"""A training as a run folder: the model as any tool reads it, `run.json`, `metrics.jsonl`, the report.

runs/mine/run.json        what was asked for, and in the end the results
runs/mine/metrics.jsonl   the curves
runs/mine/checkpoints/    to go on from
runs/mine/tokens/         text of your own, ready for a language model
runs/mine/config.json, model.safetensors, tokenizer.json, ...   once it has ended
runs/mine/report.html     the same for people
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
from glassformer.errors import InputError, Stopped, nearest
from glassformer.io import fingerprint, fingerprint_of, partial_name
from glassformer.text.tokenizer import TOKENIZER
from glassformer.threads import Load, exactly, threads_of_training
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.folder import LOG, METRICS, REPORT, RunFolder, with_whole_paths
from glassformer.training.lock import Lock
from glassformer.training.loop import Trainer, check_accumulation
from glassformer.training.plan import (
    LEAST,
    MARGIN,
    OF_MODEL,
    TIMED,
    Costs,
    Plan,
    describe_plan,
    describe_shares,
    plan_minutes,
    plan_steps,
    sample_size,
    seconds_each,
)
from glassformer.training.quicker import keeping_memory
from glassformer.training.ranks import Ranks
from glassformer.training.report import Report, as_time
from glassformer.training.settings import OF_THE_CALL, TrainSettings
from glassformer.training.signals import Signals
from glassformer.training.task import Scores, Task
from glassformer.training.waiting import Bars
from glassformer.version import __version__

LENGTH = ("steps", "minutes")  # the settings that say how long a training is
CHANGED = 0.1  # of the steps that were told, by which a plan must differ to be told again
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
SHOWN = 5  # files of which an error says that they have changed


def check_data(now: Mapping[str, Any], before: Mapping[str, Any], *, accepted: bool) -> list[str]:
    """Refuses to go on with data that has changed, unless that is accepted; which it is."""
    changed = [
        path
        for path, told in now.items()
        if any(name in told and told[name] != value for name, value in before.get(path, {}).items())
    ]
    if changed and not accepted:
        some = ", ".join(changed[:SHOWN]) + (f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else "")
        raise InputError(
            f"--resume: the data has changed since the run began: {some}. Put it back as it was, start another run, or "
            "go on all the same with --accept-changed-data"
        )
    return changed


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
    began: float | None = None,
    command: str | None = None,
) -> tuple[Task, Scores]:
    """Trains, writes the model, and scores: in that order, so that what was trained is kept in any case.

    `began` is when a person began to wait, as `time.perf_counter` counts; now, if it is not given. `command` is what
    they wrote for it; what was typed, if not given.
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
                    with suppress(OSError):  # what cannot be written cannot be moved either
                        current.folder.put_back()
                if isinstance(error, OSError) and error.errno in NOT_WRITTEN:
                    raise not_written(error, settings.out, last) from error
                raise
    finally:
        ranks.close()


def not_written(error: OSError, out: Path, last: Path | None) -> InputError:
    """A disk that is full or may not be written to, in words."""
    go_on = f"the last checkpoint, {last}, is whole. Make room, then go on with --resume" if last else "make room first"
    return InputError(f"{error.filename or out} could not be written ({error.strerror}); {go_on}")


class Run:
    """One training in its folder."""

    task: Task
    plan: Plan
    told = 0  # steps that a person was told of
    deadline: float | None = None  # when all must have ended, in the life of a run that planned by the clock

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
            "settings": with_whole_paths({**settings.to_dict(), **dict.fromkeys(OF_THE_CALL, False)}),
        }
        self.before: dict[str, Any] = {}  # the record of the run that goes on
        self.threads: int | None = None  # that the run began with
        if settings.resume:
            self.before = read_record(self.out)
            self.record["command"] = self.before["command"]  # the one that began it
            self.threads = self.before.get("threads")
            if "plan" in self.before:  # holds until there is another: `keep_plan`
                self.record["plan"] = self.before["plan"]
                self.record["settings"] |= {name: self.before["settings"].get(name) for name in LENGTH}

    def go(self, make_task: Callable[[TrainSettings], Task]) -> tuple[Task, Scores]:
        with Bars(self.console) as bars, bars.waiting("reading data"):
            with self.ranks.together():  # the others find what the first makes
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
        with exactly(threads), keeping_memory():
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
                with Bars(self.console) as bars, self.following(bars):
                    scores = self.write(trainer, kept)
        return self.task, self.ranks.from_first(scores)

    @contextmanager
    def following(self, bars: Bars) -> Iterator[None]:
        """The task shows its loops on these bars."""
        before, self.task.follow = self.task.follow, bars
        try:
            yield
        finally:
            self.task.follow = before

    def know_data(self) -> None:
        """Keeps what the data is, and refuses to go on with other data."""
        paths = [path.absolute() for files in self.settings.files.values() for path in files]
        told = {str(path): fingerprint(path) for path in paths}
        self.record["data"] = {path: about for path, about in told.items() if about is not None}
        self.check_known()

    def know_named(self) -> None:
        """The same of the files that its files name."""
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
        """Whether the run goes on, and is to be as long as when it began."""
        before = self.before.get("settings", {})
        return "plan" in self.before and all(before.get(name) == getattr(self.settings, name) for name in LENGTH)

    def time_costs(self, trainer: Trainer) -> Costs | None:
        """What a step and a score take, if the plan is to be made by the clock."""
        if self.settings.minutes is None or self.has_plan:
            return None
        return trainer.costs(TIMED * 60 * self.settings.minutes)

    def make_plan(self, trainer: Trainer, costs: Costs | None) -> Plan:
        """The plan that the run began with, or a new one where it has none or is told to be longer or shorter."""
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
        self.deadline = max(self.began + (1 - MARGIN / 2) * budget - earlier, time.perf_counter() + LEAST * budget)
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
        if shares.reading > (1 - LEAST) * 60 * minutes:
            whole = as_time(self.deadline - self.began)
            self.console.print(
                f"{'plan':8}that leaves little of --minutes {minutes:g}: it will be about {whole} in all"
            )

    def change_plan(self, plan: Plan, report: Report) -> None:
        """Keeps a changed plan, and says so if it has become another."""
        if abs(plan.steps - self.told) > CHANGED * self.told:
            how = "slower" if plan.steps < self.told else "faster"
            self.console.print(f"{'plan':8}now {plan.steps:,} steps, because they are {how} than planned")
            self.told = plan.steps
        self.keep_plan(plan, report)

    def keep_plan(self, plan: Plan, report: Report) -> None:
        """Writes a plan down before it takes effect."""
        self.plan = plan
        self.record["plan"] = plan.to_dict()
        self.record["settings"] |= {name: getattr(self.settings, name) for name in LENGTH}
        report.plan_for(plan.steps)
        if self.ranks.is_first:
            self.folder.write(self.record)

    def prepare(self) -> None:
        """Makes the folder ready: a run that is to be replaced moves aside."""
        self.check_tokenizer()
        self.folder.replace(self.record)
        self.folder.write(self.record)
        self.folder.clean()
        if self.task.tokenizer is not None:
            self.task.tokenizer.save(self.out)

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

    def check_tokenizer(self) -> None:
        """Refuses to go on with another tokenizer than the run began with: the weights would mean other words."""
        file = self.out / TOKENIZER
        if self.task.tokenizer is None or not self.settings.resume or not file.is_file():
            return
        if json.loads(file.read_text(encoding="utf-8")) != json.loads(self.task.tokenizer.backend.to_str()):
            raise InputError(
                f"--resume: the tokenizer that is learned from the data now is not that of {file}. Has the data changed"
                " since the run began? Start another run, with another --out"
            )

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
        whole = "" if self.settings.resume else f", {as_time(now - self.began)} in all"
        self.console.print(f"\nkept    {kept}, after {as_time(trainer.state.seconds)} of training{whole}")
        return scores

    def sample(self) -> int | None:
        """How many examples the final score is of: as many as fit into the time that is left, where there is a limit.

        A run that goes on scores as many as its plan says.
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
        """What must be said beside the scores."""
        if scores.sample:
            everything = shlex.join(["glassformer", "eval", str(self.out)])
            yield f"scored on {scores.sample}: more do not fit into --minutes. `{everything}` scores all"
        if "changed_data" in self.record:
            changed = ", ".join(self.record["changed_data"])
            yield f"the data changed before the run had ended (--accept-changed-data): {changed}"
        if self.task.test is None:
            yield "scored on the validation set, by which the weights were chosen: take it with a grain of salt"
