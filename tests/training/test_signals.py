"""The first signal asks a training to stop, a later one stops it at once; earlier handlers are restored."""

import signal

import pytest

from glassformer.training import signals
from glassformer.training.signals import TOGETHER, Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_remembered_and_a_later_one_interrupts(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(signals.time, "monotonic", lambda: now)
    with Signals() as asked:
        assert asked.number == 0
        signal.raise_signal(number)
        assert asked.number == number
        now += TOGETHER / 2  # as when torchrun forwards a signal that its supervisor sent to all
        signal.raise_signal(signal.SIGTERM)
        assert asked.number == number
        now += 2 * TOGETHER
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def ignored_by(number: signal.Signals, frame: object) -> None:
    """The handler of another program."""


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL, ignored_by], ids=["ignored", "default", "own"])
def test_what_was_there_before_is_put_back(before: signal.Handlers) -> None:
    """Also in a background job, whose shell makes it ignore Ctrl-C."""
    found = signal.signal(signal.SIGINT, before)
    try:
        with Signals():
            assert signal.getsignal(signal.SIGINT) != before
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, found)
