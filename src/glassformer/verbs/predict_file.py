"""The verb `predict` with --out: writes every row of a file with its answer."""

import signal
import sys
import time
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from glassformer.errors import Stopped
from glassformer.predict.bulk.job import JobOptions, run_job
from glassformer.predict.pipeline import Pipeline
from glassformer.terminal import make_console
from glassformer.training.report import readable_time


def predict_file(run: Pipeline, asked: JobOptions) -> None:
    with RowProgress() as progress:
        try:
            job = run_job(run, asked, progress)
        except KeyboardInterrupt:
            rows = "1 row is" if progress.done == 1 else f"{progress.done:,} rows are"
            kept = f"{rows} saved" if progress.done else "no rows are saved yet"
            raise Stopped(signal.SIGINT, f"stopped: {kept}. Run the same command again to continue") from None
    for line in job.told():
        print(line, file=sys.stderr)


class RowProgress:
    """Progress of a file: a bar with the remaining time on a terminal, a line now and then elsewhere."""

    LINES = 10  # lines printed in total without a terminal ...
    QUIET = 20.0  # ... and one more after this many seconds without a line

    def __init__(self) -> None:
        self.console = make_console(stderr=True)
        self.done = self.first = self.lines = 0
        self.began = self.told = time.monotonic()
        columns = (
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[speed]:,.0f} rows/s"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        self.bar = Progress(*columns, console=self.console, disable=not self.console.is_terminal, transient=True)
        self.line: TaskID | None = None

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def say(self, line: str) -> None:
        self.console.print(line)

    def at(self, rows: int, total: int) -> None:
        now = time.monotonic()
        self.done = rows
        if self.line is None:
            self.first, self.began, self.told, self.lines = rows, now, now, int(self.LINES * rows / total)
            self.line = self.bar.add_task("predict", total=total, completed=rows, speed=0.0)
            return
        speed = (rows - self.first) / max(now - self.began, 1e-9)
        self.bar.update(self.line, completed=rows, speed=speed)
        due = int(self.LINES * rows / total) > self.lines or now - self.told > self.QUIET
        if not self.bar.disable or not due or rows == total:
            return
        left = readable_time((total - rows) / speed)
        self.console.print(f"{rows:,} of {total:,} rows, {speed:,.0f} rows/s, {left} left")
        self.told, self.lines = now, int(self.LINES * rows / total)
