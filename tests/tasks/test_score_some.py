"""Scores of some examples and of all, for every task."""

import time
from pathlib import Path

import pytest

from glassformer.tasks import settings as tasks
from glassformer.tasks.registry import make_task

SMALL = {"d_model": 12, "num_heads": 2, "num_layers": 2, "out": Path("unused")}


@pytest.mark.parametrize(
    "settings",
    [
        tasks.ImagesSettings(**SMALL),
        tasks.ForecastSettings(**SMALL, length=48, horizon=4, patch=8),
        pytest.param(tasks.TranslateSettings(**SMALL, examples=60), marks=pytest.mark.slow),
        pytest.param(tasks.ClassifySettings(**SMALL), marks=pytest.mark.slow),
        pytest.param(tasks.LmSettings(**SMALL, context=64, vocab_size=300), marks=pytest.mark.slow),
        pytest.param(tasks.MlmSettings(**SMALL, context=64, vocab_size=300), marks=pytest.mark.slow),
    ],
    ids=lambda settings: settings.task,
)
def test_scores_of_all_examples_are_those_of_evaluate(settings: tasks.TaskSettings) -> None:
    task = make_task(settings)
    task.model.eval()
    whole, some = task.evaluate(), task.score_some(10**9)
    assert some.metrics == pytest.approx(whole.metrics, rel=1e-5)
    assert (some.count, some.unit) == (whole.count, whole.unit)
    assert 0 < task.score_some(3).count < whole.count


@pytest.mark.parametrize(
    "settings",
    [
        tasks.ImagesSettings(**SMALL),
        tasks.ForecastSettings(**SMALL, length=48, horizon=4, patch=8),
        tasks.TranslateSettings(**SMALL, examples=60),
        tasks.ClassifySettings(**SMALL),
        tasks.LmSettings(**SMALL, context=64, vocab_size=300, sample=0),
        tasks.MlmSettings(**SMALL, context=64, vocab_size=300),
    ],
    ids=lambda settings: settings.task,
)
def test_a_sample_is_scored_alike_each_time_and_said_to_be_one(settings: tasks.TaskSettings) -> None:
    task = make_task(settings)
    task.model.eval()
    task.until = time.perf_counter() - 1  # no time for baselines
    some, again = task.evaluate(6), task.evaluate(6)
    unit = task.counts or task.unit
    assert some.sample == some.scored_on == f"a sample of 6 of {task.count('test'):,} {unit}"
    assert (some.metrics, some.count) == (again.metrics, again.count)
    assert some.metrics == pytest.approx(task.score_some(6).metrics)
    assert 0 < some.count < 6 * 64 + 1
    assert task.validate(5) == task.validate(5) != task.validate(7)
    assert task.count("valid") > 7
