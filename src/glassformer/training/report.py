"""Reports the progress of a training: a live bar on a terminal, else plain lines; `metrics.jsonl`; and, on request,
TensorBoard files."""

import json
import time
from pathlib import Path
from typing import Any, Self, TextIO

from rich.console import Console

from glassformer.errors import InputError
from glassformer.io import write_atomic
from glassformer.training.waiting import QUIET, ProgressBars
from glassformer.training.waiting import readable_time as readable_time

LINES = 10  # plain lines per run without a terminal; a long run has more
ENTRIES = 200  # approximate number of entries in metrics.jsonl


class Report:
    """Reports a training step by step. Loss and speed are means since the last report."""

    def __init__(
        self, metrics: Path, console: Console, *, unit: str, steps: int | None, log: Path | None = None
    ) -> None:
        self.console, self.unit = console, unit
        self.writer = make_writer(log) if log else None
        self.path = metrics
        self.file: TextIO = metrics.open("a", encoding="utf-8")
        self.plan_for(steps or 0)
        self.losses: list[float] = []
        self.size, self.busy = 0, 0.0
        self.since = self.told = self.began = time.perf_counter()
        self.first_progress: float | None = None
        self.lines = 0
        self.bars = ProgressBars(console, stay=True)
        self.line = self.bars.progress.add_task("training", total=1.0, said=" ")

    def plan_for(self, steps: int) -> None:
        """Sets the number of steps."""
        self.steps, self.every = steps, max(1, min(100, steps // ENTRIES))

    def __enter__(self) -> Self:
        self.bars.__enter__()
        self.since = self.told = self.began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.__exit__()
        self.file.close()
        if self.writer is not None:
            self.writer.close()

    def step(
        self, step: int, *, loss: float, rate: float, norm: float, size: int, busy: float, progress: float
    ) -> None:
        """`busy` is the time of forward, backward and optimiser; the rest is the loop's overhead."""
        self.losses.append(loss)
        self.size += size
        self.busy += busy
        if self.first_progress is None:
            self.first_progress, self.began = progress, time.perf_counter()
        is_last = progress >= 1
        if step % self.every and not is_last:
            return
        now = time.perf_counter()
        spent = now - self.since
        mean, speed = sum(self.losses) / len(self.losses), self.size / spent
        left = self.left(progress, now)
        said = f"loss {mean:.3f}  rate {rate:.1e}  {speed:,.0f} {self.unit}/s  {left} left"
        self.bars.progress.update(self.line, completed=progress, description=f"step {step}", said=said)
        self.write(
            {
                "step": step, "loss": round(mean, 5), "rate": rate, "gradient_norm": round(norm, 5),
                f"{self.unit}_per_second": round(speed), "outside": round(max(0.0, 1 - self.busy / spent), 4),
            }
        )  # fmt: skip
        due = int(progress * LINES) > self.lines or is_last or now - self.told > QUIET
        if not self.bars.is_live and due:
            of = f"/{self.steps}" if self.steps else ""
            self.console.print(f"step {step}{of}  {said}")
            self.told, self.lines = now, int(progress * LINES)
        self.losses.clear()
        self.size, self.busy, self.since = 0, 0.0, now

    def left(self, progress: float, now: float) -> str:
        """The remaining time at the speed so far."""
        done = progress - (self.first_progress or 0.0)
        return "?" if done <= 0 else readable_time(max(0.0, 1 - progress) * (now - self.began) / done)

    def estimate(self, progress: float, memory: dict[str, int]) -> None:
        """Prints the time and memory of the whole run, estimated from the first steps."""
        parts = ", ".join(f"{name} {readable_bytes(size)}" for name, size in memory.items())
        left = self.left(progress, time.perf_counter())
        self.console.print(f"{'takes':8}about {left} without evaluations; memory: {parts}")

    def evaluation(self, step: int, metrics: dict[str, float], *, best: bool) -> None:
        shown = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        self.console.print(f"step {step}  validation: {shown}{'  (best so far)' if best else ''}")
        self.write({"step": step, **{f"valid_{name}": round(value, 6) for name, value in metrics.items()}})
        self.since = time.perf_counter()  # exclude the evaluation from the speed of steps
        self.losses.clear()
        self.size, self.busy = 0, 0.0

    def write(self, entry: dict[str, Any]) -> None:
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        if self.writer is not None:
            for name, value in entry.items():
                if name != "step":
                    self.writer.add_scalar(name, value, entry["step"])

    def restart(self, step: int) -> None:
        """Deletes entries written after the checkpoint from which the run resumes."""
        self.file.close()
        kept = [line for line in self.path.read_text(encoding="utf-8").splitlines() if is_before(line, step)]
        write_atomic(self.path, "".join(f"{line}\n" for line in kept))
        self.file = self.path.open("a", encoding="utf-8")


def is_before(line: str, step: int) -> bool:
    try:
        return bool(json.loads(line)["step"] <= step)
    except (ValueError, KeyError, TypeError):  # half a line, written by a killed process
        return False


def readable_bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


FRACTIONS = ("accuracy", "macro_f1", "micro_f1", "exact_match", "facts")  # prefixes of metrics that are fractions


def readable_metric(metric: str, value: float) -> str:
    """Fractions as percentages, other values with their significant digits."""
    if metric.startswith(FRACTIONS):
        return f"{value:.1%}"
    return f"{value:.1f}" if metric in ("bleu", "chrf") else f"{value:.4g}"


def make_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard needs the tensorboard package: pip install 'glassformer[log]'") from None
    return SummaryWriter(str(folder))
