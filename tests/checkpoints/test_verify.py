"""`glassformer verify`: correct models pass, and every mistake we could think of is found."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.command import run
from helpers.reference import save_sample
from helpers.samples import ARCHITECTURES, SAMPLES
from torch import Tensor, nn

import glassformer as gf
from glassformer.checkpoints import golden
from glassformer.checkpoints.verify import Certificate
from glassformer.core import cache, context, feedforward, norms, positions, stack
from glassformer.verbs.verify import VerifySettings, write_certificate

NAMED = {str(sample): sample for sample in SAMPLES}
THEIRS = {
    "llama": ("llama-plain", "language"),
    "gpt2": ("gpt2-plain", "language"),
    "gpt2 class": ("gpt2-plain", "class"),
    "bert": ("bert-plain", "pool"),
    "roberta": ("roberta-plain", "language"),
    "marian": ("marian-plain", "language"),
    "bart class": ("bart-plain", "class"),
    "t5": ("t5-relu", "language"),
    "vit": ("vit-plain", "class"),
    "vit-gpt2": ("vision-encoder-decoder-gpt2_projected", "language"),
    "trocr": ("vision-encoder-decoder-trocr", "language"),
    "blip": ("blip-wide", "language"),
    "git": ("git-plain", "language"),
}
STACK = gf.StackConfig(d_model=12, num_layers=2, num_heads=3)


def own_configs() -> dict[str, gf.TransformerConfig]:
    window = STACK.replace(layer_kinds=(gf.LayerKind(window=3), gf.LayerKind()), positions="rotary")
    image = gf.ImageConfig(size=8, patch=4)
    return {
        "own": gf.TransformerConfig(encoder=STACK, decoder=window, vocab_size=30, init="paper"),
        "own alibi": gf.TransformerConfig(decoder=STACK.replace(positions="alibi"), vocab_size=30),
        "own captions": gf.TransformerConfig(encoder=STACK, decoder=STACK, image=image, vocab_size=30),
        "own series": gf.TransformerConfig(
            encoder=STACK, series=gf.SeriesConfig(length=12, patch=4, horizon=3), head="forecast"
        ),
        "short": gf.TransformerConfig(  # becomes a GPT-2 in the file
            decoder=STACK.replace(positions="learned", max_len=1), vocab_size=3
        ),
        "paper": gf.TransformerConfig(  # becomes a Marian in the file
            encoder=STACK.replace(d_model=16, num_heads=2, norm_order="post"),
            decoder=STACK.replace(d_model=16, num_heads=2, norm_order="post"),
            vocab_size=30, scale_embeddings=True, eos_token_id=2, decoder_start_token_id=1,
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of transformers and our own, all saved by us and therefore with golden values."""
    made = {}
    for name, (sample, kind) in THEIRS.items():
        made[name] = tmp_path_factory.mktemp("theirs")
        save_sample(NAMED[sample], ARCHITECTURES[NAMED[sample].model_type][kind], made[name])
        gf.save(gf.load(made[name]), made[name])
    for name, config in own_configs().items():
        torch.manual_seed(0)
        made[name] = tmp_path_factory.mktemp("own")
        gf.save(gf.Transformer(config), made[name])
    return made


def verdicts(certificate: Certificate) -> dict[str, str]:
    return {check.name: check.verdict for check in certificate.checks}


# Correct models pass


@pytest.mark.parametrize("name", [*THEIRS, *own_configs()])
def test_what_is_right_passes(name: str, folders: dict[str, Path]) -> None:
    certificate = gf.verify(folders[name])
    found = verdicts(certificate)
    assert certificate.passed, certificate.checks
    always = {"batch = single", "watched = unwatched", "save -> load", "golden values"}
    assert {check for check in always if found[check] != "passed"} == set()
    has_decoder = name not in ("bert", "roberta", "vit", "own series")
    assert found["cache = no cache"] == found["cut = whole"] == ("passed" if has_decoder else "-")
    assert found["left = right padding"] == ("-" if name in ("vit", "own series", "short") else "passed")
    assert found["transformers"] == ("-" if name.startswith("own") else "passed")
    assert found["half = float32"] == "-"


