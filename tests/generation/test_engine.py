"""The engine gives the tokens of the plain path, compiles once per machine, and falls back if it cannot compile."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.oracle import translator, writer
from torch import nn

import glassformer as gf
from glassformer.errors import InputError
from glassformer.generation import compiled, packing, shelf
from glassformer.generation import engine as engines
from glassformer.generation.kernels import NoKernels
from glassformer.generation.packing import quantised

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "top_k": 9},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
}
PROMPTS, KEEP = torch.tensor([[5, 9, 3, 7], [8, 4, 0, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])


@pytest.fixture(autouse=True)
def _say_anew() -> None:
    shelf.warn_once.cache_clear()


def both(model: gf.Transformer, engine: engines.Engine, **chosen: Any) -> list[list[list[int]]]:
    keywords = {"attention_mask": KEEP, "max_new_tokens": 8, **chosen}
    plain = gf.generate(model, PROMPTS, generator=torch.Generator().manual_seed(2), **keywords)
    fast = engine.generate(PROMPTS, generator=torch.Generator().manual_seed(2), **keywords)
    return [plain.tolist(), fast.tolist()]


def windowed() -> gf.Transformer:
    """Gemma's kinds of layers: grouped-query attention, every other layer with a window."""
    kinds = (gf.LayerKind(window=3), gf.LayerKind())
    stack = gf.StackConfig(
        d_model=32, num_layers=3, num_heads=4, num_kv_heads=2, positions="rotary", layer_kinds=kinds, gated=True,
        activation="silu", norm="rms", norm_order="pre", max_len=64,
    )  # fmt: skip
    torch.manual_seed(5)
    model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=40, pad_token_id=39, eos_token_id=2))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.4)
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["writer", "translator", "windowed"])
def test_compiled_it_writes_the_same_tokens(kind: str) -> None:
    model = {"writer": writer, "translator": translator}[kind](pad_token_id=39) if kind != "windowed" else windowed()
    engine = gf.engine(model)
    for way in WAYS.values():
        for length in (1, 8, 50):  # the cache grows
            plain, fast = both(model, engine, **way, max_new_tokens=length)
            assert plain == fast
    for row in (0, 1):  # one row alone
        alone = PROMPTS[row : row + 1, : 4 - 2 * row]
        assert torch.equal(engine.generate(alone, max_new_tokens=9), gf.generate(model, alone, max_new_tokens=9))
    plain, fast = (
        write(PROMPTS, attention_mask=KEEP, max_new_tokens=8, return_log_probs=True)
        for write in (lambda *args, **rest: gf.generate(model, *args, **rest), engine.generate)
    )
    torch.testing.assert_close(fast.log_probs, plain.log_probs, rtol=1e-5, atol=1e-5)
    assert all(isinstance(step, compiled.CompiledStep) for step in engine._steps.values())
    assert len(engine._steps) == 1


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["dynamic", "longrope"])
def test_angles_that_change_with_the_length_are_right(scaling: str) -> None:
    """With a text that grows past the training length."""
    factors = {"short_factors": (1.0, 1.1), "long_factors": (2.0, 3.0)} if scaling == "longrope" else {}
    rope = gf.RotaryScaling(type=scaling, factor=4.0, trained_len=9, **factors)  # type: ignore[arg-type]
    kinds = (gf.LayerKind(rotary_scaling=rope),)
    stack = gf.StackConfig(d_model=16, num_layers=2, num_heads=4, positions="rotary", layer_kinds=kinds, max_len=64)
    torch.manual_seed(0)
    model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=40, pad_token_id=39)).eval()
    for backend in ("eager", "inductor"):
        engine = gf.engine(model, backend=backend)  # type: ignore[arg-type]
        for way in WAYS.values():
            plain, fast = both(model, engine, **way, max_new_tokens=12)
            assert plain == fast
        assert set(engine._steps) == ({9} if scaling == "dynamic" else {9, engines.NO_END})


