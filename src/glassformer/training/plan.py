"""The plan of a training: its steps, warm-up and evaluations, and how many examples are scored.

`--steps` sets the number of steps. `--minutes` sets the total time: reading, training, evaluations and the final score
together. A few steps and scores are timed, and the remaining time is divided:

    reading     as long as it took
    scoring     at most a quarter of the rest: the final scores of the model and of the baselines
    validation  about a seventh: evaluations during training
    training    the rest, as a number of steps

Sets that are too large are scored on a fixed sample. A plan counts in steps, never in seconds, and is stored in
run.json, so that a resumed run repeats every bit. If steps turn out slower or faster than the timed ones, the rest of
the training is planned again. Each change is written before it takes effect, as a further leg of the plan.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import floor, log10

from glassformer.schema import Config
from glassformer.training.settings import TrainSettings
from glassformer.training.waiting import readable_time

EVALUATIONS, FEWEST = 10, 3  # evaluations per run: by default, and if time is short
SCORING, VALIDATION, MARGIN = 0.25, 0.14, 0.04  # shares of the time
OF_MODEL = 0.6  # share of scoring for the model; the rest is for the baselines
MIN_TRAINING_SHARE = 0.25  # share of the time that training gets even if reading took all of it
TIMED = 0.02  # share of the time for each measurement
LATE, EARLY = 0.05, 0.15  # of the remaining steps: the plan changes if it is off by more than this ...
SLIGHT = 0.02  # ... and of all steps
MIN_SAMPLE = 10  # examples of a sample
FIRST = 2  # examples timed first


@dataclass(frozen=True, kw_only=True)
class Leg(Config):
    """A part of a training run, from after step `after` to step `until`."""

    after: int = 0
    until: int
    evaluations: int = EVALUATIONS  # evaluations in the whole run, for this leg

    def part(self, step: int) -> float:
        return (step - self.after) / (self.until - self.after) if self.until > self.after else 1.0


@dataclass(frozen=True, kw_only=True)
class Shares(Config):
    """Seconds for each part of the total time."""

    reading: float
    training: float
    validation: float
    scoring: float


@dataclass(frozen=True, kw_only=True)
class Plan(Config):
    """The plan of a training run; a function of the step alone."""

    legs: tuple[Leg, ...]
    warmup: int
    eval_every: int | None = None  # None: decided by the legs
    valid: int | None = None  # examples that an evaluation scores; None for all
    test: int | None = None  # examples of the final score; None for all
    seconds: Shares | None = None  # if the plan was made for `--minutes`

    @property
    def steps(self) -> int:
        return self.legs[-1].until

    def progress(self, step: int) -> float:
        """The fraction of the training that is done at a step; it rises from 0 to 1 without jumps."""
        done = 0.0
        for leg, following in zip(self.legs, [*(leg.after for leg in self.legs[1:]), None], strict=True):
            begun, rest = done, 1 - done
            if following is None or step <= following:
                return begun + rest * leg.part(step)
            done = begun + rest * leg.part(following)
        return done

    def is_evaluation_due(self, step: int) -> bool:
        if self.eval_every is not None:
            return step % self.eval_every == 0
        count = self.leg_of(step).evaluations
        return self.evaluations_by(step, count) > self.evaluations_by(step - 1, count)

    def evaluations_by(self, step: int, count: int) -> int:
        """How many of `count` evaluations, spread evenly over the training, are done by this step."""
        return int(round(self.progress(step) * count, 9))

    def evaluations_after(self, step: int) -> int:
        """How many evaluations remain; one always follows the last step."""
        if self.eval_every is not None:
            return self.steps // self.eval_every - step // self.eval_every + bool(self.steps % self.eval_every)
        count = self.leg_of(step + 1).evaluations
        return max(1, count - self.evaluations_by(step, count)) if step < self.steps else 0

    def leg_of(self, step: int) -> Leg:
        return next(leg for leg in reversed(self.legs) if leg.after < step or leg is self.legs[0])

    def changed(self, step: int, until: int, evaluations: int) -> "Plan":
        """The same plan up to this step, with another number of steps from there."""
        before = [leg for leg in self.legs if leg.after < step]
        return self.replace(legs=(*before, Leg(after=step, until=until, evaluations=evaluations)))

    def refit(
        self, step: int, *, left: float, step_seconds: float, evaluation_seconds: float, most: int | None = None
    ) -> "Plan":
        """This plan, or a changed one if it would take more or much less than the remaining seconds."""
        planned, to_come, count = self.steps - step, self.evaluations_after(step), self.legs[-1].evaluations
        fitting = max(1, int(2 * VALIDATION * left / max(evaluation_seconds, 1e-9)))
        if self.eval_every is None and to_come > fitting:
            count, to_come = max(1, count * fitting // to_come), fitting
        more = max(0, int((left - to_come * evaluation_seconds) / max(step_seconds, 1e-9)))
        more = more if most is None else min(more, max(0, most - step))
        late, early = max(LATE * planned, SLIGHT * self.steps), max(1, EARLY * planned, SLIGHT * self.steps)
        if count == self.legs[-1].evaluations and -late <= more - planned <= early:
            return self
        return self.changed(step, step + more, count)


@dataclass(frozen=True, kw_only=True)
class MeasuredTimes:
    """Measured seconds per step, per validated example and per scored example."""

    step: float
    valid: float
    test: float


def plan_steps(settings: TrainSettings, steps: int, valid: int | None = None, warmup: int | None = None) -> Plan:
    """The plan for a number of steps, with at most `valid` examples per evaluation."""
    return Plan(
        legs=(Leg(until=steps),),
        warmup=fitting_warmup(settings, steps) if warmup is None else warmup,
        eval_every=settings.eval_every or max(1, steps // EVALUATIONS),
        valid=valid,
    )


def plan_minutes(
    settings: TrainSettings,
    costs: MeasuredTimes,
    *,
    waited: float,
    valid: int,
    test: int,
    step: int = 0,
    most: int | None = None,
    warmup: int | None = None,
) -> Plan:
    """The plan that fits into `--minutes`, of which `waited` seconds have passed.

    There are `valid` and `test` examples to score, and at most `most` steps. For a resumed run, `step` steps are done,
    and `warmup` is the one it started with.
    """
    assert settings.minutes is not None
    budget = 60 * settings.minutes
    rest = max(budget - waited, MIN_TRAINING_SHARE * budget) - MARGIN * budget
    scoring = SCORING * rest
    tested = sample_size(OF_MODEL * scoring / costs.test, test)
    scoring = min(scoring, tested * costs.test + (1 - OF_MODEL) * scoring)
    evaluations = EVALUATIONS
    if settings.eval_every is not None:
        evaluations = max(1, round((rest - scoring) / costs.step / settings.eval_every))
    elif costs.valid * valid * evaluations > VALIDATION * rest:
        evaluations = max(FEWEST, min(EVALUATIONS, int(VALIDATION * rest / (costs.valid * valid))))
    sample = sample_size(VALIDATION * rest / evaluations / costs.valid, valid)
    more = max(1, int((rest - scoring - evaluations * sample * costs.valid) / costs.step))
    steps = step + more if most is None else max(step, min(step + more, most))
    evaluations = max(1, min(evaluations, steps - step))
    validation = evaluations * sample * costs.valid
    return Plan(
        legs=(Leg(until=max(1, steps), evaluations=evaluations),),
        warmup=fitting_warmup(settings, steps) if warmup is None else warmup,
        eval_every=settings.eval_every,
        valid=sample,
        test=tested,
        seconds=Shares(
            reading=round(waited, 1),
            training=round((steps - step) * costs.step, 1),
            validation=round(validation, 1),
            scoring=round(scoring, 1),
        ),
    )


def fitting_warmup(settings: TrainSettings, steps: int) -> int:
    """The requested warm-up, or a quarter of the steps if it is more than half of them.

    A warm-up given by a flag stays; `describe_warmup` warns if it does not fit.
    """
    fits = 2 * settings.warmup <= steps or "warmup" in settings.given
    return settings.warmup if fits else max(1, steps // 4)


def sample_size(fitting: float, count: int) -> int:
    """How many of `count` examples to score if `fitting` fit into the time: all, or a number with one digit and zeros.

    Round, so that two runs on one machine score about the same sample.
    """
    if fitting >= count:
        return count
    fitting = max(fitting, MIN_SAMPLE)
    power = 10 ** floor(log10(fitting))
    return min(count, int(fitting / power) * power)


def as_sample(some: int, whole: int, unit: str) -> str:
    return f"a sample of {some:,} of {whole:,} {unit}"


def seconds_each(score: Callable[[int], object], count: int, limit: float) -> float:
    """Seconds to score one example, measured on more and more examples until the limit is near."""
    some = min(count, FIRST)
    while True:
        began = time.perf_counter()
        score(some)
        spent = max(1e-6, time.perf_counter() - began)
        if some == count or spent > limit / 3:
            return spent / some
        some = min(count, int(some * min(8.0, max(2.0, limit / 2 / spent))))


def describe_plan(plan: Plan, settings: TrainSettings, *, valid: int, test: int, unit: str) -> list[str]:
    """The plan in words; `valid` and `test` are the numbers of examples."""
    often = plan.evaluations_after(0) if len(plan.legs) == 1 else plan.legs[-1].evaluations
    lines = [
        f"{plan.steps:,} steps, {describe_warmup(plan, settings)}, {often:,} evaluation{'s' if often != 1 else ''}"
    ]
    if plan.valid is not None and plan.valid < valid:
        lines.append(f"evaluations are on {as_sample(plan.valid, valid, unit)}")
    if plan.test is not None and plan.test < test:
        lines.append(f"the final score is on a sample, of about {plan.test:,} of {test:,} {unit}")
    return lines


def describe_shares(shares: Shares) -> str:
    """How the time is divided."""
    return (
        f"{readable_time(shares.reading)} for reading and timing, {readable_time(shares.training)} for training, "
        f"{readable_time(shares.validation)} for evaluations, {readable_time(shares.scoring)} for the final score"
    )


def describe_warmup(plan: Plan, settings: TrainSettings) -> str:
    if plan.warmup != settings.warmup:
        return f"warm-up {plan.warmup:,} ({settings.warmup:,} is too long for so few steps; --warmup sets it)"
    if plan.warmup >= plan.steps:
        reached = f"{plan.steps / plan.warmup:.0%}"
        return (
            f"warm-up {plan.warmup:,} (too long: the learning rate only reaches {reached} of its peak; lower --warmup)"
        )
    return f"warm-up {plan.warmup:,}"
