"""Attention memory grows linearly with the length, not quadratically; measured in a separate process."""

import json
from pathlib import Path

import pytest
from helpers.command import python

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")

PROGRAM = """
import json, sys
import torch
from glassformer.config import StackConfig
from glassformer.core.stack import Stack

def peak():  # not getrusage, whose figure a child inherits from its parent
    with open("/proc/self/status") as status:
        return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])

length, backward, dropout = int(sys.argv[1]), sys.argv[2] == "backward", float(sys.argv[3])
torch.manual_seed(0)
config = StackConfig(d_model=64, num_layers=1, num_heads=4, positions="rotary", attention_dropout=dropout)
stack = Stack(config, causal=True)
x = torch.randn(2, length, 64, requires_grad=backward)
keep = torch.arange(length) < torch.tensor([[length], [length // 2]])
with torch.set_grad_enabled(backward):
    y = stack(x, keep=keep)
    if backward:
        y.sum().backward()
finite = bool(y.isfinite().all()) and (not backward or bool(x.grad.isfinite().all()))
print(json.dumps({"bytes": peak(), "finite": finite}))
"""


@pytest.mark.parametrize(("mode", "dropout"), [("forward", 0.0), ("backward", 0.0)])
def test_16384_padded_causal_tokens_stay_under_2_gb(mode: str, dropout: float) -> None:
    measured = json.loads(python("-c", PROGRAM, "16384", mode, str(dropout)))
    assert measured["finite"]
    assert measured["bytes"] < 2e9


def test_dropout_on_the_weights_is_tiled_too() -> None:
    """With dropout, PyTorch's CPU kernel stores all scores: without tiles, 4,096 tokens take over 2 GB."""
    measured = json.loads(python("-c", PROGRAM, "4096", "backward", "0.1"))
    assert measured["finite"]
    assert measured["bytes"] < 1.4e9
