"""Limits on requests: how long one may take, and how many may run at once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Semaphore

WAIT = 20.0  # seconds to wait for other requests

_until: ContextVar[tuple[float, float] | None] = ContextVar("until", default=None)  # deadline, and seconds allowed


class RequestTimeoutError(Exception):
    """A request took too long."""


class BusyError(Exception):
    """Too many requests are being answered."""


class GoneError(Exception):
    """The requested item does not exist or is no longer in memory."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limits the time of the code inside, in this thread; `check_time` stops it at the deadline."""
    token = _until.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _until.reset(token)


def check_time(*ignored: object) -> None:
    """Raises an error after the deadline; called between layers and between blocks of rows."""
    until = _until.get()
    if until is not None and time.monotonic() > until[0]:
        raise RequestTimeoutError(f"this took longer than {until[1]:g} seconds: give the model a shorter input")


@contextmanager
def slot(places: Semaphore) -> Iterator[None]:
    """Waits up to `WAIT` seconds for a free place."""
    if not places.acquire(timeout=WAIT):
        raise BusyError("the model is busy with another input: try again in a moment")
    try:
        yield
    finally:
        places.release()
