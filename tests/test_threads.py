"""The number of threads: from the free cores, the user's setting, or the start of the run."""

import json
import os
from pathlib import Path

import pytest
import torch
from helpers.command import run
from helpers.oracle import writer

from glassformer import threads
from glassformer.generation.pace import ThreadLimit
from glassformer.threads import Load, Reading, exactly, held, reading, threads_of_training


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)


def seen(monkeypatch: pytest.MonkeyPatch, *readings: Reading | None, **keywords: float) -> Load:
    """A Load with these readings, one after another."""
    left = list(readings)
    monkeypatch.setattr(threads, "reading", lambda: left.pop(0))
    monkeypatch.setattr(threads.time, "monotonic", lambda: left[0].time if left and left[0] else 0.0)
    return Load(**keywords)


@pytest.mark.parametrize(
    ("busy", "own", "free"),
    [(0.0, 0.0, 4), (1.0, 1.0, 4), (0.2, 0.0, 4), (1.0, 0.0, 3), (1.2, 0.0, 3), (2.5, 0.5, 2), (9.0, 0.0, 1)],
)
def test_free_is_what_other_programs_leave(busy: float, own: float, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    load = seen(monkeypatch, Reading(10.0, 4, 100.0, 5.0), Reading(11.0, 4, 100.0 + busy, 5.0 + own))
    assert load.free_cores() == free


def test_it_is_not_asked_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    load = seen(monkeypatch, Reading(10.0, 2, 0.0, 0.0), Reading(10.05, 2, 1.0, 0.0), Reading(11.0, 2, 1.0, 0.0))
    assert load.free_cores() == 2
    assert load.others == 0.0  # too early to measure


@pytest.mark.parametrize(("running", "free"), [(1, 4), (2, 3), (9, 1)])
def test_after_a_pause_what_runs_now_counts(running: int, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    others_computed = Reading(15.0, 4, 108.0, 5.0, running)
    load = seen(monkeypatch, Reading(10.0, 4, 100.0, 5.0), others_computed, stale=0.5)
    assert load.free_cores() == free


def test_where_the_kernel_does_not_tell_all_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 8)
    assert seen(monkeypatch, None).free_cores() == 8


@pytest.mark.skipif(not Path("/proc/stat").is_file(), reason="the kernel does not tell what other programs use")
def test_this_machine_tells() -> None:
    before = reading()
    sum(range(10**6))
    after = reading()
    assert before is not None
    assert after is not None
    assert after.own > before.own
    assert after.all >= before.all
    assert after.cores >= 1


def test_a_training_keeps_what_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    load = seen(monkeypatch, Reading(10.0, 2, 0.0, 0.0), Reading(11.0, 2, 1.0, 0.0))
    with exactly(2):
        assert threads_of_training(load, 2) == 2
        assert threads_of_training(load, None) == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        assert threads_of_training(load, 1) == 2
    with pytest.raises(KeyError), exactly(2):
        raise KeyError
    assert torch.get_num_threads() == 1


@pytest.mark.skipif(len(threads.allowed_cores()) < 2, reason="there is one core")
def test_one_thread_for_every_core_has_a_core_of_its_own() -> None:
    cores = threads.allowed_cores()
    with exactly(len(cores)):
        assert os.sched_getaffinity(0) == {cores[0]}
    assert os.sched_getaffinity(0) == set(cores)
    with exactly(1):
        assert os.sched_getaffinity(0) == set(cores)


def test_another_openmp_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(threads.ctypes, "CDLL", missing)
    assert not threads.bind([{0}, {1}])


def test_generation_takes_the_threads_that_its_work_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    small, taken = writer(), list[int]()
    monkeypatch.setattr(ThreadLimit.load, "free_cores", lambda: 2)
    with exactly(2):
        with ThreadLimit(small) as pace:
            for tokens in (1, 10**7):
                pace.set(tokens)
                taken.append(torch.get_num_threads())
            monkeypatch.setattr(ThreadLimit.load, "free_cores", lambda: 1)
            pace.set(10**7)
            taken.append(torch.get_num_threads())
            monkeypatch.setattr(pace, "is_free", False)
            torch.set_num_threads(2)
            pace.set(1)
            taken.append(torch.get_num_threads())
        assert torch.get_num_threads() == 2
    assert taken == [1, 2, 1, 2]


def test_a_run_records_its_threads_and_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, small = tmp_path / "run", ("--d-model=16", "--num-heads=2", "--num-layers=1")
    assert run("train", "images", "--out", out, "--steps=2", *small) == 0
    assert json.loads((out / "run.json").read_text())["threads"] == 1
    again = tmp_path / "again"
    monkeypatch.setattr("glassformer.training.run.threads_of_training", lambda load, recorded: recorded or 2)
    assert run("train", "images", "--out", again, "--steps=2", *small) == 0
    assert json.loads((again / "run.json").read_text())["threads"] == 2
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("variable", [None, "2"])
def test_held_threads_do_not_depend_on_what_else_runs(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    small = writer()
    for free in (1, 2):
        monkeypatch.setattr(ThreadLimit.load, "free_cores", lambda free=free: free)
        with held(2), ThreadLimit(small) as pace:
            pace.set(10**7)
            assert torch.get_num_threads() == 2
            pace.set(1)
            assert torch.get_num_threads() == 1
    assert not threads.are_held()
