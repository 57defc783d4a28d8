"""Impossible sizes: an error of one sentence, at once, before anything is built."""

import json
import time
from pathlib import Path

import pytest
import torch
from helpers.command import run
from safetensors.torch import save_file

import glassformer as gf
from glassformer.config import MOST_LAYERS
from glassformer.errors import MAX_MESSAGE, InputError, did_you_mean
from glassformer.text.sentencepiece_file import read_sentencepiece

GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_layer": 1, "n_head": 2,
    "n_positions": 16, "vocab_size": 32,
}  # fmt: skip
SECONDS = 10  # generous for a busy machine; building first would take minutes


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("d_model", 10**18),
        ("d_model", 10**400),
        pytest.param("d_model", 10**5000, id="5000 digits"),
        ("num_layers", 10**9),
        ("num_heads", 10**12),
        ("d_ff", 10**30),
        ("max_len", 2**40),
        ("head_dim", 10**18),
    ],
)
def test_a_stack_of_absurd_size_is_refused_by_name(field: str, value: int) -> None:
    sizes = {"d_model": 8, "num_layers": 1, "num_heads": 2, field: value}
    with pytest.raises(InputError, match=rf"{field} is .*: expected at most|is not divisible"):
        gf.StackConfig(**sizes)  # type: ignore[arg-type]


def test_the_divisors_of_a_large_prime_are_written_at_once() -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match="Choose num_heads from 1, 1000000007,"):
        gf.StackConfig(d_model=10**9 + 7, num_layers=1, num_heads=2)
    with pytest.raises(InputError, match=r"360360.* and \d+ more"):
        gf.StackConfig(d_model=360360, num_layers=1, num_heads=17)
    assert time.monotonic() - start < SECONDS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_layer", 10**9),
        ("n_layer", MOST_LAYERS + 1),
        ("n_embd", 10**18),
        ("n_embd", 10**400),
        ("n_head", 10**15),
        ("vocab_size", 10**12),
        ("n_positions", 10**11),
        ("n_inner", 10**20),
        ("n_layer", 1000),  # possible, but not what the file contains
        ("n_embd", 2**30),
        ("vocab_size", 2**31 - 1),
        ("n_positions", 2**31 - 1),
    ],
)
def test_a_config_of_absurd_size_is_refused_before_anything_is_built(key: str, value: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**GPT2, key: value}), encoding="utf-8")
    save_file({"wte.weight": torch.zeros(32, 8)}, tmp_path / "model.safetensors")
    start = time.monotonic()
    with pytest.raises(InputError) as caught:
        gf.load(tmp_path)
    assert len(str(caught.value)) <= MAX_MESSAGE
    assert time.monotonic() - start < SECONDS


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--d-model", "1000000"), "GB to train"),
        (("--num-layers", "1000000000"), "num_layers is 1000000000: expected at most"),
        (("--vocab-size", "1000000000"), "vocab_size 1000000000: expected at most"),
        (("--d-model", "1" + 30 * "0"), "--d-model is 1000000000000000000000000000000: expected at most"),
        (("--num-heads", "1000000007"), "is not divisible by 1000000007"),
    ],
)
def test_absurd_flags(flags: tuple[str, str], says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("train", "lm", "--out", tmp_path / "run", *flags) == 2
    printed = capfd.readouterr().err
    assert says in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "run").exists()


def test_a_message_keeps_its_beginning_and_its_end() -> None:
    text = str(InputError("begin " + 10**6 * "x" + " end"))
    assert len(text) <= MAX_MESSAGE
    assert text.startswith("begin xxx")
    assert text.endswith("xxx end")


def test_of_a_million_names_some_are_listed() -> None:
    said = did_you_mean("q" * 10**6, (f"column {i}" for i in range(10**5)))
    assert len(said) < MAX_MESSAGE
    assert "and 99,960 more" in said


def test_json_that_is_nested_too_deeply_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000, encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json is nested too deeply"):
        gf.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x08" + b"\xff" * 2 * 2**20 + b"\x01", "a number of more than 70 bits"),
        (b"\x0a\x85\x80\x80\x01\x0a\x80\x80\x80\x01" + b"a" * 2 * 2**20, "a piece of more than 4096 characters"),
    ],
)
def test_a_damaged_sentencepiece_model_is_refused_at_once(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "damaged.model").write_bytes(content)
    start = time.monotonic()
    with pytest.raises(InputError, match=says):
        read_sentencepiece(tmp_path / "damaged.model")
    assert time.monotonic() - start < SECONDS
