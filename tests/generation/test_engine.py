"""The engine, compiled: the tokens of the plain path, and what happens where nothing can be compiled."""

import threading
from typing import Any

import pytest
import torch
from helpers.oracle import translator, writer

import glassformer as gf
from glassformer.errors import InputError
from glassformer.generation import engine as engines

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "top_k": 9},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
}
PROMPTS, KEEP = torch.tensor([[5, 9, 3, 7], [8, 4, 0, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])


def both(model: gf.Transformer, engine: engines.Engine, **chosen: Any) -> list[list[list[int]]]:
    keywords = {"attention_mask": KEEP, "max_new_tokens": 8, **chosen}
    plain = gf.generate(model, PROMPTS, generator=torch.Generator().manual_seed(2), **keywords)
    fast = engine.generate(PROMPTS, generator=torch.Generator().manual_seed(2), **keywords)
    return [plain.tolist(), fast.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("make", [writer, translator])
def test_compiled_it_writes_the_same_tokens(make: Any) -> None:
    model = make(pad_token_id=39)
    engine = gf.engine(model)
    for way in WAYS.values():
        plain, fast = both(model, engine, **way)
        assert plain == fast
    assert all(step.run is not step.module for step in engine._steps.values())  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["dynamic", "longrope"])
def test_angles_that_change_with_the_length_are_right(scaling: str) -> None:
    """A text that grows past the length of training, compiled up to there."""
    factors = {"short_factors": (1.0, 1.1), "long_factors": (2.0, 3.0)} if scaling == "longrope" else {}
    rope = gf.RotaryScaling(type=scaling, factor=4.0, trained_len=9, **factors)  # type: ignore[arg-type]
    kinds = (gf.LayerKind(rotary_scaling=rope),)
    stack = gf.StackConfig(d_model=16, num_layers=2, num_heads=4, positions="rotary", layer_kinds=kinds, max_len=64)
    torch.manual_seed(0)
    model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=40, pad_token_id=39)).eval()
    for backend in ("eager", "inductor"):
        engine = gf.engine(model, backend=backend)  # type: ignore[arg-type]
        plain, fast = both(model, engine, max_new_tokens=12)
        assert plain == fast


def test_where_nothing_compiles_it_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        def fail(*_: Any) -> Any:
            raise RuntimeError("no C++ compiler\nand more")

        return fail

    monkeypatch.setattr(torch, "compile", refuse)
    model = writer(pad_token_id=39)
    engine = gf.engine(model)
    for _ in range(2):
        plain, fast = both(model, engine)
        assert plain == fast
    said = capsys.readouterr().err
    assert said.count("the engine cannot compile here and runs uncompiled (no C++ compiler)") == 1


def test_two_threads_may_call_one_engine() -> None:
    model = writer(pad_token_id=39)
    engine, found = gf.engine(model, backend="eager"), dict[int, Any]()
    expected = both(model, engine)[0]

    def ask(number: int) -> None:
        found[number] = both(model, engine)[1]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [expected] * 4


def test_few_graphs_are_kept() -> None:
    engine = gf.engine(writer(pad_token_id=39), backend="eager")
    for length in range(1, 2 * engines.GRAPHS):
        engine.generate(PROMPTS[:1].expand(length, -1), max_new_tokens=2)
    assert len(engine._steps) == engines.GRAPHS


def test_refused() -> None:
    stack = gf.StackConfig(d_model=8, num_layers=1, num_heads=2)
    encoder = gf.Transformer(gf.TransformerConfig(encoder=stack, vocab_size=9))
    with pytest.raises(InputError, match="only a model with a decoder generates"):
        gf.engine(encoder)
    with pytest.raises(InputError, match="backend is 'fast': expected 'inductor' or 'eager'"):
        gf.engine(writer(), backend="fast")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_new_tokens"):
        gf.engine(writer(), backend="eager").generate(PROMPTS, max_new_tokens=-1)