def test_without_a_reference_it_says_how_to_get_one(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folders["llama"], tmp_path / "model")
    (tmp_path / "model" / "golden.json").unlink()
    monkeypatch.setitem(sys.modules, "transformers", None)
    certificate = gf.verify(tmp_path / "model")
    notes = {check.name: check.note for check in certificate.checks if check.verdict == "-"}
    assert "pip install transformers" in notes["transformers"]
    assert "gf.save writes one" in notes["golden values"]
    assert certificate.passed
    assert "transformers" not in certificate.versions


def test_a_folder_that_transformers_refuses_is_red(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("kernel not found\nand a long story")

    monkeypatch.setattr(transformers.LlamaForCausalLM, "from_pretrained", fail)
    check = gf.verify(folders["llama"]).checks[-1]
    assert (check.verdict, check.note) == (
        "differs",
        "transformers refuses this folder: RuntimeError: kernel not found",
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "marian", "vit"])
def test_half_precision_is_checked_in_float32(
    name: str, dtype: torch.dtype, folders: dict[str, Path], tmp_path: Path
) -> None:
    gf.save(gf.load(folders[name], dtype=dtype), tmp_path / "half")
    certificate = gf.verify(tmp_path / "half")
    assert certificate.passed, certificate.checks
    found = {check.name: check for check in certificate.checks}
    assert found["half = float32"].verdict == "passed"
    assert found["half = float32"].difference > 1e-5, "it was not run in half precision"
    assert found["transformers"].difference < 1e-5
    assert certificate.dtype == str(dtype).removeprefix("torch.")


# Every mistake is found


def flipped(real: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
    def mistaken(*arguments: Any) -> Tensor | None:
        keep = real(*arguments)
        return None if keep is None else ~keep

    return mistaken


def mask_polarity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stack, "as_keep", flipped(context.as_keep))


