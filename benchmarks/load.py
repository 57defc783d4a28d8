"""Loading a checkpoint of about 500 MB and one forward pass, compared with transformers on the same files.

    python benchmarks/load.py

Each figure comes from a separate process that has imported its library before the clock starts. Both sides use two
threads and take turns; the best of several rounds counts. The files are in the page cache for both. Memory is the peak
of anonymous memory beyond what the imports need, sampled every millisecond in runs that are not timed. Memory mapped
from the file is not anonymous and does not count.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from readme import write_table

ROUNDS = 5
ONE = """
import sys, threading, time
import torch
torch.set_num_threads(2)
side, folder, watched = sys.argv[1], sys.argv[2], sys.argv[3] == "watched"
if side == "glassformer":
    import glassformer as gf
    load, call = gf.load, lambda model, ids: model(ids).logits
    import glassformer.checkpoints.load
else:
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    load, call = transformers.AutoModelForCausalLM.from_pretrained, lambda model, ids: model(ids).logits
    from transformers import GPT2LMHeadModel, LlamaForCausalLM

def anonymous():
    with open("/proc/self/status") as status:
        return 1024 * int(next(line for line in status if line.startswith("RssAnon")).split()[1])

def look():
    global peak
    while running:
        peak = max(peak, anonymous())
        time.sleep(0.001)

before = peak = anonymous()
running = watched
thread = threading.Thread(target=look)
if watched:
    thread.start()
start = time.perf_counter()
model = load(folder)
loaded = time.perf_counter()
with torch.no_grad():
    total = float(call(model, torch.arange(32)[None]).double().sum())
done = time.perf_counter()
running = False
if watched:
    thread.join()
memory = max(peak, anonymous()) - before
print(f'{{"load": {loaded - start}, "all": {done - start}, "memory": {memory}, "sum": {total}}}')
"""
MAKE = """
import sys, torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
GPT2LMHeadModel(GPT2Config()).save_pretrained(f"{sys.argv[1]}/gpt2")
LlamaForCausalLM(LlamaConfig(
    vocab_size=32_000, hidden_size=768, intermediate_size=2048, num_hidden_layers=14, num_attention_heads=12,
)).save_pretrained(f"{sys.argv[1]}/llama")
"""


def run(side: str, folder: Path, watched: bool = False) -> dict[str, float]:
    command = [sys.executable, "-c", ONE, side, str(folder), "watched" if watched else "timed"]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def measure(folder: Path) -> list[list[str]]:
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    sides = ("glassformer", "transformers")
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side in sides:
            runs[side].append(run(side, folder))
    ours, theirs = (min(one["all"] for one in runs[side]) for side in sides)
    totals = [runs[side][0]["sum"] for side in sides]
    assert abs(totals[0] - totals[1]) <= 1e-4 * abs(totals[1]), f"sums of logits differ: {totals}"
    rows = []
    for side, best in zip(sides, (ours, theirs), strict=True):
        memory = max(run(side, folder, watched=True)["memory"] for _ in range(2))
        load = min(one["load"] for one in runs[side])
        cells = [f"{load:.2f} s", f"{best:.2f} s", f"{theirs / best:.2f} x", f"{memory / size:.2f} x the file"]
        rows.append([f"{folder.name}, {size / 1e6:.0f} MB: {side}", *cells])
    return rows


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([sys.executable, "-c", MAKE, place], check=True, capture_output=True)
        rows = [row for name in ("gpt2", "llama") for row in measure(Path(place) / name)]
    header = ["from disk to logits", "load", "load + forward", "speed", "extra memory"]
    write_table("load", header, rows)


if __name__ == "__main__":
    main()
