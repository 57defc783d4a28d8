"""Ctrl-C and SIGTERM end a training between two steps, so that it can be saved; a second one ends it at once."""

import signal
import threading
import time
from types import FrameType
from typing import Self

TOGETHER = 2.0  # seconds within which several are one: a supervisor and torchrun may both send it
WATCHED = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """The number of the signal that came, 0 before."""

    number = 0
    came = 0.0

    def __enter__(self) -> Self:
        watches = threading.current_thread() is threading.main_thread()  # Python lets no other thread do so
        self.old = {number: signal.signal(number, self.take) for number in WATCHED if watches}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.old.items():
            signal.signal(number, handler)

    def take(self, number: int, frame: FrameType | None) -> None:
        if self.number and time.monotonic() - self.came > TOGETHER:
            raise KeyboardInterrupt
        self.number = self.number or number
        self.came = time.monotonic()