@pytest.mark.slow
def test_int8_is_the_model_with_rounded_weights() -> None:
    model = writer(pad_token_id=39)
    engine = gf.engine(model, weights="int8")
    rounded = writer(pad_token_id=39)
    table = rounded.decoder.embed.tokens.weight  # type: ignore[union-attr]
    for module in rounded.modules():
        if isinstance(module, nn.Linear):
            whole, scale = quantised(module.weight.detach())
            module.weight = nn.Parameter(whole * scale[:, None])  # tied embeddings are not rounded
    assert rounded.decoder.embed.tokens.weight is table  # type: ignore[union-attr]
    for way in WAYS.values():
        assert both(rounded, engine, **way)[0] == both(rounded, engine, **way)[1]


@pytest.mark.slow
def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    program = (
        "import time, torch, glassformer as gf\n"
        "torch.manual_seed(0)\n"
        "stack = gf.StackConfig(d_model=16, num_layers=1, num_heads=2)\n"
        "model = gf.Transformer(gf.TransformerConfig(decoder=stack, vocab_size=11))\n"
        "print(gf.engine(model).generate(torch.tensor([[1, 2]]), max_new_tokens=5).tolist())\n"
    )
    environment = {"GLASSFORMER_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}

    def ran(**more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment | more, capture_output=True, text=True, check=True, timeout=300)

    first, second = ran(), ran(PATH="/nowhere", CXX=sys.executable)  # a compiler that would fail
    assert first.stdout == second.stdout
    assert "compiling" in first.stderr
    kept = {file.name for file in (tmp_path / "cache").rglob("*") if file.is_file()}
    assert {"kernels.so", "step.pt2"} <= kept
    without = ran(GLASSFORMER_CACHE="", XDG_CACHE_HOME=str(tmp_path / "other"), PATH="/nowhere", CXX="none")
    assert without.stdout == first.stdout
    assert without.stderr.count("no C++ compiler") == 1


def test_where_there_is_no_compiler_it_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> Any:
        raise NoKernels("no C++ compiler was found")

    monkeypatch.setattr(packing, "load_kernels", refuse)
    model = writer(pad_token_id=39)
    engine = gf.engine(model)
    for _ in range(2):
        plain, fast = both(model, engine)
        assert plain == fast
    said = capsys.readouterr().err
    assert said.count("the engine cannot run here, so the plain model is used: no C++ compiler was found") == 1


@pytest.mark.parametrize("error", [RuntimeError("an op\nthat is not known"), KeyboardInterrupt()])
def test_a_compilation_that_fails_or_is_stopped_leaves_an_engine_that_works(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(compiled, "graph_key", lambda step: "never compiled")
    monkeypatch.setattr(torch.export, "export", fail)
    model = writer(pad_token_id=39)
    engine = gf.engine(model)
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            both(model, engine)
        error = RuntimeError("an op\nthat is not known")
    for _ in range(2):
        plain, fast = both(model, engine)
        assert plain == fast
    said = capsys.readouterr().err
    assert said.count("runs uncompiled: the step cannot be compiled: an op") == 1
    assert not (shelf.cache_home() / "steps" / "never compiled").exists()


@pytest.mark.slow
def test_a_damaged_package_is_compiled_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = writer(pad_token_id=39)
    (place,) = (step.folder for step in steps_of(model))
    whole = {file.name: file.read_bytes() for file in place.iterdir()}
    (place / "step.pt2").write_bytes(whole["step.pt2"][:1000])
    plain, fast = both(model, gf.engine(model))
    assert plain == fast
    assert (place / "step.pt2").stat().st_size > 1000
    monkeypatch.setattr(compiled.CompiledStep, "difference", lambda self, step: float("nan"))
    plain, fast = both(model, gf.engine(model))  # a step that disagrees with the model is not used
    assert plain == fast


def steps_of(model: gf.Transformer) -> list[compiled.CompiledStep]:
    engine = gf.engine(model)
    engine.generate(PROMPTS, max_new_tokens=2)
    return [step for step in engine._steps.values() if isinstance(step, compiled.CompiledStep)]


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


@pytest.mark.slow
def test_two_threads_may_call_a_compiled_one() -> None:
    model = translator(pad_token_id=39)
    engine, found = gf.engine(model), dict[tuple[int, str], Any]()
    expected = {way: both(model, engine, **chosen)[0] for way, chosen in WAYS.items()}

    def ask(number: int) -> None:
        for _ in range(5):
            for way, chosen in WAYS.items():
                found[number, way] = both(model, engine, **chosen)[1]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(number, way): expected[way] for number in range(3) for way in WAYS}


def test_who_watches_sees_the_model_itself() -> None:
    model = writer(pad_token_id=39)
    engine = gf.engine(model)
    with gf.record(model, attention=True) as seen:
        engine.generate(PROMPTS[:1], max_new_tokens=3)
    assert seen["decoder.blocks.0.attn"].shape[-1] == 6
    with gf.ablate(model, ["decoder.blocks.0.attn.*"]):
        silenced = engine.generate(PROMPTS, attention_mask=KEEP, max_new_tokens=8)
        assert torch.equal(silenced, gf.generate(model, PROMPTS, attention_mask=KEEP, max_new_tokens=8))


@pytest.mark.slow
def test_changed_weights_are_packed_anew() -> None:
    model = writer(pad_token_id=39)
    engine = gf.engine(model)
    before = both(model, engine)[1]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    plain, fast = both(model, engine)
    assert plain == fast != before


def test_a_prompt_is_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PREFILL_CHUNK", 3)
    for model in (writer(pad_token_id=39), windowed()):
        engine = gf.engine(model, backend="eager")
        prompt = torch.randint(3, 39, (3, 11), generator=torch.Generator().manual_seed(4))
        keep = torch.tensor([[1] * 11, [0] * 7 + [1] * 4, [1] * 5 + [0] * 6])
        for way in WAYS.values():
            generators = [torch.Generator().manual_seed(1) for _ in range(2)]
            chosen = {**way, "attention_mask": keep, "max_new_tokens": 12}
            plain = gf.generate(model, prompt, generator=generators[0], **chosen)
            assert torch.equal(engine.generate(prompt, generator=generators[1], **chosen), plain)


def test_it_streams_and_can_be_left() -> None:
    model = writer(pad_token_id=39)
    engine = gf.engine(model, backend="eager")
    whole = gf.generate(model, PROMPTS, attention_mask=KEEP, max_new_tokens=8)
    columns = list(engine.stream(PROMPTS, attention_mask=KEEP, max_new_tokens=8))
    assert torch.equal(torch.cat([PROMPTS, torch.stack(columns, dim=1)], dim=1), whole)
    left = engine.stream(PROMPTS, attention_mask=KEEP, max_new_tokens=8)
    next(left)
    left.close()  # type: ignore[attr-defined]
    plain, fast = both(model, engine)
    assert plain == fast


def test_it_encodes_texts_in_their_order() -> None:
    stack = gf.StackConfig(d_model=16, num_layers=2, num_heads=2)
    model = gf.Transformer(gf.TransformerConfig(encoder=stack, vocab_size=30)).eval()
    texts = [torch.randint(0, 30, (length,)) for length in (3, 9, 1, 9, 4)]
    for text, found in zip(texts, gf.engine(model).encode(texts), strict=True):
        torch.testing.assert_close(found, model.encode(text[None])[0], rtol=1e-5, atol=1e-5)


def test_other_dtypes_run_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    model = writer(pad_token_id=39).double()
    plain, fast = both(model, gf.engine(model))
    assert plain == fast
    assert "it supports float32 on the CPU, and this model is torch.float64 on cpu" in capsys.readouterr().err


def test_modules_of_other_people_run_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    class Mine(nn.Identity):
        pass

    model = writer(pad_token_id=39)
    model.decoder.norm = nn.Sequential(model.decoder.norm, Mine())  # type: ignore[union-attr]
    plain, fast = both(model, gf.engine(model))
    assert plain == fast
    assert "custom modules (Mine)" in capsys.readouterr().err


def test_refused() -> None:
    stack = gf.StackConfig(d_model=8, num_layers=1, num_heads=2)
    encoder = gf.Transformer(gf.TransformerConfig(encoder=stack, vocab_size=9))
    with pytest.raises(InputError, match="only a model with a decoder generates"):
        gf.engine(encoder).generate(PROMPTS)
    with pytest.raises(InputError, match="backend is 'fast': expected 'inductor' or 'eager'"):
        gf.engine(writer(), backend="fast")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="weights is 'int4': expected 'float32' or 'int8'"):
        gf.engine(writer(), weights="int4")  # type: ignore[arg-type]
    engine = gf.engine(writer(), backend="eager")
    for wrong in ({"max_new_tokens": -1}, {"temperature": -1.0, "do_sample": True}, {"num_beams": 10**6}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            engine.generate(PROMPTS, **wrong)
    assert engine.generate(PROMPTS, max_new_tokens=2).shape[1] == 6


def other_values(model: gf.Transformer) -> dict[str, torch.Tensor]:
    return {name: value * 1.5 for name, value in model.state_dict().items()}


def with_other_weight(linear: nn.Linear) -> None:
    linear.weight = nn.Parameter(torch.randn_like(linear.weight))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.load_state_dict(other_values(model)),
        lambda model: model.load_state_dict(other_values(model), assign=True),
        lambda model: with_other_weight(model.decoder.blocks[0].ffn.up),
        lambda model: model.decoder.blocks.__setitem__(0, writer(seed=5, pad_token_id=39).decoder.blocks[0]),  # type: ignore[union-attr]
        lambda model: nn.utils.vector_to_parameters(
            nn.utils.parameters_to_vector(model.parameters()) * 1.5, model.parameters()
        ),
    ],
)
def test_other_weights_are_never_answered_with_the_old_ones(change: Any) -> None:
    model = writer(pad_token_id=39)
    engine = gf.engine(model)
    texts = [PROMPTS[0][:3]]
    before = engine.encode(texts)[0]
    change(model)
    after = engine.encode(texts)[0]
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, model.decode(texts[0][None])[0].detach(), rtol=1e-4, atol=1e-5)


