"""One training step and one forward pass of the paper's base model, compared with `nn.Transformer` of the same size.

    python benchmarks/core.py

Both use two threads and take turns; the best of several rounds counts. Then the peak memory of one causal attention
layer with padding over 8,192 tokens, each in a separate process.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from readme import write_table
from torch import Tensor, nn

from glassformer.config import StackConfig
from glassformer.core.stack import Stack

ROUNDS = 7
BATCH, SOURCE, TARGET, WIDTH = 8, 48, 48, 512
LENGTH = 8192  # at twice this length, nn.TransformerEncoderLayer needs more than 24 GiB

MEMORY = """
import json, sys
import torch
from torch import nn
from glassformer.config import StackConfig
from glassformer.core.stack import Stack

def peak():  # not getrusage, whose figure a child inherits from its parent
    with open("/proc/self/status") as status:
        return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])

side, length = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(2)
x = torch.randn(2, length, 64)
keep = torch.arange(length) < torch.tensor([[length], [length // 2]])
before = peak()
with torch.no_grad():
    if side == "ours":
        Stack(StackConfig(d_model=64, num_layers=1, num_heads=4, positions="none"), causal=True)(x, keep=keep)
    else:
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        layer = nn.TransformerEncoderLayer(64, 4, 256, norm_first=True, batch_first=True).eval()
        padding = torch.zeros(keep.shape).masked_fill(~keep, -torch.inf)
        layer(x, src_mask=mask, src_key_padding_mask=padding)
print(json.dumps((peak() - before) / 2**20))
"""


def ours() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    config = StackConfig(d_model=WIDTH, num_layers=6, num_heads=8, norm_order="post", final_norm=True, positions="none")
    encoder, decoder = Stack(config, causal=False), Stack(config, causal=True, cross=True)
    return lambda source, target, keep: decoder(target, memory=encoder(source, keep=keep), memory_keep=keep)


def theirs() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    model = nn.Transformer(WIDTH, 8, 6, 6, 2048, dropout=0.0, batch_first=True)
    causal = nn.Transformer.generate_square_subsequent_mask(TARGET)
    return lambda source, target, keep: model(
        source, target, tgt_mask=causal, tgt_is_causal=True, src_key_padding_mask=~keep, memory_key_padding_mask=~keep
    )


def seconds(run: Callable[[Tensor, Tensor, Tensor], Tensor], backward: bool) -> float:
    source, target = torch.randn(BATCH, SOURCE, WIDTH), torch.randn(BATCH, TARGET, WIDTH)
    keep = torch.arange(SOURCE) < torch.randint(SOURCE // 2, SOURCE, (BATCH, 1))
    start = time.perf_counter()
    with torch.set_grad_enabled(backward):
        output = run(source, target, keep)
        if backward:
            output.sum().backward()
    return time.perf_counter() - start


def peak_memory(side: str, length: int) -> float:
    """Peak memory in MiB that the layer adds to a new process."""
    command = [sys.executable, "-c", MEMORY, side, str(length)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    torch.set_num_threads(2)
    sides = {"ours": ours(), "theirs": theirs()}
    rows = []
    for what, backward in (("forward", False), ("forward + backward", True)):
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(ROUNDS):
            for name, run in sides.items():
                best[name] = min(best[name], seconds(run, backward))
        ratio = best["theirs"] / best["ours"]
        rows.append([f"base model, {what}", f"{best['ours']:.3f} s", f"{best['theirs']:.3f} s", f"{ratio:.2f} x"])
    memory = {name: peak_memory(name, LENGTH) for name in sides}
    ratio = memory["theirs"] / memory["ours"]
    ours_and_theirs = [f"{memory['ours']:,.0f} MiB", f"{memory['theirs']:,.0f} MiB"]
    rows.append([f"memory of one causal, padded layer, {LENGTH:,} tokens", *ours_and_theirs, f"{ratio:.0f} x less"])
    write_table("core", ["the core", "Glassformer", "`nn.Transformer`", "ratio"], rows)


if __name__ == "__main__":
    main()
