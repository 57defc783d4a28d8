"""Old pickles of every format load, those that would run code are refused; truncated files."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_checkpoints import Made, same_parameters, weights_of

import glassformer as gf
from glassformer.errors import InputError

FORMATS = {"zip": {}, "before 1.6": {"_use_new_zipfile_serialization": False}}


def as_pickle(folder: Path, how: dict[str, Any], **more: Any) -> None:
    torch.save({**weights_of(folder), **more}, folder / "pytorch_model.bin", **how)
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "GPT2LMHeadModel"])
def test_old_files(architecture: str, how: dict[str, Any], made: Made) -> None:
    folder = made(architecture)
    expected = gf.load(folder)
    as_pickle(folder, how)
    assert same_parameters(gf.load(folder), expected)


@pytest.mark.parametrize("how", FORMATS.values(), ids=FORMATS)
def test_old_files_in_shards(how: dict[str, Any], made: Made) -> None:
    folder = made("LlamaForCausalLM")
    expected, tensors = gf.load(folder), weights_of(folder)
    where = {name: f"pytorch_model-0000{i % 2 + 1}-of-00002.bin" for i, name in enumerate(tensors)}
    for shard in set(where.values()):
        torch.save({name: tensors[name] for name in tensors if where[name] == shard}, folder / shard, **how)
    index = {"metadata": {"total_size": 0}, "weight_map": where}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    assert same_parameters(gf.load(folder), expected)
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(InputError, match=r"names pytorch_model-00002-of-00002\.bin, which holds .*, but"):
        gf.load(folder)


class Payload:
    """Writes a file when unpickled, as a malicious pickle could."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


class Shell:
    """Runs a command when unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_bare_pickle_of_any_protocol_is_told_by_what_it_wants(protocol: int, made: Made, tmp_path: Path) -> None:
    folder = made("BertForMaskedLM")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Shell(f"touch {tmp_path / 'ran'}"), protocol=protocol))
    with pytest.raises(InputError, match=r"needs more than tensors: (posix|nt)\.system\. .*it is refused"):
        gf.load(folder)
    torch.save({"x": Shell("true")}, folder / "pytorch_model.bin", pickle_protocol=protocol)
    with pytest.raises(InputError, match=r"needs more than tensors: (posix|nt)\.system\. "):
        gf.load(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("how", [*FORMATS.values(), None], ids=[*FORMATS, "a bare pickle"])
def test_a_pickle_that_wants_to_run_code_does_not(how: dict[str, Any] | None, made: Made, tmp_path: Path) -> None:
    folder, proof = made("BertForMaskedLM"), tmp_path / "it ran"
    if how is None:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(proof), protocol=2))
        (folder / "model.safetensors").unlink()
    else:
        as_pickle(folder, how, extra=Payload(proof))
    with pytest.raises(InputError, match=r"is a pickle that needs more than tensors: \S+\. .*it is refused") as error:
        gf.load(folder)
    assert "\n" not in str(error.value)
    assert not proof.exists()
    pickle.loads(pickle.dumps(Payload(proof)))
    assert proof.exists(), "the payload would not have done anything"


@pytest.mark.parametrize("content", [{"model": {"a": torch.ones(2)}}, [torch.ones(2)], {"step": 3}], ids=str)
def test_a_pickle_of_something_else(content: Any, made: Made) -> None:
    folder = made("BertForMaskedLM")
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="contains more than named tensors"):
        gf.load(folder)


@pytest.mark.parametrize("left", [0, 1, 7, 8, 9, 100, 0.3, 0.9, -1])
@pytest.mark.parametrize("kind", ["safetensors", *FORMATS])
def test_a_file_that_ends_too_early(kind: str, left: float, made: Made) -> None:
    folder = made("BertForMaskedLM")
    if kind in FORMATS:
        as_pickle(folder, FORMATS[kind])
    file = folder / ("pytorch_model.bin" if kind in FORMATS else "model.safetensors")
    whole = file.read_bytes()
    size = len(whole) + left if left < 0 else int(left * len(whole)) if 0 < left < 1 else left
    file.write_bytes(whole[: int(size)])
    with pytest.raises(
        InputError, match=rf"{file.name} \(.+ bytes\) cannot be read: .+\. It may be incomplete"
    ) as error:
        gf.load(folder)
    assert "\n" not in str(error.value)
    assert f"({int(size):,} bytes) cannot be read" in str(error.value)


def test_a_pointer_of_git_lfs_is_no_file_of_tensors(made: Made) -> None:
    folder = made("BertForMaskedLM")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    for name in ("model.safetensors", "pytorch_model.bin"):
        (folder / "model.safetensors").unlink(missing_ok=True)
        (folder / name).write_text(pointer)
        with pytest.raises(InputError, match=rf"{name} .*cannot be read: .*It may be incomplete"):
            gf.load(folder)


def test_a_file_with_a_broken_header(made: Made) -> None:
    folder = made("BertForMaskedLM")
    whole = (folder / "model.safetensors").read_bytes()
    for broken in (b"\xff" * 8 + whole[8:], whole[:8] + b"{" * 40 + whole[48:], whole + b"more"):
        (folder / "model.safetensors").write_bytes(broken)
        with pytest.raises(InputError, match=r"cannot be read: .*It may be incomplete"):
            gf.load(folder)
