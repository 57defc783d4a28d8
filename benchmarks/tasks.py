"""Every task on its built-in data, as a user runs it: its score, simple baselines, and the time.

    python benchmarks/tasks.py [TASK ...]

Each must beat its baselines within three minutes on two cores; otherwise the script fails.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from readme import write_table


class Goal(NamedTuple):
    """The metric of a task, whether lower is better, and a minimum to reach besides its baselines."""

    metric: str
    falls: bool = False
    least: float = 0.0


GOALS = {
    "translate": Goal("exact_match", least=0.95),
    "classify": Goal("accuracy"),
    "lm": Goal("bits_per_byte", falls=True),
    "mlm": Goal("perplexity", falls=True),
    "images": Goal("accuracy", least=0.98),
    "forecast": Goal("mse", falls=True),
}
SECONDS = 180


def main() -> None:
    chosen = [name for name in sys.argv[1:] if name in GOALS] or list(GOALS)
    rows, failures = [], []
    for task in chosen:
        goal = GOALS[task]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / task
            start = time.perf_counter()
            command = [sys.executable, "-m", "glassformer", "train", task, "--out", str(out)]
            subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
            spent = time.perf_counter() - start
            record = json.loads((out / "run.json").read_text(encoding="utf-8"))
        ours = record["results"][goal.metric]
        others = {name: scores[goal.metric] for name, scores in record["baselines"].items() if goal.metric in scores}
        sign = -1 if goal.falls else 1
        if not others or any(sign * ours <= sign * other for other in others.values()) or ours < goal.least:
            failures.append(f"{task}: {goal.metric} {ours:.4g}, baselines {others}")
        if spent > SECONDS:
            failures.append(f"{task}: {spent:.0f} s, limit {SECONDS} s")
        beside = "; ".join(f"{name}: {shown(goal.metric, value)}" for name, value in others.items())
        metric = goal.metric.replace("_", " ")
        rows.append([f"`train {task}`", metric, f"**{shown(goal.metric, ours)}**", beside, f"{spent:.0f} s"])
    if chosen == list(GOALS):
        write_table("tasks", ["built-in data, two cores", "measure", "Glassformer", "baselines", "total time"], rows)
    for failure in failures:
        print(f"missed  {failure}", file=sys.stderr)
    sys.exit(bool(failures))


def shown(metric: str, value: float) -> str:
    return f"{value:.1%}" if metric in ("accuracy", "exact_match") else f"{value:.3g}"


if __name__ == "__main__":
    main()
