"""An update is the same however it is computed: at once, in parts, or on two processes, sharded or not."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.command import PATIENCE, python, started
from safetensors.torch import load_file

TESTS = Path(__file__).parents[1]


def run(arguments: list[str], processes: int) -> str:
    """The output of several processes that train together."""
    together = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return str(python(*together, *arguments, env={**os.environ, "PYTHONPATH": paths}))


@pytest.fixture(scope="module")
def updates(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], dict[str, Any]]:
    """Loss and gradients by number of processes and variant: accumulate, shard, examples."""
    found = {}
    for processes, ways in (
        (1, ["1,0,8", "2,0,8", "3,0,8", "1,0,1", "match,1,8", "match,4,8", "match,3,8", "match,1,3"]),
        (2, ["1,0,8", "2,0,8", "1,1,8", "2,1,8", "1,0,1", "match,1,8", "match,2,8", "match,3,8", "match,2,3"]),
    ):
        out = tmp_path_factory.mktemp("updates") / "update.pt"
        run([str(TESTS / "helpers" / "one_update.py"), str(out), *ways], processes)
        found.update({(processes, way): values for way, values in torch.load(out).items()})
    return found


def check_same(ours: dict[str, Any], whole: dict[str, Any]) -> None:
    assert ours["loss"] == pytest.approx(whole["loss"], abs=1e-10)
    assert ours["gradients"].keys() == whole["gradients"].keys()
    for name, gradient in whole["gradients"].items():
        assert gradient.dtype == torch.float64
        torch.testing.assert_close(ours["gradients"][name], gradient, rtol=0, atol=1e-10)
    assert max(float(gradient.abs().max()) for gradient in whole["gradients"].values()) > 1e-3


@pytest.mark.parametrize(
    ("processes", "way"), [(1, "2,0,8"), (1, "3,0,8"), (2, "1,0,8"), (2, "2,0,8"), (2, "1,1,8"), (2, "2,1,8")]
)
def test_batch_parts_and_processes_give_one_update(
    processes: int, way: str, updates: dict[tuple[int, str], dict[str, Any]]
) -> None:
    check_same(updates[processes, way], updates[1, "1,0,8"])


@pytest.mark.parametrize(
    ("processes", "way"), [(1, "match,4,8"), (1, "match,3,8"), (2, "match,1,8"), (2, "match,2,8"), (2, "match,3,8")]
)
def test_a_loss_over_the_whole_batch_gives_one_update_too(
    processes: int, way: str, updates: dict[tuple[int, str], dict[str, Any]]
) -> None:
    """Each image is compared with the texts of all parts and all processes."""
    check_same(updates[processes, way], updates[1, "match,1,8"])


def test_parts_without_an_example_change_nothing(updates: dict[tuple[int, str], dict[str, Any]]) -> None:
    check_same(updates[2, "match,2,3"], updates[1, "match,1,3"])


def test_a_batch_of_fewer_examples_than_processes_counts_each_once(
    updates: dict[tuple[int, str], dict[str, Any]],
) -> None:
    check_same(updates[2, "1,0,1"], updates[1, "1,0,1"])


TINY = ["--steps=6", "--examples=60", "--d-model=16", "--num-layers=1", "--num-heads=2", "--batch-tokens=128"]
TINY += ["--dropout=0", "--warmup=3", "--rate=0.001", "--eval-every=3", "--ema=0.9", "--average=2"]


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True])
@pytest.mark.parametrize("first", [1, 2])
def test_a_run_goes_on_with_another_number_of_processes(first: int, shard: bool, tmp_path: Path) -> None:
    """Saved on one and resumed on two, or the reverse: the weights equal those of a run on one, up to rounding."""

    def train(out: Path, processes: int, *more: str) -> None:
        sharing = [] if not shard else ["--shard"] if processes > 1 else ["--no-shard"] if "--resume" in more else []
        run(["-m", "glassformer", "train", "translate", "--out", str(out), *sharing, *more], processes)

    train(tmp_path / "whole", 1, *TINY)
    train(tmp_path / "cut", first, *TINY, "--steps=3")
    train(tmp_path / "cut", 3 - first, "--resume", "--steps=6")
    steps = [json.loads(line)["step"] for line in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert steps[-1] == 6
    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    for name, value in whole.items():
        if not name.endswith("k_proj.bias"):  # its gradient is only rounding
            torch.testing.assert_close(cut[name], value, rtol=1e-3, atol=1e-5)


def launched(*arguments: object) -> list[str]:
    return [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "glassformer",
        *map(str, arguments),
    ]


def test_of_two_processes_that_are_refused_the_first_says_why(tmp_path: Path) -> None:
    """Torchrun adds its own traceback and a table that repeats the message."""
    words = launched("train", "translate", "--data", tmp_path / "nothing.tsv", "--out", tmp_path / "run")
    with started(*words) as process:
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    sentence = f"error: {tmp_path / 'nothing.tsv'}: there is no such file"
    assert errors.splitlines().count(sentence) == 1
    assert f"traceback : {sentence}" in errors
    assert errors.count("Traceback (most recent call last)") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_signal_to_torchrun_saves(tmp_path: Path) -> None:
    out = tmp_path / "run"
    small = [*TINY, "--steps=100000", "--eval-every=100000", "--checkpoint-every=100000"]
    with started(*launched("train", "translate", "--out", out, *small)) as process:
        while not (out / "metrics.jsonl").is_file() or not (out / "metrics.jsonl").stat().st_size:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    assert errors.count("stopped by SIGTERM at step") == 1
    assert "torchrun --nproc-per-node 2 -m glassformer train translate --out" in errors
    (checkpoint,) = (out / "checkpoints").glob("step-*")
    assert json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))["step"] > 0
    assert not (tmp_path / ".run.lock").exists()
