"""Absurd numbers: one sentence names the flag at once, before anything is read."""

import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from helpers.command import run

from glassformer.cli import VERBS

SECONDS = 10  # generous: a busy machine is slow
BEHIND = {"inspect ablate": ["*"], "inspect diff": ["other"], "convert": ["target"]}  # arguments after the model
MODELS = ("eval", "predict", "explore", "verify", "bench", "convert")


def kinds(hint: Any) -> set[Any]:
    """The plain types of a flag's values."""
    if get_origin(hint) in (Union, UnionType, tuple):
        return {kind for part in get_args(hint) for kind in kinds(part)}
    return {hint}


def numeric_flags() -> Iterator[tuple[str, str, Any]]:
    for verb, about in VERBS.items():
        hints = get_type_hints(about.settings)
        for entry in fields(about.settings):
            for kind in kinds(hints[entry.name]) & {int, float}:
                yield verb, "--" + entry.name.replace("_", "-"), kind


def check_refused(words: list[object], flag: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    began = time.monotonic()
    assert run(*words) == 2
    said = " ".join(capfd.readouterr().err.replace("│", " ").replace("|", " ").split())
    assert flag in said, said
    assert "Traceback" not in said
    assert len(said) < 3000
    assert time.monotonic() - began < SECONDS
    assert list(folder.iterdir()) == []
    return said


def words_of(verb: str, folder: Path) -> list[object]:
    model = ["model"] if verb in MODELS or verb.startswith("inspect") else []
    model += ["text"] if verb in ("inspect attention", "inspect step") else []
    out = [f"--out={folder / 'out'}"] if verb.startswith(("train", "demo")) else []
    return [*verb.split(), *model, *BEHIND.get(verb, []), *out]


FLAGS = sorted({(verb, flag, kind) for verb, flag, kind in numeric_flags()}, key=str)
WHOLE = [(verb, flag) for verb, flag, kind in FLAGS if kind is int]
BROKEN = [(verb, flag) for verb, flag, kind in FLAGS if kind is float]


def test_there_are_many_numeric_flags() -> None:
    assert len(WHOLE) > 100
    assert len(BROKEN) > 50


@pytest.mark.parametrize(("verb", "flag"), WHOLE)
def test_a_whole_number_past_64_bits(verb: str, flag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = check_refused([*words_of(verb, tmp_path), f"{flag}={10**30}"], flag, tmp_path, capfd)
    assert "expected" in said


@pytest.mark.parametrize(("verb", "flag"), BROKEN)
def test_what_is_not_a_finite_number(verb: str, flag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for value in ("nan", "inf", "1e400"):
        check_refused([*words_of(verb, tmp_path), f"{flag}={value}"], flag, tmp_path, capfd)


PAIRS = "".join(f"word {i}\t단어 {i}\n" for i in range(60))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train translate --accumulate 1000000", "a batch of 57 examples cannot be split into 1000000 parts"),
        ("train translate --accumulate 58", "Use at most 57"),
        ("train translate --seed 1e40", "--seed"),
        (f"train translate --seed {'9' * 5000}", "--seed"),
        ("train translate --batch-tokens 1000000000000", "--batch-tokens is 1000000000000: expected at most"),
        ("train translate --steps 100000000", "--steps is 100000000: expected at most 99,999,999"),
        ("train translate --minutes -1", "--minutes is -1.0: expected a number above 0"),
        ("train translate --minutes 1e300", "--minutes is 1e+300: expected at most"),
        ("train translate --warmup 1000000000000", "--warmup is 1000000000000: expected at most"),
        ("train translate --num-heads 0", "--num-heads is 0: expected at least 1"),
        ("train translate --num-beams 1000000000", "--num-beams is 1000000000: expected at most"),
        ("train translate --eval-every 0", "--eval-every is 0: expected a number above 0"),
        ("train translate --examples 1000000000000", "--examples is 1000000000000: expected at most"),
        ("train translate --length-penalty 1e300", "--length-penalty is 1e+300: expected at most"),
        ("train translate --d-ff 1000000000000", "d_ff is 1000000000000: expected at most"),
        ("train translate --max-len 1000000000000", "--max-len is 1000000000000: expected at most"),
        ("train classify --batch-size 1000000000000", "--batch-size is 1000000000000: expected at most"),
        ("train forecast --length 2000000000", "2000000000 to read"),
        ("train forecast --stride 2000000000", "--stride is 2000000000: expected at most --length"),
        ("train forecast --horizon 1000000000000", "--horizon is 1000000000000: expected at most"),
        ("train forecast --splits 1 2 1000000000000", "needs 1000000000003 rows"),
        ("train lm --context 2000000000", "Lower --context"),
        ("train lm --sample -5", "--sample is -5: expected 0 or more"),
        ("train mlm --seed -1", "--seed is -1: expected 0 or more"),
        ("train images --size 1000000000000", "--size is 1000000000000: expected at most"),
        ("train images --patch 2000000000", "--patch is 2000000000: expected at most"),
        ("predict model text --num-beams 1000000000", "--num-beams is 1000000000: expected at most"),
        ("predict model text --max-new-tokens 1000000000000", "--max-new-tokens is 1000000000000: expected at most"),
        ("eval model --max-len 0", "--max-len is 0: expected at least 1"),
        ("eval model --context 0", "--context is 0: expected at least 1"),
        ("explore model --port 70000", "--port is 70000: expected a number from 0 to 65535"),
        ("study norms --depths 1000000000000", "expected at most 1,024"),
        ("bench model --threads 1000000000000", "--threads is 1000000000000: expected at most"),
        ("bench model --prompt-tokens 200000000", "--prompt-tokens is 200000000: expected at most"),
        ("bench model --batch-sizes 1000000", "expected at most 4,096"),
        ("convert model target --max-shard-size 1e400", "max_shard_size is '1e400'"),
    ],
)
def test_a_number_that_is_too_much(
    words: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, folder = tmp_path / "pairs.tsv", tmp_path / "here"
    data.write_text(PAIRS, encoding="utf-8")
    folder.mkdir()
    monkeypatch.chdir(folder)
    small = [f"--data={data}", "--d-model=16", "--num-layers=1", "--num-heads=2", "--vocab-size=64"]
    given = [*words.split(), *([*small, "--out=run"] if words.startswith("train translate") else [])]
    if "--num-heads 0" in words:
        given.remove("--num-heads=2")
    if words.startswith("convert"):
        (folder / "model").mkdir()
    began = time.monotonic()
    assert run(*given) == 2
    said = " ".join(capfd.readouterr().err.replace("│", " ").replace("|", " ").split())
    assert says in said
    assert "Traceback" not in said
    assert time.monotonic() - began < 3 * SECONDS
    assert not [entry for entry in folder.iterdir() if entry.name != "model"]
