"""`glassformer bench`: what it measures for each kind of model, its inputs, and its errors. Times are not asserted."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from helpers.command import lines, printed, run

from glassformer.generation.engine import Engine
from glassformer.study import speed

SHORT = ("--rounds", "1", "--prompt-tokens", "5", "--new-tokens", "3")


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the engine's kernels and the processes that measure memory."""
    monkeypatch.setattr(speed, "engine", partial(Engine, backend="eager"))
    monkeypatch.setattr(Engine, "twin", lambda self: self.model)
    monkeypatch.setattr(speed, "memory_added", lambda folder, name, inputs, threads: 12.0)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_a_model_that_generates(
    kind: str, folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("bench", folder_of(kind), *SHORT, "--batch-sizes", "1", "2", "--json") == 0
    (told,) = lines(capsys)
    assert (told["kind"], told["unit"], told["prompt_tokens"], told["new_tokens"]) == ("generates", "tokens", 5, 3)
    expected = {(side, job) for side in ("plain", "float32", "int8") for job in ("batch 1", "batch 2")}
    assert {(figure["side"], figure["job"]) for figure in told["figures"]} == expected
    assert all(figure["per_second"] > 0 and figure["first_token"] > 0 for figure in told["figures"])
    assert told["peak_mib"] == {"plain": 12.0, "float32": 12.0, "int8": 12.0}
    assert set(told["ready"]) == {"plain", "float32", "int8"}


@pytest.mark.usefixtures("uncompiled")
def test_the_table(folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "bench", folder_of("decoder"), *SHORT).splitlines()
    assert "14,888 parameters" in shown[0]
    assert shown[1] == "random prompts of 5 tokens, 3 new tokens each, greedy"
    assert shown[3].split() == ["plain", "engine", "engine,", "int8"]
    rows = [line.partition("  ")[0] for line in shown[4:]]
    speeds = ["tokens/s, batch 1", "first token, batch 1", "tokens/s, batch 8", "first token, batch 8"]
    assert rows == [*speeds, "ready in", "peak memory"]
    assert shown[4].count("x)") == 2
    assert shown[-1].split()[2:] == ["12", "MiB"] * 3


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("kind", "unit", "jobs"),
    [
        ("encoder", "texts", ["one by one", "batches of 32", "sorted by length"]),
        ("fill", "texts", ["one by one", "batches of 32", "sorted by length"]),
        ("twice", "texts", ["one by one", "batches of 32", "sorted by length"]),
        ("image", "images", ["batch 1", "batch 8"]),
        ("series", "series", ["batch 1", "batch 8"]),
        ("judge", "series", ["batch 1", "batch 8"]),
    ],
)
def test_a_model_that_does_not_generate(
    kind: str, unit: str, jobs: list[str], folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--texts", "40", "--mean-tokens", "6") if unit == "texts" else ()
    assert run("bench", folder_of(kind), "--rounds", "1", "--sides", "float32", "plain", *few, "--json") == 0
    (told,) = lines(capsys)
    assert told["unit"] == unit
    assert [(f["job"], f["side"]) for f in told["figures"]] == [(job, s) for job in jobs for s in ("float32", "plain")]
    assert all(figure["per_second"] > 0 and figure["first_token"] is None for figure in told["figures"])


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_memory_is_that_of_a_new_process(folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", folder_of("decoder"), *SHORT, "--sides", "plain", "--json") == 0
    (told,) = lines(capsys)
    assert 0 < told["peak_mib"]["plain"] < 1000


@pytest.mark.usefixtures("uncompiled")
def test_no_engine_is_said(
    folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "twin", lambda self: None)
    shown = printed(capsys, "bench", folder_of("image"), "--rounds", "1")
    assert shown.strip().endswith("The engine cannot run here: the plain model was measured instead.")
    assert shown.count("The engine cannot run here") == 1


@pytest.mark.parametrize(
    ("kind", "arguments", "says"),
    [
        ("decoder", ["--rounds", "0"], "--rounds is 0: expected at least 1"),
        ("decoder", ["--new-tokens", "0"], "--new-tokens is 0: expected at least 1"),
        ("decoder", ["--batch-sizes", "2", "-1"], "expected numbers of at least 1"),
        ("decoder", ["--sides"], "expected one or more of plain, float32 and int8"),
        ("decoder", ["--sides", "float16"], "float16"),
        ("decoder", ["--texts", "3"], "--texts needs a model that encodes texts; this model generates. Leave it out"),
        ("encoder", ["--new-tokens", "3"], "--new-tokens needs a model that generates; this model encodes texts"),
        ("image", ["--num-beams", "3"], "--num-beams needs a model that generates; this model reads images"),
        ("encoder", ["--batch-sizes", "3"], "needs a model that generates, reads images or reads series"),
        ("nothing", [], "there is no such folder"),
    ],
)
def test_bad_input(
    kind: str,
    arguments: list[str],
    says: str,
    folder_of: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "nothing" if kind == "nothing" else folder_of(kind)
    assert run("bench", folder, *arguments) == 2
    error = capsys.readouterr().err
    assert says in " ".join(error.replace("│", " ").split())
    assert "Traceback" not in error


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder", "encoder", "image"])
def test_the_engine_is_measured_compiled(
    kind: str,
    folder_of: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    compiled = []
    for _ in range(2):
        assert run("bench", folder_of(kind), "--rounds", "1", "--json") == 0
        (told,) = lines(capsys)
        assert told["notes"] == []
        assert all(figure["per_second"] > 0 for figure in told["figures"])
        assert all(size > 0 for size in told["peak_mib"].values())
        compiled.append([told["ready"][side]["compiled"] for side in ("float32", "int8")])
    is_generated = "decoder" in kind
    assert compiled == [[is_generated] * 2, [False] * 2]
