"""Ctrl-C and SIGTERM stop a training between two steps, so that it can be saved; a second one stops it at once."""

import signal
import threading
import time
from types import FrameType
from typing import Self

TOGETHER = 2.0  # signals within this many seconds count as one: a supervisor and torchrun may both send it
WATCHED = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Holds the number of the signal received, 0 if none."""

    number = 0
    came = 0.0

    def __enter__(self) -> Self:
        watches = threading.current_thread() is threading.main_thread()  # Python allows handlers only there
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
