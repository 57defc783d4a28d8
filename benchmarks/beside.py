"""The speed of training and generation while another process keeps one core busy.

    python benchmarks/beside.py

The model has 4 layers and width 128. Each figure is the best of several rounds, each round a median over a few seconds:
alone, started while the other process is busy, and with the busy process started later. The last row is the CPU use of
an engine between calls.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from readme import ROOT, write_table

ROUNDS, WARM, SECONDS, IDLE = 2, 4.0, 6.0, 3.0
PAGES = (ROOT / "docs" / "fast.md", ROOT / "docs" / "fast.ko.md")
SHAPE = ("--num-layers", "4", "--d-model", "128", "--num-heads", "4", "--context", "64", "--batch-tokens", "768")
BUSY = "while True: pass"
GENERATE = f"""
import sys, time, torch, glassformer as gf
torch.manual_seed(0)
stack = gf.StackConfig(d_model=128, num_layers=4, num_heads=4, max_len=512)
engine = gf.engine(gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=256, pad_token_id=None)))
ids = torch.arange(16)[None]
engine.generate(ids, max_new_tokens=2)
print("ready", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    start = time.perf_counter()
    engine.generate(ids, max_new_tokens=128, min_new_tokens=128)
    print(128 / (time.perf_counter() - start), flush=True)
used = time.process_time()
time.sleep({IDLE})
print("idle", (time.process_time() - used) / {IDLE}, flush=True)
"""


@contextmanager
def process(*command: str, **keywords: Any) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(command, text=True, **keywords)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def training_speed(disturb: Callable[[], None]) -> float:
    """Tokens per second of `glassformer train lm` after `disturb` is called."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        flags = ("--tokenizer", "characters", "--dropout", "0", "--steps", "1000000", "--eval-every", "1000000")
        command = (sys.executable, "-m", "glassformer", "train", "lm", "--out", str(out), *SHAPE, *flags)
        with process(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            wait_for(out / "metrics.jsonl")
            time.sleep(WARM)
            disturb()
            time.sleep(2.0)
            before = len(lines_of(out / "metrics.jsonl"))
            time.sleep(SECONDS)
            told = lines_of(out / "metrics.jsonl")[before:]
    return statistics.median(json.loads(line)["tokens_per_second"] for line in told)


def generation_speed(disturb: Callable[[], None], idle: list[float]) -> float:
    """Tokens per second of an engine after `disturb` is called. Appends its CPU use between calls to `idle`."""
    length = WARM + 2.0 + SECONDS
    with process(sys.executable, "-c", GENERATE, str(length), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        while running.stdout.readline() != "ready\n":
            pass
        begun, disturbed, found = time.monotonic(), False, list[float]()
        for line in running.stdout:
            word, _, value = line.partition(" ")
            if word == "idle":
                idle.append(float(value))
                break
            passed = time.monotonic() - begun
            if not disturbed and passed > WARM:
                disturb()
                disturbed = True
            if passed > WARM + 2.0:
                found.append(float(word))
    return statistics.median(found)


def wait_for(file: Path) -> None:
    while not file.is_file() or not lines_of(file):
        time.sleep(0.2)


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]  # the last line may be incomplete


def main() -> None:
    names = ("alone", "started while another process keeps one core busy", "that process started later")
    idle = list[float]()
    best = {name: [0.0, 0.0] for name in names}
    busy = (sys.executable, "-c", BUSY)
    for _ in range(ROUNDS):
        for kind, measure in enumerate((training_speed, lambda disturb: generation_speed(disturb, idle))):
            for name in names:
                others = list[subprocess.Popen[bytes]]()
                start = lambda others=others: others.append(subprocess.Popen(busy))  # noqa: E731
                if name == names[1]:
                    start()
                try:
                    speed = measure(start if name == names[2] else lambda: None)
                finally:
                    for other in others:
                        other.kill()
                        other.wait()
                best[name][kind] = max(best[name][kind], speed)
                print(f"  {name}, {('training', 'generation')[kind]}: {speed:,.0f} tokens/s", flush=True)
    rows = [
        [name, *(f"{speed:,.0f} ({speed / best['alone'][kind]:.0%})" for kind, speed in enumerate(speeds))]
        for name, speeds in best.items()
    ]
    rows.append(["CPU use of an idle engine", "-", f"{min(idle):.1%}"])
    header = [f"4 layers, 128 wide, {os.cpu_count()} cores, tokens/s", "training", "generation"]
    write_table("beside", header, rows, pages=PAGES)


if __name__ == "__main__":
    main()
