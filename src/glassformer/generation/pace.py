"""Chooses the number of threads for a pass by the number of tokens and the free cores.

In a pass, threads wait for each other after every matrix product. A second thread pays off if half of the pass takes
longer than the waiting. The load of other programs is checked a few times a second, also during generation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Self

from glassformer.core.model import Transformer
from glassformer.threads import Load, Threads, are_held, is_set_by_user

READS, COMPUTES, WAIT = (
    50e9,
    250e9,
    4e-6,
)  # bytes and operations per second of a core; seconds. Only orders of magnitude matter
PRODUCTS = 6  # matrix products of a layer, with its attention


class ThreadLimit:
    """Sets torch's number of threads for one call, in a `with`, and restores it. The user's own choice is not
    changed."""

    load = Load(stale=0.5)
    calls = 0  # running now, in all Python threads

    def __init__(self, model: Transformer) -> None:
        self.size = sum(x.numel() for x in chain(model.parameters(), model.buffers()))
        self.waiting = (PRODUCTS * model.config.last_stack.num_layers + 2) * WAIT  # seconds
        self.is_free = (are_held() or not is_set_by_user()) and model.device.type == "cpu"

    def __enter__(self) -> Self:
        self.threads = Threads()
        ThreadLimit.calls += 1
        return self

    def __exit__(self, *_: object) -> None:
        ThreadLimit.calls -= 1
        self.threads.put_back()

    def set(self, tokens: int) -> None:
        """Sets the threads for a pass over this many tokens."""
        most = self.threads.before
        if not self.is_free or most == 1:
            return
        seconds = max(4 * self.size / READS, 2 * self.size * tokens / COMPUTES)  # on one thread
        free = most if are_held() else min(most, ThreadLimit.load.free_cores() // max(1, ThreadLimit.calls))
        self.threads.set(max(1, min(int(seconds / self.waiting), free)))


@contextmanager
def paced(model: Transformer, tokens: int) -> Iterator[None]:
    """Sets the threads for one pass over this many tokens."""
    with ThreadLimit(model) as pace:
        pace.set(tokens)
        yield