def test_a_model_in_training_stays_in_training() -> None:
    model = writer(pad_token_id=39).train()
    engine = gf.engine(model, backend="eager")
    engine.generate(PROMPTS, max_new_tokens=2)
    engine.encode([PROMPTS[0]])
    assert model.training
    assert all(module.training for module in model.modules())


def test_where_other_arithmetic_is_asked_for_the_plain_path_runs(capsys: pytest.CaptureFixture[str]) -> None:
    model = writer(pad_token_id=39)
    engine = gf.engine(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert engine.generate(PROMPTS, max_new_tokens=4).equal(gf.generate(model, PROMPTS, max_new_tokens=4))
    with torch.inference_mode():
        made = writer(pad_token_id=39)
    assert gf.engine(made).encode([PROMPTS[0]])[0].shape == (PROMPTS.shape[1], 16)
    torch.nn.utils.parametrizations.weight_norm(model.decoder.blocks[0].ffn.up)  # type: ignore[union-attr]
    assert engine.generate(PROMPTS, max_new_tokens=4).shape == (len(PROMPTS), PROMPTS.shape[1] + 4)
    assert "parametrization" in capsys.readouterr().err


@pytest.mark.parametrize("texts", [[5], None, [torch.tensor(3)]])
def test_what_is_no_text_is_refused(texts: Any) -> None:
    with pytest.raises((InputError, TypeError), match=r"text|None"):
        gf.engine(writer(pad_token_id=39), backend="eager").encode(texts)
