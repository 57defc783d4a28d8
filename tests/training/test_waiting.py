"""Progress of long loops: a bar on a terminal, a line now and then elsewhere, and a stop when time is up."""

import time
from io import StringIO

import pytest
from rich.console import Console

from glassformer.training.waiting import LoopProgress, OutOfTime, ProgressBars


class Clock:
    """A clock that a test moves."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        patch.setattr(time, "perf_counter", lambda: self.now)


def looped(follow: LoopProgress, clock: Clock, seconds: float, count: int = 100) -> list[int]:
    done = []
    for number in follow(range(count)):
        clock.now += seconds
        done.append(number)
    return done


def test_a_loop_goes_through_all_and_shows_nothing_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert looped(LoopProgress(), Clock(monkeypatch), 1.0) == list(range(100))
    assert list(LoopProgress()([])) == []
    assert not any(capsys.readouterr())


def test_where_there_is_no_terminal_a_line_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said, clock = StringIO(), Clock(monkeypatch)
    with ProgressBars(Console(file=said, width=100)) as bars, bars.named("evaluation"):
        looped(bars, clock, 0.1)
        assert not said.getvalue(), "ten seconds need no line"
        looped(bars, clock, 1.0)
    assert said.getvalue().splitlines() == [
        "evaluation: 21%, 79 s left",
        "evaluation: 42%, 58 s left",
        "evaluation: 63%, 37 s left",
        "evaluation: 84%, 16 s left",
    ]


def test_a_terminal_has_a_bar_with_the_time_left_and_loops_inside_loops() -> None:
    said = StringIO()
    with ProgressBars(Console(file=said, force_terminal=True, width=100)) as bars:
        with bars.waiting("reading data"):
            bars.progress.refresh()
        for _ in bars(range(2), "outer"):
            for _ in bars(range(2), "inner"):
                bars.progress.refresh()
    shown = said.getvalue()
    for part in ("reading data", "outer", "inner", "0 s left"):
        assert part in shown
    assert not bars.loops


def test_a_loop_that_would_take_too_long_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, follow = Clock(monkeypatch), LoopProgress()
    with follow.limited(50.0), pytest.raises(OutOfTime, match="it would take about"):
        looped(follow, clock, 1.0)
    assert clock.now < 10, "not only when the time is up"
    with follow.limited(clock.now + 101):
        looped(follow, clock, 1.0)
    looped(follow, clock, 1.0)
    assert follow.limit is None
