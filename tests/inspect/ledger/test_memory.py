"""The memory of a training step: the estimate against the measurement."""

import os
import pickle

import pytest
import torch
from helpers.command import python
from torch.profiler import ProfilerActivity, profile

import glassformer as gf
from glassformer.errors import InputError
from glassformer.inspect.ledger.memory import MemoryTally, readable_bytes, running_memory, training_memory
from glassformer.inspect.ledger.sizes import sized_inputs

STACK = gf.StackConfig(d_model=96, num_layers=3, num_heads=6)
LARGE = {"d_model": 256, "num_layers": 4, "num_heads": 8}
MODELS: dict[str, tuple[gf.TransformerConfig, dict[str, int]]] = {
    "encoder and decoder, dropout": (
        gf.TransformerConfig(
            encoder=STACK.replace(dropout=0.1), decoder=STACK.replace(dropout=0.1), vocab_size=3000,
            decoder_start_token_id=1,
        ),
        {"batch": 6, "length": 70, "target_length": 50},
    ),
    "decoder, gated, grouped": (
        gf.TransformerConfig(
            decoder=STACK.replace(num_kv_heads=2, positions="rotary", norm="rms", gated=True, activation="silu"),
            vocab_size=5000, tie_embeddings=False,
        ),
        {"batch": 3, "length": 120},
    ),
    "images": (
        gf.TransformerConfig(
            encoder=STACK.replace(positions="learned", activation="gelu", norm_order="post"),
            image=gf.ImageConfig(size=48, patch=6), head="class", num_classes=7, pooling="first",
        ),
        {"batch": 8},
    ),
    "long, in tiles": (
        gf.TransformerConfig(
            decoder=STACK.replace(num_layers=1, positions="alibi", score_cap=30.0), vocab_size=200
        ),
        {"batch": 2, "length": 500},
    ),
    "series": (
        gf.TransformerConfig(encoder=STACK, series=gf.SeriesConfig(length=96, patch=8, horizon=24), head="forecast"),
        {"batch": 20, "channels": 3},
    ),
}  # fmt: skip


def measured(config: gf.TransformerConfig, sizes: dict[str, int]) -> int:
    """The peak of PyTorch's allocations over two steps; in the second, the optimiser has its state."""
    allocated = peak = 0
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        model = gf.Transformer(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        inputs = sized_inputs(config, **sizes, device="cpu")
        for _ in range(2):
            optimizer.zero_grad()
            model(**inputs).loss.backward()
            optimizer.step()
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            allocated += event.nbytes()
            peak = max(peak, allocated)
    return peak


@pytest.mark.parametrize("name", MODELS)
def test_the_peak_is_foretold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 3 % of the peak seen by the allocator."""
    if name == "long, in tiles":
        monkeypatch.setattr("glassformer.core.context.TILE", 2**20)
    config, sizes = MODELS[name]
    assert training_memory(config, **sizes).peak == pytest.approx(measured(config, sizes), rel=0.03)


def test_a_count_that_forgets_to_let_go_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    config, sizes = MODELS["images"]
    right = training_memory(config, **sizes).peak
    count = MemoryTally._count
    monkeypatch.setattr(MemoryTally, "_count", lambda self, number: count(self, max(0, number)))
    assert training_memory(config, **sizes).peak > 1.15 * right


def test_the_parts_are_what_they_are_called() -> None:
    config, sizes = MODELS["decoder, gated, grouped"]
    found = training_memory(config, **sizes)
    model = gf.Transformer(config)
    parameters = sum(p.nbytes for p in model.parameters())
    assert (found.weights, found.gradients, found.optimizer) == (parameters, parameters, 2 * parameters)
    assert max(found.activations, 4 * parameters) <= found.peak
    assert found.peak <= found.weights + found.gradients + found.optimizer + found.activations
    plain = training_memory(config, **sizes, optimizer="sgd")
    assert plain.peak == found.peak - found.optimizer
    half = training_memory(config, **sizes, dtype=torch.bfloat16)
    assert half.weights == parameters // 2


def test_no_square_of_the_length_is_kept_where_the_kernel_is_fused() -> None:
    """Twice the length needs twice the activations; with attention dropout the CPU keeps the weights: four times."""
    config = gf.TransformerConfig(decoder=STACK, vocab_size=50)
    short, long = (training_memory(config, length=n).activations for n in (256, 512))
    assert long == pytest.approx(2 * short, rel=0.05)
    config = gf.TransformerConfig(decoder=STACK.replace(attention_dropout=0.1), vocab_size=50)
    short, long = (training_memory(config, length=n).activations for n in (256, 512))
    assert long > 3 * short


def test_running_takes_less_than_training() -> None:
    config, sizes = MODELS["encoder and decoder, dropout"]
    running, training = running_memory(config, **sizes), training_memory(config, **sizes)
    assert running.weights == training.weights
    assert running.peak < training.peak / 3
    assert (running.gradients, running.optimizer) == (0, 0)


def test_an_optimizer_that_is_not_known_is_named() -> None:
    with pytest.raises(InputError, match=r"optimizer is 'adamv', .*did you mean 'adam'"):
        training_memory(MODELS["images"][0], optimizer="adamv")


def test_bytes_are_told_as_people_say_them() -> None:
    assert [readable_bytes(n) for n in (0, 999, 1000, 141_000_000_000, 2.5e15)] == [
        "0 B",
        "999 B",
        "1 kB",
        "141 GB",
        "2,500 TB",
    ]


RESIDENT = """
import pickle, sys
import torch
import glassformer as gf
from glassformer.inspect.ledger.sizes import sized_inputs

def resident(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))

def train(config, sizes):
    model = gf.Transformer(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        optimizer.zero_grad()
        model(**sized_inputs(config, **sizes, device="cpu")).loss.backward()
        optimizer.step()

config, sizes = pickle.load(sys.stdin.buffer)
tiny = gf.StackConfig(d_model=16, num_layers=1, num_heads=2, dropout=0.1)
train(gf.TransformerConfig(encoder=tiny, decoder=tiny, vocab_size=20, decoder_start_token_id=1), {"batch": 2})
open("/proc/self/clear_refs", "w").write("5")  # resets the peak
before = resident("VmRSS")
train(config, sizes)
print(resident("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="resident memory is read from Linux's /proc")
@pytest.mark.parametrize("name", ["encoder and decoder, dropout", "decoder, gated, grouped", "images"])
def test_the_process_grows_by_what_was_foretold(name: str) -> None:
    """Within 15 % of the resident memory of a separate process that returns freed memory at once."""
    config, sizes = MODELS[name]
    config = config.replace(
        **{part: getattr(config, part).replace(**LARGE) for part in ("encoder", "decoder") if getattr(config, part)}
    )
    sizes = sizes | {"batch": 4 * sizes["batch"]}
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    told = pickle.dumps((config, sizes))
    grown = int(python("-c", RESIDENT, given=told, env=environment, text=False))
    assert training_memory(config, **sizes).peak == pytest.approx(grown, rel=0.15)
