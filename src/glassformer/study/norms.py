"""The study `norms`: how pre-norm and post-norm affect training, after Xiong et al. (2020), figures 3 to 5.

Pre-norm and post-norm at several depths and learning rates, with and without warm-up: `trials.py` trains each model,
`norms.json` stores finished runs, `picture.py` draws them.
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
    InitialGradient,
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
from glassformer.training.report import readable_time

NUMBERS, PICTURE = "norms.json", "norms.png"
INITIALISATIONS = 16  # initial weights over which the first gradients are averaged
FIXED = 2  # cost of a step besides its layers, in layers


@dataclass(frozen=True, kw_only=True)
class NormStudy:
    """Settings of the study: every depth at every learning rate, pre-norm and post-norm, with and without warm-up."""

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
            keep(study, plan)  # fails before the training if matplotlib is missing
        study = train_all(task, study, plan, console)
    keep(study, plan)
    console.print(f"\nfigure   {plan.out / PICTURE}\nnumbers  {plan.out / NUMBERS}")


def measure_starts(task: LanguageModel, study: Study, plan: NormStudy) -> Study:
    """Adds the gradients before the first step, averaged over several initial weights, for depths not measured yet."""
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
            starts.append(InitialGradient(order=order, depth=depth, gradients=mean))
    return study.replace(starts=tuple(starts))


def trials(plan: NormStudy) -> list[Trial]:
    """The trials, from the cheapest to the most expensive."""
    return [
        Trial(order=order, depth=depth, rate=rate, warmup=warmup)
        for depth in sorted(plan.depths)
        for rate in sorted(plan.rates)
        for order in ORDERS
        for warmup in (plan.warmup, 0)
    ]


def train_all(task: LanguageModel, study: Study, plan: NormStudy, console: Console) -> Study:
    """Trains the missing runs, as many as fit into the time."""
    known = {result.trial for result in study.results}
    wanted = [trial for trial in trials(plan) if trial not in known]
    if known:
        console.print(f"runs: {len(known)} finished and kept, {len(wanted)} still to train")
    clock, skipped = Clock(plan, wanted), 0
    with progress_bar(console) as bar:
        line = bar.add_task("", total=clock.work_in_all, left="?")
        for number, trial in enumerate(wanted, start=1):
            needs, has = clock.needs(trial), clock.remaining()
            if needs > has:
                skipped += 1
                said = f"skipped: needs about {readable_time(needs)}, time left {readable_time(max(0.0, has))}"
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
            f"\nruns skipped because of --minutes {plan.minutes:g}: {skipped}. Run the same command again to train them"
        )
    return study


def work(trial: Trial) -> int:
    """The cost of a step, in layers."""
    return trial.depth + FIXED


class Clock:
    """Estimates the remaining time from the runs so far."""

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
        """The estimated seconds of a run; 0 for the first, when there is nothing to estimate from."""
        return work(trial) * self.seconds / self.done if self.done else 0.0

    def remaining(self) -> float:
        return self.limit - (time.perf_counter() - self.began)

    def left(self) -> str:
        return readable_time(max(0.0, min(self.remaining(), self.to_do * self.seconds / self.done)))


def open_study(plan: NormStudy, frequencies: float) -> Study:
    """The study in the folder, or a new one. Raises an error if the stored results have other settings."""
    new = Study(steps=plan.steps, warmup=plan.warmup, seed=plan.seed, frequencies=round(frequencies, 4))
    file = plan.out / NUMBERS
    if not file.is_file():
        try:
            plan.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {plan.out} cannot be created: {error.strerror}. Choose another folder") from None
        return new
    try:
        old = Study.from_dict(parse_json(file))
    except (InputError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is not a norm study ({error}). Choose another --out, or delete the file") from None
    for field in fields(Study):
        was, asked = getattr(old, field.name), getattr(new, field.name)
        if field.name not in ("starts", "results") and was != asked:
            raise InputError(
                f"{file} was measured with {field.name} {was:g}, not {asked:g}. Choose another --out, or delete it"
            )
    return old


def keep(study: Study, plan: NormStudy) -> None:
    keep_numbers(study, plan.out)
    draw_norms(chosen_part(study, plan), plan.out / PICTURE)


def keep_numbers(study: Study, out: Path) -> None:
    write_json(out / NUMBERS, study.to_dict(), durable=True)


def chosen_part(study: Study, plan: NormStudy) -> Study:
    """Only the results that this call asks for."""
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
    """Computes with one thread: matrices this small are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
