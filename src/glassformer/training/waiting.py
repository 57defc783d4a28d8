"""Progress of long loops: bars with the remaining time on a terminal, a line now and then elsewhere, and a time limit.

A task counts its loops with `task.follow`. The caller decides what is shown: `LoopProgress` shows
nothing, `ProgressBars` shows bars.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.progress import Task as Line
from rich.table import Column
from rich.text import Text

MAX_UPDATES = 200  # updates of a loop's progress
QUIET = 20.0  # seconds between lines, without a terminal
ESTIMATE_AFTER = 0.1  # share of a loop's time limit after which its total time is estimated

Item = TypeVar("Item")


class OutOfTime(Exception):  # noqa: N818 - not an error: the computation is skipped
    """A loop would exceed its time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it would take about {readable_time(seconds)}")


class LoopProgress:
    """Counts loops and shows nothing."""

    title = "scoring"  # of loops without their own
    limit: tuple[float, float] | None = None  # start and end of `limited`, by `time.perf_counter`

    def __call__(self, items: Sequence[Item], title: str | None = None) -> Iterator[Item]:
        """Yields the items and counts them."""
        every = max(1, len(items) // MAX_UPDATES)
        with self.counted(len(items), title) as tell:
            for number, item in enumerate(items, start=1):
                yield item
                if number % every == 0:
                    tell(every)

    @contextmanager
    def counted(self, total: float, title: str | None = None) -> Iterator[Callable[[float], None]]:
        """For other loops: yields a function to call with how much is done, up to `total`."""
        began, done, limit = time.perf_counter(), 0.0, self.limit

        def tell(more: float) -> None:
            nonlocal done
            done += more
            now = time.perf_counter()
            part = min(1.0, done / max(total, 1e-9))
            left = (now - began) * (1 / max(part, 1e-9) - 1)
            if limit is not None and part < 1:
                since, until = limit
                if now > until or (now - since > ESTIMATE_AFTER * (until - since) and now + left > until):
                    raise OutOfTime(now - since + left)
            self.show(part, readable_time(left))

        self.begin(title or self.title)
        try:
            yield tell
        finally:
            self.end()

    @contextmanager
    def limited(self, until: float | None) -> Iterator[None]:
        """Loops inside raise `OutOfTime` if they would take longer."""
        before, self.limit = self.limit, None if until is None else (time.perf_counter(), until)
        try:
            yield
        finally:
            self.limit = before

    @contextmanager
    def named(self, title: str) -> Iterator[None]:
        before, self.title = self.title, title
        try:
            yield
        finally:
            self.title = before

    def begin(self, title: str) -> None:
        """A loop begins."""

    def show(self, part: float, left: str) -> None:
        """Shows the progress of a loop."""

    def end(self) -> None:
        """A loop ends."""


class ProgressBars(LoopProgress):
    """Shows each loop as a bar, nested loops below it. With `stay`, the last state remains visible."""

    def __init__(self, console: Console, *, stay: bool = False) -> None:
        self.console = console
        self.is_live = console.is_terminal or console.is_jupyter
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), RemainingTime(Column(no_wrap=True)))
        self.progress = Progress(*columns, console=console, transient=not stay, disable=not self.is_live)
        self.loops: list[tuple[Any, str]] = []  # running loops, the innermost last
        self.told = time.perf_counter()

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    @contextmanager
    def waiting(self, title: str) -> Iterator[None]:
        """Shows the elapsed time of something of unknown length."""
        line = self.progress.add_task(title, total=None, said="")
        try:
            yield
        finally:
            self.progress.remove_task(line)

    def begin(self, title: str) -> None:
        if not self.loops:
            self.told = time.perf_counter()
        self.loops.append((self.progress.add_task(title, total=1.0, said=""), title))

    def show(self, part: float, left: str) -> None:
        line, title = self.loops[-1]
        self.progress.update(line, completed=part, said=f"{left} left")
        now = time.perf_counter()
        if not self.is_live and now - self.told > QUIET:
            self.console.print(f"{title}: {part:.0%}, {left} left")
            self.told = now

    def end(self) -> None:
        self.progress.remove_task(self.loops.pop()[0])


class RemainingTime(ProgressColumn):
    """The text after a bar: the remaining time, or the elapsed time if the length is unknown."""

    def render(self, task: Line) -> Text:
        return Text(task.fields["said"] or readable_time(task.elapsed or 0.0))


def readable_time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
