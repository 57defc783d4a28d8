"""What a request may cost: time, and a turn. And the errors that say so."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Semaphore

WAIT = 20.0  # seconds to wait for others to be done

_until: ContextVar[tuple[float, float] | None] = ContextVar("until", default=None)  # when time is over, and how much


class OvertimeError(Exception):
    """A request took longer than it may."""


class BusyError(Exception):
    """Others are being answered."""


class GoneError(Exception):
    """There is no such thing, or it is no longer kept."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What runs inside, in this thread, is stopped by its own `check_time` when this time is over."""
    token = _until.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _until.reset(token)


def check_time(*ignored: object) -> None:
    """Called between two layers, or two blocks of rows."""
    until = _until.get()
    if until is not None and time.monotonic() > until[0]:
        raise OvertimeError(f"this took longer than {until[1]:g} seconds: give the model a shorter input")


@contextmanager
def turn(places: Semaphore) -> Iterator[None]:
    """Waits for a place, and not for ever."""
    if not places.acquire(timeout=WAIT):
        raise BusyError("the model is busy with another input: try again in a moment")
    try:
        yield
    finally:
        places.release()
