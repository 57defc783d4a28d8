"""The plan of a training: it fits into the time, and every step follows from it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_runs import tiny

from glassformer.training.plan import (
    Leg,
    MeasuredTimes,
    Plan,
    describe_plan,
    fitting_warmup,
    plan_minutes,
    plan_steps,
    sample_size,
    seconds_each,
)
from glassformer.training.task import sample_numbers

FAST = MeasuredTimes(step=0.1, valid=0.001, test=0.001)


def minutes(out: Path, minutes: float, costs: MeasuredTimes = FAST, **changes: Any) -> Plan:
    told = {"waited": 20.0, "valid": 1000, "test": 1000, **changes}
    return plan_minutes(tiny(out, steps=None, minutes=minutes, warmup=100), costs, **told)


def evaluated(plan: Plan) -> list[int]:
    return [step for step in range(1, plan.steps + 1) if plan.is_evaluation_due(step)]


def test_steps_are_planned_as_they_are_asked_for(tmp_path: Path) -> None:
    plan = plan_steps(tiny(tmp_path, warmup=7), 60)
    assert (plan.steps, plan.warmup, plan.eval_every) == (60, 7, 6)
    assert evaluated(plan) == list(range(6, 61, 6))
    assert plan.evaluations_after(0) == 10
    assert [plan.progress(step) for step in (0, 15, 60)] == [0.0, 0.25, 1.0]
    assert Plan.from_dict(plan.to_dict()) == plan


@pytest.mark.parametrize("waited", [1.0, 20.0, 60.0])
@pytest.mark.parametrize(
    "costs",
    [
        FAST,
        MeasuredTimes(step=0.1, valid=0.05, test=0.05),  # 50 seconds for 1,000 examples, each time
        MeasuredTimes(step=3.0, valid=0.0001, test=2.0),
        MeasuredTimes(step=0.001, valid=1e-6, test=1e-6),
    ],
)
def test_everything_fits_into_the_minutes(costs: MeasuredTimes, waited: float, tmp_path: Path) -> None:
    plan = minutes(tmp_path, 2, costs, waited=waited)
    assert plan.seconds is not None
    assert plan.valid is not None and plan.test is not None  # noqa: PT018
    training = plan.steps * costs.step
    validation = len(evaluated(plan)) * plan.valid * costs.valid
    whole = waited + training + validation + plan.seconds.scoring
    assert whole < 120
    assert plan.test * costs.test <= max(plan.seconds.scoring, 10 * costs.test)
    assert training > 0.4 * (120 - waited)
    assert len(evaluated(plan)) == plan.evaluations_after(0) >= 1


def test_what_does_not_fit_is_a_sample(tmp_path: Path) -> None:
    whole = minutes(tmp_path, 2)
    assert (whole.valid, whole.test, len(evaluated(whole))) == (1000, 1000, 10)
    plan = minutes(tmp_path, 2, MeasuredTimes(step=0.1, valid=0.05, test=0.05))
    assert plan.valid is not None and 10 <= plan.valid < 1000  # noqa: PT018
    assert plan.test is not None and 10 <= plan.test < 1000  # noqa: PT018
    assert len(evaluated(plan)) == 3
    said = describe_plan(plan, tiny(tmp_path, warmup=100), valid=1000, test=1000, unit="pairs")
    assert said[1] == f"evaluations are on a sample of {plan.valid} of 1,000 pairs"
    assert said[2] == f"the final score is on a sample, of about {plan.test} of 1,000 pairs"


def test_reading_that_took_all_the_time_leaves_a_little_to_train(tmp_path: Path) -> None:
    plan = minutes(tmp_path, 0.2, waited=50.0)
    assert 5 <= plan.steps * FAST.step * 10 < 0.25 * 12 * 10


def test_steps_bound_minutes_and_a_run_that_goes_on_keeps_its_warm_up(tmp_path: Path) -> None:
    assert minutes(tmp_path, 2, most=30).steps == 30
    longer = minutes(tmp_path, 2, step=100, warmup=17)
    assert longer.steps > 100
    assert longer.warmup == 17


@pytest.mark.parametrize(("steps", "warmup"), [(1000, 400), (800, 400), (799, 199), (45, 11), (3, 1), (1, 1)])
def test_a_warm_up_that_does_not_fit_is_scaled(steps: int, warmup: int, tmp_path: Path) -> None:
    settings = tiny(tmp_path, warmup=400)
    assert fitting_warmup(settings.as_given([]), steps) == warmup
    assert fitting_warmup(settings.as_given(["warmup"]), steps) == 400, "a flag is respected"


def test_what_became_of_the_warm_up_is_said(tmp_path: Path) -> None:
    settings = tiny(tmp_path, warmup=400)
    told = {"valid": 8, "test": 8, "unit": "pairs"}
    scaled = describe_plan(plan_steps(settings.as_given([]), 45), settings, **told)
    assert scaled == ["45 steps, warm-up 11 (400 is too long for so few steps; --warmup sets it), 12 evaluations"]
    kept = describe_plan(plan_steps(settings, 100), settings, **told)
    assert kept == [
        "100 steps, warm-up 400 (too long: the learning rate only reaches 25% of its peak; lower --warmup), "
        "10 evaluations"
    ]


def test_a_changed_plan_goes_on_where_it_was() -> None:
    plan = Plan(legs=(Leg(until=100),), warmup=10)
    changed = plan.changed(40, 60, 10).changed(50, 200, 10)
    assert [changed.progress(step) for step in range(41)] == [plan.progress(step) for step in range(41)]
    course = [changed.progress(step) for step in range(201)]
    assert course == sorted(course)
    assert course[-1] == pytest.approx(1.0)
    assert max(b - a for a, b in pairwise(course[:50])) < 0.05
    assert len(evaluated(changed)) == 10, "the evaluations stay evenly spread"
    assert changed.changed(50, 50, 10).steps == 50
    assert Plan.from_dict(changed.to_dict()) == changed


def test_a_plan_is_changed_when_the_clock_says_so() -> None:
    plan = Plan(legs=(Leg(until=100),), warmup=10)
    refit = {"step_seconds": 1.0, "evaluation_seconds": 0.5}
    assert plan.refit(50, left=52.5, **refit) is plan
    assert plan.refit(50, left=51, **refit) is plan, "a little late"
    assert plan.refit(50, left=22.5, **refit).steps == 70
    assert plan.refit(50, left=102.5, **refit).steps == 150
    assert plan.refit(50, left=102.5, **refit, most=120).steps == 120
    assert plan.refit(50, left=-1, **refit).steps == 50, "it ends now"
    dear = plan.refit(50, left=60, step_seconds=1.0, evaluation_seconds=10.0)
    assert len([step for step in evaluated(dear) if step > 50]) <= 2
    assert dear.steps > 80, "steps are worth more than evaluations"


@pytest.mark.parametrize(
    ("fitting", "count", "expected"), [(50, 20, 20), (4999, 10_000, 4000), (123, 1000, 100), (3, 1000, 10), (3, 7, 7)]
)
def test_samples_are_round_numbers(fitting: float, count: int, expected: int) -> None:
    assert sample_size(fitting, count) == expected


def test_a_sample_is_always_the_same_and_part_of_a_larger_one() -> None:
    assert sample_numbers(1000, 50) == sample_numbers(1000, 50) == sorted(sample_numbers(1000, 50))
    assert (
        set(sample_numbers(1000, 50))
        < set(sample_numbers(1000, 400))
        < set(sample_numbers(1000, None))
        == set(range(1000))
    )
    labels = [number % 2 for number in range(1000)]  # every second row would not be representative
    assert 0.35 < sum(labels[number] for number in sample_numbers(1000, 100)) / 100 < 0.65


def test_scores_are_timed_on_few_examples_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [0.0], []

    def score(count: int) -> None:
        asked.append(count)
        now[0] += 0.1 + 0.01 * count

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    assert 0.01 < seconds_each(score, 10_000, limit=2.0) < 0.02
    assert asked[0] == 2
    assert now[0] < 4.0
    assert seconds_each(score, 1, limit=2.0) == pytest.approx(0.11)
