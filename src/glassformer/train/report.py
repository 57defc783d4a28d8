"""What a training tells: a live bar on a terminal, plain lines elsewhere, and `metrics.jsonl` always."""

import json
import time
from pathlib import Path
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 10  # plain lines in a whole training, where there is no terminal ...
QUIET = 20.0  # ... and more, so that there are not many seconds without one


class Report:
    """Follows a training step by step. Loss and speed are means since they were last shown."""

    def __init__(self, steps: int, metrics: Path, console: Console) -> None:
        self.steps, self.console = steps, console
        self.file: TextIO = metrics.open("w", encoding="utf-8")
        self.every = max(1, min(100, steps // 100))
        self.losses: list[float] = []
        self.tokens, self.since = 0, time.perf_counter()
        self.told = self.since
        self.bar = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(bar_width=None),
            TextColumn("loss {task.fields[loss]:.3f}  rate {task.fields[rate]:.1e}"),
            TextColumn("{task.fields[speed]:,.0f} tokens/s"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
        )
        self.line = self.bar.add_task("train", total=steps, loss=float("nan"), rate=0.0, speed=0.0)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
        self.file.close()

    def step(self, step: int, *, loss: float, rate: float, tokens: int) -> None:
        self.losses.append(loss)
        self.tokens += tokens
        now = time.perf_counter()
        mean, speed = sum(self.losses) / len(self.losses), self.tokens / (now - self.since)
        self.bar.update(self.line, completed=step, loss=mean, rate=rate, speed=speed)
        if step % self.every and step != self.steps:
            return
        entry = {"step": step, "loss": round(mean, 5), "rate": rate, "tokens_per_second": round(speed)}
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        last = step == self.steps or now - self.told > QUIET
        if not self.console.is_terminal and (last or step % max(1, self.steps // LINES) == 0):
            left = (self.steps - step) * (now - self.since) / len(self.losses)
            self.console.print(
                f"step {step}/{self.steps}  loss {mean:.3f}  rate {rate:.1e}  {speed:,.0f} tokens/s  {left:.0f} s left"
            )
            self.told = now
        self.losses.clear()
        self.tokens, self.since = 0, now
