"""Sharded weights: we read transformers' shards and transformers reads ours; a wrong index is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_checkpoints import Made, logits, opened_by_transformers, same_parameters, weights_of
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.errors import InputError

INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "GPT2LMHeadModel", "Phi3ForCausalLM"])
def test_shards_in_both_directions(architecture: str, made: Made, tmp_path: Path) -> None:
    whole = gf.load(made(architecture))
    gf.save(whole, tmp_path / "ours", max_shard_size=8_000)
    shards = sorted(path.name for path in (tmp_path / "ours").glob("*.safetensors"))
    assert len(shards) > 2
    assert shards[0] == f"model-00001-of-{len(shards):05}.safetensors"
    assert all((tmp_path / "ours" / shard).stat().st_size < 12_000 for shard in shards)
    theirs = opened_by_transformers(tmp_path / "ours", architecture)
    assert torch.allclose(logits(theirs), logits(whole), atol=1e-5)
    assert same_parameters(gf.load(tmp_path / "ours"), whole)

    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="8KB")
    assert (tmp_path / "theirs" / INDEX).is_file()
    assert same_parameters(gf.load(tmp_path / "theirs"), whole)


def test_a_tensor_larger_than_a_shard_has_one_to_itself(made: Made, tmp_path: Path) -> None:
    whole = gf.load(made("BertForMaskedLM"))
    gf.save(whole, tmp_path / "ours", max_shard_size=1)
    assert all(len(load_file(path)) == 1 for path in (tmp_path / "ours").glob("*.safetensors"))
    assert same_parameters(gf.load(tmp_path / "ours"), whole)


def test_a_save_takes_the_old_weights_away_whatever_they_were_in(made: Made, tmp_path: Path) -> None:
    model, folder = gf.load(made("BertForMaskedLM")), tmp_path / "ours"
    gf.save(model, folder, max_shard_size=1)
    (folder / "pytorch_model.bin").write_bytes(b"of another time")
    (folder / "model-of-thought.txt").write_text("mine", encoding="utf-8")
    gf.save(model, folder, max_shard_size=8_000)
    named = set(json.loads((folder / INDEX).read_text())["weight_map"].values())
    assert {path.name for path in folder.iterdir() if path.suffix in (".safetensors", ".bin")} == named
    gf.save(model, folder)
    assert not (folder / INDEX).exists()
    assert [path.name for path in folder.glob("*.safetensors")] == ["model.safetensors"]
    assert (folder / "model-of-thought.txt").is_file()


@pytest.fixture
def sharded(made: Made, tmp_path: Path) -> Path:
    gf.save(gf.load(made("LlamaForCausalLM")), tmp_path / "sharded", max_shard_size=8_000)
    return tmp_path / "sharded"


def test_a_shard_that_is_not_there_is_named(sharded: Path) -> None:
    next(sharded.glob("model-00002-*")).unlink()
    with pytest.raises(
        InputError, match=r"index\.json names model-00002-of-.*, which holds model\..*, but the file does not exist"
    ):
        gf.load(sharded)


def test_a_truncated_shard_is_named(sharded: Path) -> None:
    shard = next(sharded.glob("model-00002-*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"model-00002-of-.* .*cannot be read: .*It may be incomplete"):
        gf.load(sharded)


def test_an_index_that_names_the_wrong_shard(sharded: Path) -> None:
    index = json.loads((sharded / INDEX).read_text())
    name, shard = next(iter(index["weight_map"].items()))
    other = next(value for value in index["weight_map"].values() if value != shard)
    index["weight_map"][name] = other
    (sharded / INDEX).write_text(json.dumps(index))
    with pytest.raises(InputError, match=f"says that {other} holds {name}, but it does not"):
        gf.load(sharded)


def test_a_tensor_that_the_index_forgets_counts_all_the_same(sharded: Path) -> None:
    whole = gf.load(sharded)
    index = json.loads((sharded / INDEX).read_text())
    del index["weight_map"]["model.norm.weight"]
    (sharded / INDEX).write_text(json.dumps(index))
    assert same_parameters(gf.load(sharded), whole)
    shard = next(sharded.glob("model-00001-*"))
    save_file({**load_file(shard), "model.stowaway": torch.zeros(3)}, shard)
    with pytest.raises(InputError, match=r"unexpected  model\.stowaway \(3,\)"):
        gf.load(sharded)


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "3", "{}", '{"weight_map": null}', '{"weight_map": {}}', '{"weight_map": ["a"]}',
        '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "../elsewhere/model.safetensors"}}', "\xff",
    ],
)  # fmt: skip
def test_an_index_that_is_none(sharded: Path, content: Any) -> None:
    (sharded / INDEX).write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"is not an index of shards: expected JSON with a weight_map.*beside it"):
        gf.load(sharded)


def test_one_file_goes_before_an_index(sharded: Path, made: Made) -> None:
    """As in transformers: a folder with both is read from the one file."""
    other = weights_of(made("LlamaForCausalLM"))
    other["model.norm.weight"] = other["model.norm.weight"] + 1
    save_file(other, sharded / "model.safetensors")
    assert torch.equal(gf.load(sharded).decoder.norm.weight, other["model.norm.weight"])
