"""How many threads to compute with: as many as the work is worth and the machine has free.

OpenMP's threads wait for each other by spinning. Beside a process that keeps one core busy, two threads on two cores
mostly wait for the one that does not get its turn: work slows down to a tenth. One thread fewer is faster then, and so
it is where a step takes less time than waking the others.

A training asks once, and keeps to it: another number of threads changes the last bits of its results. What a user set
holds: OMP_NUM_THREADS is taken as it is, `torch.set_num_threads` as the most there may be. Torch is imported where it
is needed: the command line comes here before it.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
WINDOW = 0.1  # seconds: the kernel counts in hundredths
SLACK = 0.3  # of a core that others may use before it counts as taken
SPIN, SPINS = "GOMP_SPINCOUNT", "1000"


class Reading(NamedTuple):
    """What the machine and this process had computed at a moment, in seconds."""

    time: float
    cores: int
    all: float
    own: float


class Load:
    """How many cores other processes keep busy, since the last time somebody asked."""

    def __init__(self) -> None:
        self.others = 0.0
        self.before = reading()

    def measured(self) -> float:
        before = self.before
        if before is None or time.monotonic() - before.time < WINDOW or (now := reading()) is None:
            return self.others
        self.others = max(0.0, (now.all - before.all - (now.own - before.own)) / (now.time - before.time))
        self.before = now
        return self.others

    def free_cores(self) -> int:
        """At least one."""
        cores = self.before.cores if self.before is not None else os.cpu_count() or 1
        return max(1, int(cores - self.measured() + SLACK))


def reading() -> Reading | None:
    """None where the kernel does not tell."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    ticks = [int(word) for word in lines[0].split()[1:9]]
    cores = sum(line.startswith("cpu") for line in lines) - 1
    idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
    return Reading(time.monotonic(), cores, (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK"), time.process_time())


def is_set_by_user() -> bool:
    return any(os.environ.get(name) for name in VARIABLES)


def spin_briefly() -> None:
    """Lets threads that wait sleep soon. It works before torch is imported; what the user set stays."""
    if SPIN not in os.environ and "OMP_WAIT_POLICY" not in os.environ:
        os.environ[SPIN] = SPINS


def threads_of_training(load: Load, recorded: int | None) -> int:
    """What the run began with, or what the user set, or all that are free now."""
    import torch

    if is_set_by_user():
        return torch.get_num_threads()
    return recorded or min(torch.get_num_threads(), load.free_cores())


@contextmanager
def exactly(threads: int) -> Iterator[None]:
    """Computes with so many threads."""
    import torch

    before = torch.get_num_threads()
    if threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
