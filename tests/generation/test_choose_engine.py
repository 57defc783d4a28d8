"""The engine is used for long work, in one or many calls, and never if it cannot run."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.oracle import translator, writer
from torch import nn

import glassformer as gf
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation import choose_engine as page
from glassformer.generation import kernels
from glassformer.generation.choose_engine import EngineChoice, Size, Work, model_size, pays_off, plain_seconds
from glassformer.generation.compiled import OneStep, graph_key
from glassformer.generation.engine import NO_END, Engine
from glassformer.generation.kernels import NoKernels

TINY = Size(reads=10_000, writes=15_000, layers=2, packed=25_000)
BERT = Size(reads=85_000_000, writes=0, layers=12, packed=86_000_000)
LLAMA = Size(reads=973_000_000, writes=1_236_000_000, layers=16, packed=1_236_000_000)  # a billion parameters
SHORT, LONG = Work(reads=10), Work(reads=10**9)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """What is compiled on this machine; tests change it."""
    has = {"kernels": True, "step": True}
    monkeypatch.setattr(page, "kernels_ready", lambda: has["kernels"])
    monkeypatch.setattr(page, "step_ready", lambda model: has["step"])
    return has


@pytest.mark.parametrize(
    ("size", "work", "ready", "not_ready"),
    [
        (TINY, Work(reads=20, writes=256), False, False),
        (TINY, Work(reads=100_000), False, False),
        (TINY, Work(reads=10**6, writes=10**6, rows=32), True, False),
        (TINY, Work(reads=10**7, writes=2 * 10**7, rows=32), True, True),
        (BERT, Work(reads=12), False, False),
        (BERT, Work(reads=256 * 30), True, False),
        (BERT, Work(reads=100_000), True, True),
        (LLAMA, Work(reads=20, writes=10), False, False),
        (LLAMA, Work(reads=20, writes=256), True, False),
        (LLAMA, Work(reads=2000, writes=1024), True, True),
    ],
)
def test_what_is_long_enough(size: Size, work: Work, ready: bool, not_ready: bool) -> None:
    """With two threads: if everything is compiled, and if the kernels or the step for generation are not."""
    seconds = plain_seconds(size, work, threads=2)
    assert pays_off(seconds, size, kernels=True, step=True) == ready
    assert pays_off(seconds, size, kernels=bool(work.writes), step=not work.writes) == not_ready


def test_seconds_of_the_plain_path() -> None:
    assert plain_seconds(BERT, Work(reads=1000), threads=1) == pytest.approx(1.7)
    assert plain_seconds(BERT, Work(reads=1000), threads=2) == pytest.approx(0.85)
    assert plain_seconds(LLAMA, Work(reads=0, writes=100), threads=2) == pytest.approx(24.7, abs=0.1)  # bound by memory
    together = plain_seconds(LLAMA, Work(reads=0, writes=3200, rows=32), threads=2)
    assert together == pytest.approx(39.6, abs=0.1)  # by compute
    assert plain_seconds(TINY, Work(reads=0, writes=100), threads=2) == pytest.approx(0.02)  # by Python


def test_the_size_of_a_model() -> None:
    stack = gf.StackConfig(d_model=8, num_layers=6, num_heads=2, d_ff=16, num_blocks=1)
    whole = model_size(Transformer(gf.TransformerConfig(encoder=stack, vocab_size=50, head="class", num_classes=3)))
    apart = stack.replace(num_blocks=6)
    again = model_size(Transformer(gf.TransformerConfig(encoder=apart, vocab_size=50, head="class", num_classes=3)))
    assert whole.reads == again.reads
    assert whole.packed < again.packed / 4
    both = translator()
    assert model_size(both).writes > model_size(both).reads, "a decoder with cross-attention and a head"
    assert model_size(Transformer(gf.TransformerConfig(encoder=stack, vocab_size=50, head="none"))).packed > 0


def test_auto_on_and_off() -> None:
    model = writer()
    for use, work, used in (("auto", SHORT, False), ("auto", LONG, True), ("on", SHORT, True), ("off", LONG, False)):
        choice = EngineChoice(model, use)  # type: ignore[arg-type]
        with choice.running(work) as (runs, engine):
            assert (runs is not model) == (engine is not None) == used
        assert choice.used == ("compiled (float32)" if used else None)
    with pytest.raises(InputError, match="engine is 'fast': expected 'auto', 'on' or 'off'"):
        EngineChoice(model, "fast")  # type: ignore[arg-type]


def test_calls_add_up_and_the_engine_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "can_step", lambda self: True)
    choice = EngineChoice(writer())
    used = []
    for _ in range(4):
        with choice.running(Work(reads=0, writes=4000)) as (_, engine):  # about 0.8 s for two layers
            used.append(engine)
    assert used[0] is None
    assert used[2] is used[3] is choice.engine is not None
    with choice.running(SHORT) as (_, engine):
        assert engine is choice.engine


def test_what_would_have_to_be_compiled(machine: dict[str, bool]) -> None:
    some, more = Work(reads=0, writes=10_000), Work(reads=0, writes=10**6)
    model = writer()
    machine["step"] = False
    assert EngineChoice(model).engine_for(some) is None
    assert EngineChoice(model).engine_for(more) is not None
    seconds = 10.0
    reads = Work(reads=round(seconds * page.COMPUTES * torch.get_num_threads() / 2 / model_size(model).reads))
    assert EngineChoice(model).engine_for(reads) is not None, "reading needs no step"
    machine["kernels"] = False
    assert EngineChoice(model).engine_for(reads) is None
    assert EngineChoice(model).engine_for(more) is not None


@pytest.mark.parametrize("why", ["compiler", "dtype", "module", "memory"])
def test_auto_says_nothing_where_there_is_no_engine(
    why: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> bool:
        raise NoKernels("no C++ compiler was found")

    class Own(nn.Identity):
        __module__ = "someone.else"

    model = writer()
    if why == "compiler":
        monkeypatch.setattr(page, "kernels_ready", refuse)
    elif why == "dtype":
        model = model.bfloat16()
    elif why == "module":
        model.decoder.norm = Own()  # type: ignore[union-attr]
    else:
        monkeypatch.setattr(page, "fits_memory", lambda size: False)
    choice = EngineChoice(model)
    with choice.running(LONG) as (runs, engine):
        assert runs is model
        assert engine is None
    assert choice.used is None
    assert capfd.readouterr() == ("", "")


def test_steps_that_do_not_compile_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Engine] = []

    def can_step(self: Engine) -> bool:
        asked.append(self)
        return False

    monkeypatch.setattr(Engine, "can_step", can_step)
    model = writer()
    choice = EngineChoice(model, "on")
    for _ in range(3):
        with choice.running(Work(reads=5, writes=5)) as (runs, engine):
            assert runs is not model
            assert engine is None, "the plain loop, over packed weights"
    assert len(asked) == 1
    assert choice.used == "packed weights (float32)"
    with choice.running(SHORT) as (_, engine):
        assert engine is not None


def test_whether_the_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.load_kernels()
    assert kernels.kernels_ready()
    monkeypatch.setattr(kernels, "load_kernels", cache(kernels.load_kernels.__wrapped__))  # as in another process
    assert kernels.kernels_ready()
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    assert not kernels.kernels_ready()
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(NoKernels, match="not built on Windows"):
        kernels.kernels_ready()


def test_memory() -> None:
    assert page.fits_memory(1000)
    assert not page.fits_memory(10**15)


def test_who_watches_sees_the_model_itself() -> None:
    model = writer()
    choice = EngineChoice(model, "on")
    with gf.record(model, attention=True), choice.running(SHORT) as (runs, engine):
        assert runs is model
        assert engine is None
    with choice.running(SHORT) as (runs, _):
        assert runs is not model


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("two_stacks", [False, True])
def test_the_name_of_a_step_is_known_before_anything_is_packed(
    positions: str, two_stacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    stack: Any = gf.StackConfig(d_model=16, num_layers=2, num_heads=4, positions=positions, max_len=64)
    encoder = {"encoder": stack} if two_stacks else {}
    model = Transformer(gf.TransformerConfig(decoder=stack, vocab_size=40, **encoder)).eval()
    names: list[str] = []

    def is_compiled(twin: Transformer, span: int) -> bool:
        names.append(graph_key(OneStep(twin, span)))
        return len(names) > 1

    monkeypatch.setattr(page, "is_compiled", is_compiled)
    assert not page.step_ready(model)
    assert page.step_ready(model)
    engine = Engine(model)
    twin = engine.twin()
    assert twin is not None
    assert set(names) == {graph_key(OneStep(twin, engine.span_at(0) or NO_END))}
