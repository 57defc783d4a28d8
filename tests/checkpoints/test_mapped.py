"""Loaded parameters are memory-mapped: no initialisation, no extra memory, and the file is never written to."""

import copy
import pickle
from pathlib import Path

import pytest
import torch
from helpers.command import python
from helpers.small_checkpoints import (
    IDS,
    Made,
    build,
    logits,
    opened_by_transformers,
    reconfigure,
    same_parameters,
    store,
    weights_of,
)

import glassformer as gf
from glassformer.core.model import Metadata
from glassformer.errors import InputError

# About 60 MB each: stored transposed, unchanged, with one matrix for q, k and v, and with a head.
LARGE = {
    "GPT2LMHeadModel": {"n_embd": 512, "n_layer": 4, "vocab_size": 4000},
    "LlamaForCausalLM": {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 3, "vocab_size": 4000},
    "Phi3ForCausalLM": {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 3, "vocab_size": 4000},
    "BertForMaskedLM": {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 4, "vocab_size": 4000},
}
MEASURE = """
import sys, torch
import glassformer as gf

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

gf.load(sys.argv[1])  # the first load allocates memory that is not the model's
before, state = anonymous(), torch.get_rng_state()
model = gf.load(sys.argv[2])
loaded = anonymous() - before
assert torch.equal(torch.get_rng_state(), state), "numbers were drawn"
with torch.no_grad():
    model(torch.tensor([[5, 9, 31]]))
print(loaded, anonymous() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory is measured as Linux counts it")
@pytest.mark.parametrize("architecture", LARGE)
def test_loading_takes_no_memory_of_its_own(architecture: str, made: Made, tmp_path: Path) -> None:
    model_class = type(build(architecture))
    model = model_class(model_class.config_class(**{**build(architecture).config.to_dict(), **LARGE[architecture]}))
    model.save_pretrained(tmp_path / "large")
    size = (tmp_path / "large" / "model.safetensors").stat().st_size
    assert size > 50e6
    loaded, run = map(int, python("-c", MEASURE, made(architecture), tmp_path / "large").split())
    assert loaded < 0.2 * size
    assert run < 1.2 * size


@pytest.mark.parametrize("architecture", LARGE)
def test_loading_draws_no_numbers(architecture: str, made: Made) -> None:
    folder, state = made(architecture), torch.get_rng_state()
    gf.load(folder)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
@pytest.mark.parametrize("architecture", LARGE)
def test_training_leaves_the_file_alone(architecture: str, kind: str, made: Made) -> None:
    folder = made(architecture)
    if kind == "bin":
        torch.save(weights_of(folder), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    file = next(folder.glob("*model.*"))
    before, model = file.read_bytes(), gf.load(folder).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
    first = None
    for _ in range(3):
        optimiser.zero_grad()
        loss = model(IDS, labels=IDS).loss
        first = first or loss.item()
        loss.backward()
        optimiser.step()
    assert loss.item() < first
    assert file.read_bytes() == before
    assert not same_parameters(gf.load(folder), model)


@pytest.mark.parametrize("architecture", LARGE)
def test_a_copy_is_a_model_of_its_own(architecture: str, made: Made) -> None:
    model = gf.load(made(architecture))
    expected = logits(model)
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    for copied in copies:
        assert torch.equal(logits(copied), expected)
        assert copied.config == model.config
        assert copied.about == model.about


@pytest.mark.parametrize("architecture", LARGE)
def test_a_model_can_be_saved_over_the_folder_it_came_from(architecture: str, made: Made) -> None:
    folder = made(architecture)
    model = gf.load(folder)
    with torch.no_grad():
        model.get_parameter("decoder.norm.weight" if model.decoder else "encoder.embed.norm.weight").mul_(2)
    expected = logits(model)
    for _ in range(2):
        gf.save(model, folder)
        assert torch.equal(logits(model), expected), "what it is mapped from went away"
        assert same_parameters(gf.load(folder), model)
    assert torch.allclose(logits(opened_by_transformers(folder, architecture)), expected, atol=1e-5)


def test_a_model_that_changed_its_family_is_saved_under_our_names(made: Made, tmp_path: Path) -> None:
    """Also if q, k and v are still views of one matrix in the file."""
    for architecture in ("GPT2LMHeadModel", "Phi3ForCausalLM"):
        model = gf.load(made(architecture))
        model.about = Metadata()
        gf.save(model, tmp_path / "own")
        assert same_parameters(gf.load(tmp_path / "own"), model)


# Dtypes and devices


def test_the_weights_keep_their_dtype(made: Made, tmp_path: Path) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        theirs = build("LlamaForCausalLM").to(dtype)
        theirs.save_pretrained(tmp_path / "theirs")
        for folder in (tmp_path / "theirs", tmp_path / "ours"):
            model = gf.load(folder)
            assert {parameter.dtype for parameter in model.parameters()} == {dtype}
            gf.save(model, tmp_path / "ours")
        assert opened_by_transformers(tmp_path / "ours", "LlamaForCausalLM").dtype == dtype
        reconfigure(tmp_path / "theirs", "dtype", "torch_dtype")
        assert {parameter.dtype for parameter in gf.load(tmp_path / "theirs").parameters()} == {dtype}
        assert gf.load(tmp_path / "theirs", dtype=torch.float32).decoder.norm.weight.dtype == torch.float32


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_the_dtype_of_the_config_goes_before_that_of_the_file(key: str, made: Made) -> None:
    """As in transformers."""
    folder = made("LlamaForCausalLM")
    reconfigure(folder, "dtype", "torch_dtype", **{key: "float16"})
    assert {parameter.dtype for parameter in gf.load(folder).parameters()} == {torch.float16}
    assert opened_by_transformers(folder, "LlamaForCausalLM").dtype == torch.float16


def test_mixed_dtypes_become_the_one_that_holds_all(made: Made) -> None:
    folder = made("LlamaForCausalLM")
    tensors = weights_of(folder)
    mixed = {name: tensor if "norm" in name else tensor.bfloat16() for name, tensor in tensors.items()}
    store(folder, mixed)
    reconfigure(folder, "dtype")
    model = gf.load(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.decoder.norm.weight, tensors["model.norm.weight"])
    assert logits(model).isfinite().all()
    reconfigure(folder, dtype="bfloat16")
    assert {parameter.dtype for parameter in gf.load(folder).parameters()} == {torch.bfloat16}


def test_devices(made: Made) -> None:
    folder = made("LlamaForCausalLM")
    assert same_parameters(gf.load(folder, device="cpu"), gf.load(folder, device=torch.device("cpu")))
    assert all(parameter.is_meta for parameter in gf.load(folder, device="meta").parameters())
    assert gf.load(folder, device="meta", dtype=torch.bfloat16).head.out.weight.dtype == torch.bfloat16
    with pytest.raises(InputError, match="--device toaster cannot be used on this machine"):
        gf.load(folder, device="toaster")
    with pytest.raises(InputError, match=r"dtype is torch\.int8: expected one of float32"):
        gf.load(folder, dtype=torch.int8)
