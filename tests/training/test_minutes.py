"""`--minutes` is the total time: with a fake clock, a run ends in time, reports what it skipped, and resumes after a
kill to the same bits."""

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.tiny_runs import FakeClock, few, tiny, train, weights_of
from rich.console import Console

from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.loop import Trainer
from glassformer.training.run import run


class Killed(BaseException):
    """Stands for a kill: nothing in the loop catches it."""


def timed(out: Path, minutes: float = 1, **changes: Any) -> TranslateSettings:
    return tiny(out, **{"steps": None, "minutes": minutes, "warmup": 10, "dropout": 0.1, **changes}).as_given([])


def record_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return found


def said_by(settings: TranslateSettings, task: Translate) -> str:
    said = StringIO()
    run(lambda _: task, settings, Console(file=said, width=300), verb="train translate")
    return said.getvalue()


def test_a_run_ends_in_time_and_keeps_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    began = clock.now
    task = few(Translate(timed(tmp_path / "run")))
    said = said_by(timed(tmp_path / "run"), task)
    assert 45 < clock.now - began <= 60
    record = record_of(tmp_path / "run")
    assert record["steps"] == record["plan"]["legs"][-1]["until"]
    assert 60 <= record["steps"] <= 100, "half a second each"
    assert record["seconds"]["whole"] == pytest.approx(clock.now - began, abs=0.1)
    assert f"plan    {record['steps']} steps, warm-up 10, 10 evaluations" in said
    assert "for training" in said
    assert "sample" not in said, "eight pairs are scored quickly"
    assert record["sample"] is None


