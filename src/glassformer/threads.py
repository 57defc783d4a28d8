"""Chooses the number of threads by the size of the work and the free cores.

OpenMP's threads wait for each other by spinning. If another process keeps one of two cores busy, two threads mostly
wait for the one that is not scheduled, and run ten times slower than one thread. One thread is also faster where a step
takes less time than waking the others.

Training chooses once, because another number of threads changes the last bits of its results. The user's choice has
priority: OMP_NUM_THREADS is used as it is, `torch.set_num_threads` as the maximum.
"""

import ctypes
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
AFFINITY_VARIABLES = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
WINDOW = 0.1  # seconds: the kernel counts in hundredths
SLACK = 0.3  # share of a core that others may use before it counts as busy

_holders = 0  # calls of `held` that have not ended


class Reading(NamedTuple):
    """CPU seconds of the machine and of this process up to a moment."""

    time: float
    cores: int
    all: float
    own: float
    running: int = 1  # threads that run or wait for a core now, including the caller


class Load:
    """How many cores other processes keep busy, on average since the last call.

    After more than `stale` seconds the average is too old, and the threads running now are counted instead: a process
    that waited while another one computed would otherwise start with one thread.
    """

    def __init__(self, stale: float = math.inf) -> None:
        self.stale = stale
        self.others = 0.0
        self.before = reading()

    def measured(self) -> float:
        before = self.before
        if before is None or time.monotonic() - before.time < WINDOW or (now := reading()) is None:
            return self.others
        passed, self.before = now.time - before.time, now
        if passed > self.stale:
            self.others = float(max(0, now.running - 1))
        else:
            self.others = max(0.0, (now.all - before.all - (now.own - before.own)) / passed)
        return self.others

    def free_cores(self) -> int:
        """The number of free cores, at least 1."""
        cores = self.before.cores if self.before is not None else os.cpu_count() or 1
        return max(1, int(cores - self.measured() + SLACK))


def reading() -> Reading | None:
    """The CPU times up to now; None if the system has no /proc/stat."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    ticks = [int(word) for word in lines[0].split()[1:9]]
    cores = sum(line.startswith("cpu") for line in lines) - 1
    idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
    running = next((int(line.split()[1]) for line in lines if line.startswith("procs_running")), 1)
    all_cores = (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")
    return Reading(time.monotonic(), cores, all_cores, time.process_time(), running)


def is_set_by_user() -> bool:
    return any(os.environ.get(name) for name in VARIABLES)


def threads_of_training(load: Load, recorded: int | None) -> int:
    """The number the run started with, or the user's choice, or all free cores."""
    if is_set_by_user():
        return torch.get_num_threads()
    return recorded or min(torch.get_num_threads(), load.free_cores())


class Threads:
    """Sets torch's number of threads and restores it. With one thread per core, each thread is bound to its own
    core."""

    def __init__(self) -> None:
        self.before = self.now = torch.get_num_threads()
        self.cores = allowed_cores()
        self.are_bound = False

    def set(self, number: int) -> None:
        if number == self.now and self.are_bound == self.to_be_bound(number):
            return
        torch.set_num_threads(number)
        self.now = number
        if self.to_be_bound(number):
            self.are_bound = bind([{core} for core in self.cores])
        else:
            self.free()

    def to_be_bound(self, number: int) -> bool:
        return number == len(self.cores) > 1 and not any(
            os.environ.get(name) for name in (*VARIABLES, *AFFINITY_VARIABLES)
        )

    def free(self) -> None:
        """Unbinds the calling thread, because its children inherit its cores. The other threads only compute."""
        if self.are_bound:
            os.sched_setaffinity(0, self.cores)
        self.are_bound = False

    def put_back(self) -> None:
        self.free()
        if self.now != self.before:
            torch.set_num_threads(self.before)
            self.now = self.before


@contextmanager
def exactly(number: int) -> Iterator[None]:
    """Computes with exactly this many threads."""
    threads = Threads()
    threads.set(number)
    try:
        yield
    finally:
        threads.put_back()


@contextmanager
def held(number: int) -> Iterator[None]:
    """As `exactly`, and ignores the load of other programs: the same call always uses the same number of threads and
    gives the same bits."""
    global _holders
    _holders += 1
    try:
        with exactly(number):
            yield
    finally:
        _holders -= 1


def are_held() -> bool:
    return _holders > 0


def allowed_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def bind(places: list[set[int]]) -> bool:
    """Binds OpenMP's i-th thread to the i-th set of cores; False if OpenMP is not GNU's.

    Some kernels schedule threads that wake briefly on one core, where they would spin against each other.
    """
    try:
        openmp = ctypes.CDLL("libgomp.so.1")
        parallel, number = openmp.GOMP_parallel, openmp.omp_get_thread_num
    except (OSError, AttributeError):
        return False

    def place(_: object) -> None:
        with suppress(OSError):
            os.sched_setaffinity(0, places[number()])  # of the calling thread

    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(place)
    parallel(body, None, len(places), 0)
    return True


def memory_of_machine() -> int | None:
    """The machine's memory in bytes; None if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
