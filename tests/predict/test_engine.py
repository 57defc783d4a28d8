"""The engine gives the same answers as the plain model."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.tiny_models import TEXT, rounded

import glassformer as gf
from glassformer.config import GenerationOptions
from glassformer.errors import InputError
from glassformer.generation import choose_engine, shelf
from glassformer.generation.engine import EngineReader
from glassformer.generation.engine import engine as make_engine
from glassformer.generation.packing import PackedLinear
from glassformer.predict.images import Picture
from glassformer.predict.work import work_of

FolderOf = Callable[[str], Path]
TEXTS = [TEXT, "Once upon a time there was a small model", "fox", "the lazy dog jumps over the quick brown model"]
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
JUDGING: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "classes": ("encoder", TEXTS, {}),
    "pairs": ("encoder", list(zip(TEXTS, TEXTS[::-1], strict=True)), {}),
    "two stacks": ("twice", TEXTS, {}),
    "masks": ("fill", [f"{text} [MASK] and [MASK]" for text in TEXTS], {"guesses": 3}),
    "token labels": ("label", TEXTS, {}),
    "answers": ("span", TEXTS, {"question": "Who jumps?"}),
    "vectors": ("embed", TEXTS, {}),
    "images": ("image", [Picture(str(i), pixels) for i, pixels in enumerate(PIXELS)], {}),
    "classes of series": ("judge", [row.flatten()[:48] / 255 for row in PIXELS], {}),
    "forecast": ("series", np.sin(np.arange(96, dtype=np.float32) / 5).reshape(48, 2), {}),
}
WRITING: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("decoder", {"max_new_tokens": 9, "do_sample": False}),
    "sampled": ("decoder", {"max_new_tokens": 9, "do_sample": True, "top_k": 5, "seed": 3}),
    "translated": ("encoder-decoder", {}),
    "beams": ("encoder-decoder", {"num_beams": 3}),
}


@pytest.fixture(autouse=True)
def _say_anew() -> None:
    shelf.warn_once.cache_clear()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes an engine without compiling, which takes seconds."""
    monkeypatch.setattr(choose_engine, "make_engine", partial(make_engine, backend="eager"))


@pytest.mark.parametrize("ability", JUDGING)
def test_the_same_judgement(ability: str, folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, inputs, options = JUDGING[ability]
    plain, fast = (gf.pipeline(folder_of(kind), engine=use) for use in ("off", "on"))  # type: ignore[arg-type]
    expected, calls, forward = plain(inputs, **options), list[int](), PackedLinear.forward

    def count(self: PackedLinear, x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return forward(self, x)

    monkeypatch.setattr(PackedLinear, "forward", count)
    assert rounded(fast(inputs, **options)) == rounded(expected)
    assert calls
    assert (plain.engine, fast.engine) == (None, "compiled (float32)")


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("way", WRITING)
def test_the_same_text(way: str, folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = WRITING[way]
    plain, fast = (gf.pipeline(folder_of(kind), engine=use) for use in ("off", "on"))  # type: ignore[arg-type]
    expected, steps, step = plain(TEXTS, **options), list[int](), EngineReader.step

    def count(self: EngineReader, token: torch.Tensor) -> torch.Tensor:
        steps.append(len(token))
        return step(self, token)

    monkeypatch.setattr(EngineReader, "step", count)
    assert fast(TEXTS, **options) == expected
    assert steps
    assert (plain.engine, fast.engine) == (None, "compiled (float32)")


def test_a_short_text_is_read_as_ever(folder_of: FolderOf) -> None:
    predict = gf.pipeline(folder_of("encoder"))
    assert predict([TEXT])
    assert predict.engine is None
    assert predict.choice.engine is None


def test_many_texts_are_read_by_the_engine(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretends that the machine is slow, so that the engine saves time."""
    monkeypatch.setattr(choose_engine, "COMPUTES", 1e4)
    plain, predict = gf.pipeline(folder_of("encoder"), engine="off"), gf.pipeline(folder_of("encoder"))
    used = []
    for text in TEXTS:
        assert rounded(predict([text])) == rounded(plain([text]))
        used.append(predict.engine)
    assert used[-1] == "compiled (float32)"


def test_a_dtype_that_it_cannot_pack(folder_of: FolderOf, capsys: pytest.CaptureFixture[str]) -> None:
    plain, fast = (gf.pipeline(folder_of("encoder"), engine=use) for use in ("off", "on"))  # type: ignore[arg-type]
    for predict in (plain, fast):
        predict.model.bfloat16()
    assert rounded(fast(TEXTS)) == rounded(plain(TEXTS))
    assert fast.engine is None
    said = [line for line in capsys.readouterr().err.splitlines() if "unknown to the vocabulary" not in line]
    assert len(said) == 1
    assert "it supports float32 on the CPU, and this model is torch.bfloat16 on cpu" in said[0]


def test_an_engine_that_does_not_exist(folder_of: FolderOf) -> None:
    with pytest.raises(InputError, match="engine is 'fast': expected 'auto', 'on' or 'off'"):
        gf.pipeline(folder_of("encoder"), engine="fast")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="engine is not a known option; this model classifies texts"):
        gf.pipeline(folder_of("encoder"))([TEXT], engine="on")


def test_how_much_there_is_to_do(folder_of: FolderOf) -> None:
    def work(kind: str, inputs: Any, **options: Any) -> tuple[int, int, int]:
        predict = gf.pipeline(folder_of(kind), engine="off")
        found = work_of(predict.task, predict.model, inputs, options)
        return found.reads, found.writes, found.rows

    text = "four" * 9  # about 10 tokens
    assert work("encoder", [text, text]) == (20, 0, 1)
    assert work("encoder", [(text, text)]) == (20, 0, 1)
    assert work("span", [text], question="who?") == (12, 0, 1)
    assert work("image", ["a.png"] * 3) == (3 * 17, 0, 1)
    assert work("judge", [[0.0]] * 3) == (3 * 6, 0, 1)
    assert work("series", "file.csv") == (11, 0, 1)
    assert work("encoder-decoder", [text] * 3) == (30, 30, 3), "a translation is about as long as its source"
    assert work("encoder-decoder", [text * 9]) == (82, 12, 1), "and no longer than the model allows"
    beams, long = GenerationOptions(num_beams=4, max_new_tokens=5), GenerationOptions(max_length=30)
    assert work("encoder-decoder", [text] * 40, generation=beams) == (400, 800, 128)
    assert work("encoder-decoder", [text] * 40, generation=beams, batch_size=2) == (400, 800, 8)
    assert work("decoder", [text]) == (10, 256, 1)
    assert work("decoder", [text], generation=long) == (10, 20, 1)
