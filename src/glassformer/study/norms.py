"""The study `norms`: what the place of the norm does to training, after Xiong et al. (2020), figures 3 to 5.

Pre and post norm, several depths and learning rates, with and without warm-up: `trials.py` trains each,
`norms.json` keeps every finished run, `picture.py` draws them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from glassformer.errors import InputError
from glassformer.io import parse_json, write_json
from glassformer.study.picture import draw_norms
from glassformer.study.trials import (
    ORDERS,
    Start,
    Study,
    Trial,
    character_loss,
    make_model,
    make_task,
    measured_gradients,
    train,
)
from glassformer.tasks.lm import LanguageModel
from glassformer.terminal import make_console
from glassformer.training.report import as_time

NUMBERS, PICTURE = "norms.json", "norms.png"
INITIALISATIONS = 16  # over which the gradients before the first step are averaged
FIXED = 2  # what a step costs beside its layers, in layers


@dataclass(frozen=True, kw_only=True)
class NormStudy:
    """What is trained: every depth at every rate, with both places of the norm, with and without warm-up."""

    out: Path
    depths: tuple[int, ...]
    rates: tuple[float, ...]
    steps: int
    warmup: int
    seed: int
    minutes: float


def study_norms(plan: NormStudy) -> None:
    console = make_console()
    task = make_task(plan.seed)
    study = open_study(plan, character_loss(task))
    with one_thread():
        study = measure_starts(task, study, plan)
        if not study.results:
            keep(study, plan)  # early, so that a missing matplotlib is known before anything is trained
        study = train_all(task, study, plan, console)
    keep(study, plan)
    console.print(f"\nthe picture  {plan.out / PICTURE}\nthe numbers  {plan.out / NUMBERS}")


def measure_starts(task: LanguageModel, study: Study, plan: NormStudy) -> Study:
    """Adds the gradients before the first step, as means over several initial weights, for depths not yet measured."""
    starts = list(study.starts)
    for depth in plan.depths:
        for order in ORDERS:
            if any((start.order, start.depth) == (order, depth) for start in starts):
                continue
            norms = [
                measured_gradients(task, make_model(task, order, depth, plan.seed + number), number)
                for number in range(INITIALISATIONS)
            ]
            mean = tuple(round(float(value), 5) for value in np.mean(norms, axis=0))
            starts.append(Start(order=order, depth=depth, gradients=mean))
    return study.replace(starts=tuple(starts))


def trials(plan: NormStudy) -> list[Trial]:
    """From the cheapest to the dearest."""
    return [
        Trial(order=order, depth=depth, rate=rate, warmup=warmup)
        for depth in sorted(plan.depths)
        for rate in sorted(plan.rates)
        for order in ORDERS
        for warmup in (plan.warmup, 0)
    ]


def train_all(task: LanguageModel, study: Study, plan: NormStudy, console: Console) -> Study:
    """Adds the runs that are not there yet, as far as the time reaches."""
    known = {result.trial for result in study.results}
    wanted = [trial for trial in trials(plan) if trial not in known]
    if known:
        console.print(f"{len(known)} finished runs are kept, {len(wanted)} are to be trained")
    clock, skipped = Clock(plan, wanted), 0
    with progress_bar(console) as bar:
        line = bar.add_task("", total=clock.work_in_all, left="?")
        for number, trial in enumerate(wanted, start=1):
            needs, has = clock.needs(trial), clock.remaining()
            if needs > has:
                skipped += 1
                said = f"skipped: it takes about {as_time(needs)}, and {as_time(max(0.0, has))} are left"
                console.print(f"{number:2}/{len(wanted)}  {trial}  {said}")
                clock.drop(trial)
                continue
            result = train(task, trial, steps=plan.steps, seed=plan.seed, tell=partial(bar.advance, line, work(trial)))
            clock.finish(trial, result.seconds)
            study = study.replace(results=(*study.results, result))
            keep_numbers(study, plan.out)
            bar.update(line, left=clock.left())
            console.print(f"{number:2}/{len(wanted)}  {trial}  {study.outcome(result)}  ({clock.left()} left)")
    if skipped:
        console.print(
            f"\n{skipped} runs did not fit into --minutes {plan.minutes:g}: the same command goes on with them"
        )
    return study


def work(trial: Trial) -> int:
    """What a step costs, in layers."""
    return trial.depth + FIXED


class Clock:
    """How long the rest will take, by what the runs so far took."""

    def __init__(self, plan: NormStudy, wanted: list[Trial]) -> None:
        self.began, self.limit = time.perf_counter(), 60 * plan.minutes
        self.work_in_all = max(1, sum(map(work, wanted)) * plan.steps)
        self.to_do, self.done, self.seconds = sum(map(work, wanted)), 0, 0.0

    def finish(self, trial: Trial, seconds: float) -> None:
        self.drop(trial)
        self.done += work(trial)
        self.seconds += seconds

    def drop(self, trial: Trial) -> None:
        self.to_do -= work(trial)

    def needs(self, trial: Trial) -> float:
        """The seconds of a run; of the first one nothing is known, and it is tried."""
        return work(trial) * self.seconds / self.done if self.done else 0.0

    def remaining(self) -> float:
        return self.limit - (time.perf_counter() - self.began)

    def left(self) -> str:
        return as_time(max(0.0, min(self.remaining(), self.to_do * self.seconds / self.done)))


def open_study(plan: NormStudy, frequencies: float) -> Study:
    """The study of the folder, or a new one. What was made otherwise is not mixed with what is to come."""
    new = Study(steps=plan.steps, warmup=plan.warmup, seed=plan.seed, frequencies=round(frequencies, 4))
    file = plan.out / NUMBERS
    if not file.is_file():
        try:
            plan.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {plan.out} cannot be made: {error.strerror}. Choose another folder") from None
        return new
    try:
        old = Study.from_dict(parse_json(file))
    except (InputError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is not a norm study ({error}): choose another --out, or remove it") from None
    for field in fields(Study):
        was, asked = getattr(old, field.name), getattr(new, field.name)
        if field.name not in ("starts", "results") and was != asked:
            raise InputError(
                f"{file} was measured with {field.name} {was:g}, not {asked:g}: choose another --out, or remove it"
            )
    return old


def keep(study: Study, plan: NormStudy) -> None:
    keep_numbers(study, plan.out)
    draw_norms(chosen_part(study, plan), plan.out / PICTURE)


def keep_numbers(study: Study, out: Path) -> None:
    write_json(out / NUMBERS, study.to_dict(), durable=True)


def chosen_part(study: Study, plan: NormStudy) -> Study:
    """Without what an earlier call measured and this one does not ask for."""
    asked = set(trials(plan))
    return study.replace(
        starts=tuple(start for start in study.starts if start.depth in plan.depths),
        results=tuple(result for result in study.results if result.trial in asked),
    )


def progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.percentage:3.0f} %"), BarColumn(bar_width=None), TextColumn("{task.fields[left]} left"),
        console=console, disable=not console.is_terminal,
    )  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrices this small are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