def rotary_layout(patch: pytest.MonkeyPatch) -> None:
    """Pairs (2i, 2i + 1) instead of (i, i + R/2)."""

    def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = (part[..., : part.shape[-1] // 2].repeat_interleave(2, dim=-1) for part in rotation)
        turning, still = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
        turned = torch.stack([-turning[..., 1::2], turning[..., 0::2]], dim=-1).flatten(-2)
        return torch.cat([turning * cos + turned * sin, still], dim=-1)

    patch.setattr("glassformer.core.attention.rotate", rotate)


def norm_epsilon(patch: pytest.MonkeyPatch) -> None:
    for kind in (norms.LayerNorm, norms.RMSNorm):
        real = kind.forward

        def forward(self: Any, x: Tensor, real: Any = real) -> Tensor:
            self.eps = 1e-2
            return real(self, x)

        patch.setattr(kind, "forward", forward)


def position_offset(patch: pytest.MonkeyPatch) -> None:
    for kind in (positions.Learned, positions.Sinusoidal):
        real = kind.forward
        patch.setattr(kind, "forward", lambda self, where, span, real=real: real(self, where + 1, span + 1))


def not_causal(patch: pytest.MonkeyPatch) -> None:
    real = context.Mask.__init__
    patch.setattr(
        context.Mask,
        "__init__",
        lambda self, t, s, keep=None, causal=False, *rest: real(self, t, s, keep, False, *rest),
    )


def cache_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """With a cache, positions are one too low."""
    real = stack.count_positions
    patch.setattr(stack, "count_positions", lambda keep, past, *rest: (real(keep, past, *rest) - (past > 0)).clamp(0))


def cache_of_stale_keys(patch: pytest.MonkeyPatch) -> None:
    real = cache.Cache.append

    def append(self: Any, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = real(self, layer, k, v)
        return keys.roll(1, dims=2), values

    patch.setattr(cache.Cache, "append", append)


def padding_counts(patch: pytest.MonkeyPatch) -> None:
    """Positions count all tokens instead of kept ones."""
    patch.setattr(stack, "count_positions", lambda keep, past, length, device: torch.arange(past, past + length)[None])


def head_is_not_tied(patch: pytest.MonkeyPatch) -> None:
    real = gf.Transformer.forward

    def forward(self: Any, *arguments: Any, **given: Any) -> gf.Output:
        own = self.head.out.weight
        self.head.out.weight = nn.Parameter(own.detach().roll(1, dims=0))
        try:
            return real(self, *arguments, **given)
        finally:
            self.head.out.weight = own

    patch.setattr(gf.Transformer, "forward", forward)


def unscaled_embeddings(patch: pytest.MonkeyPatch) -> None:
    real = stack.Stack.forward

    def forward(self: Any, *arguments: Any, **given: Any) -> Tensor:
        self.embed.scale = 1.0
        return real(self, *arguments, **given)

    patch.setattr(stack.Stack, "forward", forward)


def other_activation(patch: pytest.MonkeyPatch) -> None:
    """GPT-2 approximates GELU with tanh; using the exact one is a classic small mistake."""
    patch.setitem(feedforward.ACTIVATIONS, "gelu_tanh", feedforward.ACTIVATIONS["gelu"])


def attention_scale(patch: pytest.MonkeyPatch) -> None:
    real = nn.functional.scaled_dot_product_attention
    patch.setattr(
        nn.functional, "scaled_dot_product_attention", lambda *a, scale=None, **given: real(*a, scale=1.0, **given)
    )


def watcher_meddles(patch: pytest.MonkeyPatch) -> None:
    real = context.Mask.of_rows

    def of_rows(self: Any, rows: slice, dtype: torch.dtype) -> Tensor | None:
        self.causal = False
        self.keep = None
        return real(self, rows, dtype)

    patch.setattr(context.Mask, "of_rows", of_rows)


def memory_unmasked(patch: pytest.MonkeyPatch) -> None:
    real = stack.Stack.memory_mask

    def memory_mask(self: Any, x: Tensor, memory: Tensor | None, keep: Tensor | None, cache: Any) -> Any:
        return real(self, x, memory, None, cache)

    patch.setattr(stack.Stack, "memory_mask", memory_mask)


MUTATIONS = [
    *((mask_polarity, name) for name in ("llama", "bert", "marian", "bart class", "own")),
    *((rotary_layout, name) for name in ("llama", "own")),
    *((norm_epsilon, name) for name in ("llama", "gpt2", "bert", "marian", "t5", "vit", "own", "own series")),
    *((position_offset, name) for name in ("gpt2", "roberta", "marian", "own")),
    *((not_causal, name) for name in ("llama", "gpt2", "marian", "own alibi")),
    *((cache_off_by_one, name) for name in ("llama", "gpt2", "marian")),
    *((cache_of_stale_keys, name) for name in ("llama", "gpt2", "t5")),
    *((padding_counts, name) for name in ("gpt2", "roberta")),
    *((head_is_not_tied, name) for name in ("gpt2", "marian", "own")),
    (unscaled_embeddings, "marian"),
    (other_activation, "gpt2"),
    (attention_scale, "llama"),
    (attention_scale, "vit"),
    (watcher_meddles, "llama"),
    (memory_unmasked, "marian"),
]


@pytest.mark.parametrize("reference", ["golden", "transformers"])
@pytest.mark.parametrize(
    ("mutation", "name"), [pytest.param(m, name, id=f"{m.__name__}-{name}") for m, name in MUTATIONS]
)
def test_a_mistake_turns_it_red(
    mutation: Callable[[pytest.MonkeyPatch], None],
    name: str,
    reference: str,
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = folders[name]
    if reference == "golden":
        monkeypatch.setitem(sys.modules, "transformers", None)
    else:
        if name.startswith("own"):
            pytest.skip("transformers has no such model")
        folder = tmp_path / "model"
        shutil.copytree(folders[name], folder)
        (folder / "golden.json").unlink()
    mutation(monkeypatch)
    certificate = gf.verify(folder)
    assert not certificate.passed, certificate.checks
    if mutation in (rotary_layout, norm_epsilon, position_offset, not_causal, attention_scale):  # only these can tell
        assert verdicts(certificate)["golden values" if reference == "golden" else "transformers"] == "differs"


def test_other_weights_than_those_that_were_saved_are_red(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["own alibi"], tmp_path / "model")
    model = gf.load(tmp_path / "model")
    before = (tmp_path / "model" / "golden.json").read_text(encoding="utf-8")
    with torch.no_grad():
        model.decoder.blocks[1].ffn.up.weight.mul_(1.01)
    gf.save(model, tmp_path / "model")
    (tmp_path / "model" / "golden.json").write_text(before, encoding="utf-8")
    assert verdicts(gf.verify(tmp_path / "model"))["golden values"] == "differs"


# Golden values


def test_golden_values_cost_a_save_nothing(tmp_path: Path) -> None:
    model = gf.Transformer(own_configs()["own"]).train()
    model.decoder.blocks[0].attn.q.weight.requires_grad_(False)
    model.encoder.eval()
    modes = [module.training for module in model.modules()]
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    random, called = torch.get_rng_state(), []
    model.register_forward_hook(lambda *_: called.append(1))
    with gf.record(model) as seen, torch.autocast("cpu", dtype=torch.bfloat16):
        gf.save(model, tmp_path / "model")
    assert not seen
    assert not called
    assert torch.equal(random, torch.get_rng_state())
    assert modes == [module.training for module in model.modules()]
    assert wanted == [parameter.requires_grad for parameter in model.parameters()]
    assert gf.verify(tmp_path / "model").passed
    assert (tmp_path / "model" / "golden.json").stat().st_size < 20_000


def test_a_save_never_fails_for_golden_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = gf.Transformer(own_configs()["own"])
    gf.save(model, tmp_path / "model")
    gf.verify(tmp_path / "model")

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(golden, "answers", fail)
    gf.save(model, tmp_path / "model")
    assert not (tmp_path / "model" / "golden.json").exists(), "those of an earlier save must go"
    monkeypatch.undo()
    monkeypatch.setattr(golden, "MOST_WORK", 1000)
    gf.save(model, tmp_path / "model")
    assert not (tmp_path / "model" / "golden.json").exists()
    monkeypatch.undo()
    with torch.no_grad():
        model.head.out.weight[0, 0] = torch.nan
    gf.save(model, tmp_path / "model")
    assert not (tmp_path / "model" / "golden.json").exists()
    certificate = gf.verify(tmp_path / "model")
    assert not certificate.passed
    assert "not finite" in certificate.checks[2].note
    json.loads(json.dumps(certificate.to_dict(), allow_nan=False))


def test_a_save_removes_the_certificate_of_the_model_before(tmp_path: Path) -> None:
    gf.save(gf.Transformer(own_configs()["own"]), tmp_path / "model")
    assert run("verify", tmp_path / "model") == 0
    assert (tmp_path / "model" / "certificate.json").is_file()
    gf.save(gf.Transformer(own_configs()["own"]), tmp_path / "model")
    assert not (tmp_path / "model" / "certificate.json").exists()


# The verb


def test_the_verb_prints_a_table_and_writes_a_certificate(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import hashlib

    shutil.copytree(folders["llama"], tmp_path / "model")
    assert run("verify", tmp_path / "model") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for part in (
        "llama, head language, float32",
        "cache = no cache",
        "passed",
        "2.0e-05",
        "All 8 checks that apply passed",
    ):
        assert part in captured.out
    stored = json.loads((tmp_path / "model" / "certificate.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256((tmp_path / "model" / "model.safetensors").read_bytes()).hexdigest()
    assert stored["sha256"] == {"model.safetensors": digest}
    assert stored["path"] == str(tmp_path / "model")
    assert (stored["model_type"], stored["passed"]) == ("llama", True)
    assert {"glassformer", "torch", "transformers"} <= stored["versions"].keys()
    assert stored["date"].startswith("20")
    assert {check["name"]: check["verdict"] for check in stored["checks"]} == verdicts(gf.verify(tmp_path / "model"))
    assert all({"difference", "tolerance", "note"} <= check.keys() for check in stored["checks"])

    assert run("verify", tmp_path / "model", "--json", "--out", tmp_path / "elsewhere.json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((tmp_path / "elsewhere.json").read_text(encoding="utf-8"))
    assert shown["checks"][0]["difference"] <= shown["checks"][0]["tolerance"]


def test_exit_code_1_when_something_differs(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    position_offset(monkeypatch)
    assert run("verify", folders["gpt2"], "--out", tmp_path / "red.json") == 1
    assert "2 of 8 checks differ: golden values, transformers." in capsys.readouterr().out
    assert json.loads((tmp_path / "red.json").read_text(encoding="utf-8"))["passed"] is False


def test_a_folder_that_may_not_be_written_changes_no_verdict(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("glassformer.io.write_json", refuse)
    assert run("verify", folders["own"]) == 0
    captured = capsys.readouterr()
    assert "could not be written" in captured.err
    assert "Permission denied" in captured.err
    assert "All 7 checks that apply passed." in captured.out


def test_bad_input_is_exit_code_2(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["verify", tmp_path / "nowhere"], "there is no such folder"),
        (["verify", tmp_path], "not a model folder"),
        (["verify", folders["own"], "--out", tmp_path / "no" / "x.json"], "in a folder that exists"),
        (["verify", folders["own"], "--out", tmp_path], "expected a file to write"),
    ):
        assert run(*arguments) == 2
        shown = capsys.readouterr().err
        assert message in shown
        assert "Traceback" not in shown


def test_golden_values_that_cannot_be_read_are_named(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["own"], tmp_path / "model")
    (tmp_path / "model" / "golden.json").write_text('{"inputs": 3}', encoding="utf-8")
    check = next(check for check in gf.verify(tmp_path / "model").checks if check.name == "golden values")
    assert check.verdict == "differs"
    assert "does not contain golden values" in check.note


def noted(folder: Path, check: str) -> tuple[str, str]:
    return next((found.verdict, found.note) for found in gf.verify(folder).checks if found.name == check)


def test_golden_values_of_another_model(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["own alibi"], tmp_path / "model")
    file = tmp_path / "model" / "golden.json"
    whole = json.loads(file.read_text(encoding="utf-8"))
    (name,) = whole["outputs"]
    for outputs, said in (
        ({"other": whole["outputs"][name]}, f"golden.json has the outputs other; the model has {name}"),
        ({name: {**whole["outputs"][name], "shape": [1, 2, 3]}}, "in golden.json it has"),
    ):
        file.write_text(json.dumps({**whole, "outputs": outputs}), encoding="utf-8")
        verdict, note = noted(tmp_path / "model", "golden values")
        assert verdict == "differs"
        assert said in note


def test_what_cannot_be_compared_is_said(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaling = gf.RotaryScaling(type="dynamic", factor=2.0, trained_len=3)
    stretched = STACK.replace(positions="rotary", layer_kinds=(gf.LayerKind(rotary_scaling=scaling),))
    torch.manual_seed(0)
    gf.save(gf.Transformer(gf.TransformerConfig(decoder=stretched, vocab_size=30)), tmp_path / "model")
    said = "dynamic positions depend on the length beyond 3"
    assert noted(tmp_path / "model", "batch = single") == ("-", said)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glassformer.checkpoints.verify.save", full)
    verdict, note = noted(folders["own alibi"], "save -> load")
    assert verdict == "-"
    assert "a copy could not be written: [Errno 28] No space left on device" in note


def test_a_certificate_of_a_hub_id_is_written_only_where_it_is_told() -> None:
    assert write_certificate(gf.verify, VerifySettings(model="someone/something")) is None  # type: ignore[arg-type]