def test_nothing_is_learned_by_timing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planned run equals a run with the same number of steps, bit for bit."""
    for optimizer in ("adam", "muon"):
        changes = {"optimizer": optimizer, "rate": 0.01, "schedule": "cosine", "ema": 0.9}
        with monkeypatch.context() as patch:
            clock = FakeClock(patch)
            by_time, _ = train(timed(tmp_path / f"time-{optimizer}", 0.2, **changes))
            assert clock.rehearsed
        plan = record_of(tmp_path / f"time-{optimizer}")["plan"]
        assert len(plan["legs"]) == 1
        steps = tiny(tmp_path / f"steps-{optimizer}", **changes, steps=plan["legs"][0]["until"], warmup=plan["warmup"])
        by_steps, _ = train(steps.replace(dropout=0.1, eval_every=1))
        last = record_of(tmp_path / f"time-{optimizer}")["kept"], record_of(tmp_path / f"steps-{optimizer}")["kept"]
        assert last[0] == last[1]
        assert torch.equal(weights_of(by_time), weights_of(by_steps))


def test_a_run_that_was_killed_follows_its_plan_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        FakeClock(patch)
        whole, _ = train(timed(tmp_path / "whole", 0.3, checkpoint_every=5))
    real = Trainer.update
    with monkeypatch.context() as patch, pytest.raises(Killed):
        FakeClock(patch)

        def update(self: Trainer, examples: list[int]) -> None:
            if self.state.step == 8:
                raise Killed
            real(self, examples)

        patch.setattr(Trainer, "update", update)
        train(timed(tmp_path / "cut", 0.3, checkpoint_every=5))
    plan = record_of(tmp_path / "cut")["plan"]
    with monkeypatch.context() as patch:
        clock = FakeClock(patch, step=30.0, valid=9.0)  # on a much slower machine
        cut, _ = train(timed(tmp_path / "cut", 0.3, checkpoint_every=5, resume=True))
        assert not clock.rehearsed
    assert record_of(tmp_path / "cut")["plan"] == plan == record_of(tmp_path / "whole")["plan"]
    assert torch.equal(weights_of(cut), weights_of(whole))


def test_slow_steps_shorten_the_plan_and_a_killed_run_repeats_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slower(clock: FakeClock) -> Any:
        real = Trainer.update

        def update(self: Trainer, examples: list[int]) -> None:
            clock.step = 0.5 if self.state.step < 10 else 2.0
            real(self, examples)

        return update

    with monkeypatch.context() as patch:
        clock = FakeClock(patch)
        patch.setattr(Trainer, "update", slower(clock))
        whole, _ = train(timed(tmp_path / "run", checkpoint_every=5, keep=0))
        assert clock.now - 1000 <= 63
    plan = record_of(tmp_path / "run")["plan"]
    assert len(plan["legs"]) > 1
    assert plan["legs"][-1]["until"] < plan["legs"][0]["until"]
    folder = tmp_path / "run" / "checkpoints"
    for step in folder.glob("step-*"):
        if step.name > "step-00000010":
            shutil.rmtree(step)
    (tmp_path / "run" / "model.safetensors").unlink()
    again, _ = train(timed(tmp_path / "run", checkpoint_every=5, keep=0, resume=True))
    assert record_of(tmp_path / "run")["plan"] == plan
    assert torch.equal(weights_of(again), weights_of(whole))


def test_a_score_that_does_not_fit_is_of_a_sample_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch, valid=0.05, score=0.2)  # 25 and 100 seconds for 500 pairs
    task = Translate(timed(tmp_path / "run"))
    began = clock.now
    said = said_by(timed(tmp_path / "run"), task)
    assert clock.now - began <= 66
    record = record_of(tmp_path / "run")
    plan = record["plan"]
    assert f"evaluations are on a sample of {plan['valid']} of 500 pairs" in said
    sample = f"a sample of {plan['test']} of 500 pairs"
    assert record["sample"] == sample
    assert record["results"]["count"] == plan["test"] < 500
    assert any(sample in note and "glassformer eval" in note for note in record["notes"])
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f"Scored on {sample} not used in training." in page
    assert f"Validation scores are on a sample of {plan['valid']} of 500 pairs." in page


def test_simple_methods_that_do_not_fit_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)

    def slow(train: Any, test: list[Any], follow: Any) -> list[str]:
        found = []
        for pair in follow(test):
            clock.now += 30
            found.append(pair.target)
        return found

    monkeypatch.setattr("glassformer.tasks.translate.nearest_source", slow)
    began = clock.now
    _, scores = train(timed(tmp_path / "run"))
    assert not scores.baselines
    (note,) = [note for note in scores.notes if note.startswith("baseline skipped")]
    assert note == (
        "baseline skipped: translation of the most similar training sentence (it would take about 4 min, more "
        "than is left of "
        "--minutes)"
    )
    assert clock.now - began < 60 + 31, "it gave up after the first"
    _, scores = train(tiny(tmp_path / "steps"))
    assert scores.baselines, "without --minutes, no baseline is skipped"


def test_a_longer_budget_makes_a_run_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)
    train(timed(tmp_path / "run", 0.5))
    first = record_of(tmp_path / "run")
    train(timed(tmp_path / "run", 0.5, resume=True))
    assert record_of(tmp_path / "run")["plan"] == first["plan"], "nothing is left to do"
    began = clock.now
    train(timed(tmp_path / "run", 1, resume=True))
    longer = record_of(tmp_path / "run")
    assert clock.now - began < 45, "earlier training counts"
    assert longer["steps"] > 1.5 * first["steps"]
    assert longer["plan"]["warmup"] == first["plan"]["warmup"]
    assert longer["settings"]["minutes"] == 1


def test_a_run_that_becomes_longer_by_the_clock_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timing its steps does not lose the optimiser state of the earlier ones."""
    same = {"schedule": "constant", "rate": 0.001, "warmup": 2, "eval_every": 1, "dropout": 0.1}
    train(tiny(tmp_path / "run", steps=5, **same))
    with monkeypatch.context() as patch:
        clock = FakeClock(patch)
        longer, _ = train(tiny(tmp_path / "run", steps=None, minutes=0.2, **same, resume=True))
        assert clock.rehearsed
    steps = record_of(tmp_path / "run")["steps"]
    assert steps > 8
    whole, _ = train(tiny(tmp_path / "whole", steps=steps, **same))
    assert torch.equal(weights_of(longer), weights_of(whole))


def test_a_run_of_an_earlier_version_that_was_counted_in_minutes_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record has no plan, and its checkpoint has fields that no longer exist."""
    FakeClock(monkeypatch)
    train(timed(tmp_path / "run", 0.5, checkpoint_every=5))
    file = tmp_path / "run" / "run.json"
    record = {name: value for name, value in record_of(tmp_path / "run").items() if name not in ("plan", "data")}
    file.write_text(json.dumps(record), encoding="utf-8")
    (state,) = (tmp_path / "run" / "checkpoints").glob("step-*/state.json")
    old = {**json.loads(state.read_text()), "warmed": 0.1, "evaluated_part": 3, "seconds": 10.0}
    del old["best_loss"]
    state.write_text(json.dumps(old), encoding="utf-8")
    train(timed(tmp_path / "run", 0.5, checkpoint_every=5, resume=True))
    assert record_of(tmp_path / "run")["steps"] > record["steps"]
