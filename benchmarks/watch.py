"""The cost of recording: the time for heads of one layer, and the memory for one row of attention.

    python benchmarks/watch.py            writes the table into docs/measured.md
    python benchmarks/watch.py --quick    a small model; prints without writing

The model runs with and without recording, in turn, on two threads; the best of several rounds counts. Memory is the
peak that a call of one layer adds to a new process. It is compared with the same call without recording, and with the
calculated size of all rows.
"""

import json
import subprocess
import sys
import time

import torch
from readme import write_table

from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.watch.record import record

QUICK = "--quick" in sys.argv
ROUNDS = 3 if QUICK else 9
LAYERS, WIDTH, HEADS, LENGTH = (2, 64, 4, 256) if QUICK else (12, 768, 12, 2048)
LENGTHS = (256, 512, 1024) if QUICK else (2048, 4096, 8192)
WATCHED = "decoder.blocks.{}.attn"

MEMORY = """
import json, sys
import torch
from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.watch.record import record

def peak():  # not getrusage, whose figure a child inherits from its parent
    with open("/proc/self/status") as status:
        return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])

length, heads, rows = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
torch.set_num_threads(2)
# A narrow feed-forward, so that attention is where the memory peaks.
stack = StackConfig(d_model=64 * heads, d_ff=64, num_layers=1, num_heads=heads, positions="rotary", max_len=length)
model = Transformer(TransformerConfig(decoder=stack, vocab_size=50, head="none")).eval()
ids = torch.randint(0, 50, (1, length))
with torch.no_grad():
    model(ids[:, :64])
    before = peak()
    if rows:
        with record(model, attention="decoder.blocks.0.attn", rows=rows):
            model(ids)
    else:
        model(ids)
print(json.dumps((peak() - before) / 2**20))
"""


def make_model() -> Transformer:
    torch.manual_seed(0)
    stack = StackConfig(d_model=WIDTH, num_layers=LAYERS, num_heads=HEADS, positions="rotary", max_len=LENGTH)
    return Transformer(TransformerConfig(decoder=stack, vocab_size=1000, head="none")).eval()


@torch.no_grad()
def seconds(model: Transformer, ids: torch.Tensor, heads: list[int] | None, layer: int) -> float:
    """The time of one pass that records all rows of `heads`, or nothing if None."""
    start = time.perf_counter()
    if heads is None:
        model(ids)
    else:
        with record(model, attention=WATCHED.format(layer), heads=heads):
            model(ids)
    return time.perf_counter() - start


def peak_memory(length: int, rows: list[int]) -> float:
    """Peak memory in MiB that a call adds to a new process; the lowest of three tries."""
    command = [sys.executable, "-c", MEMORY, str(length), str(HEADS), json.dumps(rows)]
    tries = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)]
    return min(float(json.loads(said)) for said in tries)


def main() -> None:
    torch.set_num_threads(2)
    model, ids = make_model(), torch.randint(0, 1000, (1, LENGTH))
    ways: dict[str, list[int] | None] = {"nothing": None, "one head": [0], "all heads": list(range(HEADS))}
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, heads in ways.items():
            best[name] = min(best[name], seconds(model, ids, heads, LAYERS // 2))
    size = f"{LAYERS} layers, d_model {WIDTH}, {LENGTH:,} tokens"
    rows = [[f"{size}, nothing recorded", f"{best['nothing']:.3f} s", ""]]
    for name in ("one head", "all heads"):
        more = best[name] / best["nothing"] - 1
        rows.append([f"{name} of one layer recorded, every row", f"{best[name]:.3f} s", f"{more:+.1%}"])
    for length in LENGTHS:
        row, nothing = peak_memory(length, [length - 1]), peak_memory(length, [])
        whole = HEADS * length**2 * 4 / 2**20
        beside = f"{nothing:,.0f} MiB without recording; {whole:,.0f} MiB for all rows"
        rows.append([f"peak memory of one layer, one row recorded, {length:,} tokens", f"{row:,.0f} MiB", beside])
    header = ["recording attention", "measured", "for comparison"]
    write_table("watch", header, rows, dry=QUICK)


if __name__ == "__main__":
    main()
