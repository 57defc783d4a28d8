"""Malicious model folders: each is refused with one sentence, using little time and memory.

Configs of every family with absurd sizes, weight files with false sizes, indexes that point outside the folder, and
impossible generation settings. Tokenizers and templates: `text/test_hostile_tokenizers.py`.
"""

import io
import json
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from helpers.command import bounded, refused
from helpers.samples import ARCHITECTURES, SAMPLES
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.checkpoints.golden import read_golden
from glassformer.core.model import count
from glassformer.errors import MAX_MESSAGE, InputError

ABSURD = {
    "10^9": 10**9, "10^18": 10**18, "10^400": 10**400, "-1": -1, "0": 0, "1.5": 1.5, "NaN": math.nan, "true": True,
    "a text": "x", "a list": [2, 2], "null": None, "infinite": math.inf, "an object": {}, "1000": 1000,
}  # fmt: skip
QUICK = ("10^9", "10^400", "-1")
Attack = Callable[[Path], object]


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a tiny LLaMA."""
    folder = tmp_path_factory.mktemp("writer")
    stack = gf.StackConfig(
        d_model=8, num_layers=2, num_heads=2, positions="rotary", norm="rms", max_len=64, activation="silu", gated=True,
        qkv_bias=False, out_bias=False, ffn_bias=False,
    )  # fmt: skip
    config = gf.TransformerConfig(decoder=stack, vocab_size=32, eos_token_id=2, bos_token_id=1)
    torch.manual_seed(0)
    gf.save(gf.Transformer(config), folder)
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "llama"
    return folder


@pytest.fixture
def folder(writer: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return copytree(writer, tmp_path / "model")


# Configs


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder of each family, made once."""
    from helpers.reference import save_sample

    made: dict[str, Path] = {}

    def folder(model_type: str) -> Path:
        if model_type not in made:
            kinds = ARCHITECTURES[model_type]
            kind = next(kind for kind in ("language", "forecast", "class", "pool", "none") if kind in kinds)
            sample = next(sample for sample in SAMPLES if sample.model_type == model_type)
            made[model_type] = tmp_path_factory.mktemp(model_type)
            save_sample(sample, kinds[kind], made[model_type])
        return made[model_type]

    return folder


def parameters(folder: Path) -> int | None:
    """The number of parameters of the model in a folder; None if the folder is refused with an InputError."""
    try:
        with bounded():
            return count(gf.load(folder))
    except InputError as error:
        said = str(error)
    assert len(said) <= MAX_MESSAGE
    return None


def check_config(folder: Path, values: list[Any]) -> None:
    """With any of these values in any field, loading is refused or gives a model of the same size."""
    file = folder / "config.json"
    text = file.read_text(encoding="utf-8")
    config, before, refusals = json.loads(text), parameters(folder), 0
    fields = [key for key, value in config.items() if type(value) in (int, float, list, dict)]
    try:
        for key in fields:
            for value in values:
                file.write_text(json.dumps({**config, key: value}), encoding="utf-8")
                found = parameters(folder)
                assert found in (None, before) or value is None, key  # null is the same as a missing key
                refusals += found is None
    finally:
        file.write_text(text, encoding="utf-8")
    parts = [key for key in fields if isinstance(config[key], dict)]  # of a pair: each must be refused
    assert refusals >= min(4, len(parts) or 4) or None in values  # width, layers, heads, vocabulary or patches


@pytest.mark.parametrize("model_type", ["gpt2", "bert", "t5", "m2m_100", "vit", "patchtst"])
def test_absurd_sizes(model_type: str, saved: Callable[[str], Path]) -> None:
    check_config(saved(model_type), [ABSURD[name] for name in QUICK])


@pytest.mark.slow
@pytest.mark.parametrize("value", ABSURD)
@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_absurd_sizes_of_every_family(model_type: str, value: str, saved: Callable[[str], Path]) -> None:
    check_config(saved(model_type), [ABSURD[value]])


@pytest.mark.parametrize(
    "field",
    ["d_model", "num_layers", "num_heads", "num_kv_heads", "head_dim", "d_ff", "max_len", "position_offset",
     "relative_buckets", "num_blocks"],
)  # fmt: skip
def test_our_own_format_with_absurd_sizes(field: str, tmp_path: Path) -> None:
    stack = gf.StackConfig(d_model=8, num_layers=1, num_heads=2, score_cap=5.0)
    config = gf.TransformerConfig(encoder=stack, decoder=stack, vocab_size=32)
    gf.save(gf.Transformer(config), tmp_path)
    text = (tmp_path / "config.json").read_text(encoding="utf-8")
    assert json.loads(text)["model_type"] == "glassformer"
    before = parameters(tmp_path)
    assert before
    for value in ABSURD.values():
        for side in ("encoder", "decoder"):
            changed = json.loads(text)
            changed[side][field] = value
            (tmp_path / "config.json").write_text(json.dumps(changed), encoding="utf-8")
            assert parameters(tmp_path) in (None, before)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 100, b"null", b"[]", b"{", b"\xff\xfe\0", b'{"model_type": ' + b"[" * 10**5 + b"]" * 10**5 + b"}",
        b'{"model_type": "gpt2", "n_embd": ' + b"9" * 10**5 + b"}", b'{"model_type": "' + b"x" * 10**6 + b'"}',
        b'{"model_type": "gpt2", "n_layer": 1e999}', b'{"model_type": {"a": 1}}', b'{"a": 1}' * 1000,
        b'{"model_type": "llama", "architectures": {"x": 1}}', b'{"model_type": "llama", "architectures": [7]}',
        b'{"model_type": "llama", "quantization_config": {"bits": 4}}',
        json.dumps({"model_type": "llama", **{f"key {i}": i for i in range(10**5)}}).encode(),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_config_that_is_none(content: bytes, folder: Path) -> None:
    (folder / "config.json").write_bytes(content)
    refused(lambda: gf.load(folder))


def test_a_config_of_a_hundred_gigabytes(folder: Path) -> None:
    """The file is sparse: it uses no disk space."""
    with (folder / "config.json").open("wb") as stream:
        stream.truncate(10**11)
    assert "has 100,000,000,000 bytes: expected at most 67,108,864" in refused(lambda: gf.load(folder))


# Weight files


def header(entries: Any, data: bytes = b"", *, size: int | None = None) -> bytes:
    """A safetensors file with this header, valid or not."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def tensor(shape: list[Any], offsets: list[Any], dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


FOUR = b"\0" * 16
SAFE: dict[str, bytes] = {
    "empty": b"",
    "seven bytes": b"\0" * 7,
    "a header of 0": header(b""),
    "a header of 2^63": header({}, size=2**63),
    "a header of 10^12": header({}, size=10**12),
    "a header of 90 MB that is not there": header({}, size=90 * 10**6),
    "no object": header([]),
    "no JSON": header(b"{{{{{{{{"),
    "no UTF-8": header(b'{"\xff\xfe": 1}'),
    "a deep header": header(b'{"a":' * 10**5 + b"1" + b"}" * 10**5),
    "negative offsets": header({"a": tensor([2], [-8, 0])}, FOUR),
    "offsets beyond the end": header({"a": tensor([10**6], [0, 4 * 10**6])}, FOUR),
    "offsets of 2^64": header({"a": tensor([2], [2**64, 2**64 + 8])}, FOUR),
    "offsets in reverse": header({"a": tensor([2], [8, 0])}, FOUR),
    "overlapping": header({"a": tensor([4], [0, 16]), "b": tensor([4], [0, 16])}, FOUR),
    "half overlapping": header({"a": tensor([3], [0, 12]), "b": tensor([2], [8, 16])}, FOUR),
    "a hole": header({"a": tensor([1], [0, 4]), "b": tensor([1], [12, 16])}, FOUR),
    "a shape that is larger": header({"a": tensor([10**12], [0, 16])}, FOUR),
    "a shape that overflows": header({"a": tensor([2**40, 2**40], [0, 16])}, FOUR),
    "a shape of nothing and 10^18": header({"a": tensor([0, 10**18], [0, 0])}),
    "a negative shape": header({"a": tensor([-4], [0, 16])}, FOUR),
    "a shape of fractions": header({"a": tensor([1.5], [0, 16])}, FOUR),
    "an unknown dtype": header({"a": tensor([4], [0, 16], "F128")}, FOUR),
    "no dtype": header({"a": tensor([4], [0, 16], None)}, FOUR),
    "more behind": header({"a": tensor([4], [0, 16])}, FOUR + b"more"),
    "metadata of numbers": header({"__metadata__": {"a": 1}, "a": tensor([4], [0, 16])}, FOUR),
    "a name of a megabyte": header({"x" * 10**6: tensor([4], [0, 16])}, FOUR),
    "a name with line breaks": header({"a\nb\x00\x1b[31m": tensor([4], [0, 16])}, FOUR),
    "no tensors": header({}),
}


@pytest.mark.parametrize("content", SAFE.values(), ids=SAFE)
def test_a_safetensors_file_that_lies(content: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(content)
    refused(lambda: gf.load(folder))


def test_twenty_thousand_tensors(folder: Path) -> None:
    entries = {f"h.{i}.x": tensor([0], [0, 0]) for i in range(20_000)}
    (folder / "model.safetensors").write_bytes(header(entries))
    refused(lambda: gf.load(folder))


def test_weights_that_are_no_real_numbers(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    for dtype in (torch.bool, torch.int8, torch.int64, torch.float8_e4m3fn):
        save_file({name: value.to(dtype) for name, value in tensors.items()}, folder / "model.safetensors")
        refused(lambda: gf.load(folder))


def archive(path: Path, entries: dict[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as packed:
        for name, content in entries.items():
            packed.writestr(name, content)


def claims(path: Path, name: str, size: int) -> None:
    """Changes the size of an entry in the directory of an archive."""
    content = bytearray(path.read_bytes())
    place = content.find(b"PK\x01\x02")
    while content[place + 46 : place + 46 + len(name)] != name.encode():
        place = content.find(b"PK\x01\x02", place + 4)
    content[place + 20 : place + 28] = struct.pack("<II", size, size)
    path.write_bytes(content)


class Reduced:
    """When unpickled, calls a function that torch considers safe."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.function, self.args = function, args

    def __reduce__(self) -> Any:
        return self.function, self.args


def old(folder: Path) -> Path:
    (folder / "model.safetensors").unlink()
    return folder / "pytorch_model.bin"


def a_compressed_archive(folder: Path) -> None:
    file = old(folder)
    archive(file, {"x/data.pkl": b"\0" * 10**8, "x/version": b"3"}, compression=zipfile.ZIP_DEFLATED)


def an_archive_that_claims_gigabytes(folder: Path) -> None:
    file = old(folder)
    archive(file, {"x/data.pkl": pickle.dumps({}, 2), "x/data/0": b"\0" * 64, "x/version": b"3"})
    claims(file, "x/data/0", 4 * 10**9)


def an_archive_without_a_pickle(folder: Path) -> None:
    archive(old(folder), {"x/version": b"3"})


def an_archive_of_ten_thousand_entries(folder: Path) -> None:
    archive(old(folder), {f"x/data/{i}": b"" for i in range(10**4)})


def a_pickle_of_too_many_instructions(folder: Path) -> None:
    old(folder).write_bytes(b"\x80\x02" + b"}0" * (1 << 20) + b"}.")


def a_bytearray_of_gigabytes(folder: Path) -> None:
    torch.save({"a": Reduced(bytearray, 10**10)}, old(folder))


def a_tensor_of_terabytes(folder: Path) -> None:
    torch.save({"a": Reduced(torch.Tensor, 10**6, 10**6)}, old(folder))


def a_tensor_of_gigabytes(folder: Path) -> None:
    torch.save({"a": Reduced(torch.Tensor, 10**4, 10**4)}, old(folder))


def one_value_as_many(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    torch.save({name: value.flatten()[:1].clone().expand(value.shape) for name, value in tensors.items()}, old(folder))


def a_wide_view(folder: Path) -> None:
    torch.save({"a": torch.zeros(1).expand(10**6, 10**6)}, old(folder))


def a_sparse_tensor(folder: Path) -> None:
    torch.save({"a": torch.sparse_coo_tensor([[0], [0]], [1.0], (10**6, 10**6), check_invariants=True)}, old(folder))


def a_tensor_without_values(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    torch.save({name: value.to("meta") for name, value in tensors.items()}, old(folder))


def an_old_file_of_terabytes(folder: Path) -> None:
    file, buffer = old(folder), io.BytesIO()
    torch.save({"a": torch.zeros(77)}, buffer, _use_new_zipfile_serialization=False)
    file.write_bytes(buffer.getvalue().replace(b"K\x4d", b"\x8a\x06" + (10**12).to_bytes(6, "little")))


def a_text_of_gigabytes(folder: Path) -> None:
    old(folder).write_bytes(b"\x80\x02X\xff\xff\xff\xff" + b"a" * 100)


def a_text_of_exabytes(folder: Path) -> None:
    old(folder).write_bytes(b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"a" * 100)


def a_number_of_megabytes(folder: Path) -> None:
    old(folder).write_bytes(b"\x80\x02\x8b" + struct.pack("<i", 2**21) + b"\x7f" * 2**21 + b".")


def a_pickle_of_lists_in_lists(folder: Path) -> None:
    old(folder).write_bytes(b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".")


def names_that_are_numbers(folder: Path) -> None:
    torch.save({1: torch.zeros(2)}, old(folder))


OLD = [
    a_compressed_archive, an_archive_that_claims_gigabytes, an_archive_without_a_pickle,
    an_archive_of_ten_thousand_entries, a_pickle_of_too_many_instructions, a_bytearray_of_gigabytes,
    a_tensor_of_terabytes, a_tensor_of_gigabytes, one_value_as_many, a_wide_view, a_sparse_tensor,
    a_tensor_without_values, an_old_file_of_terabytes, a_text_of_gigabytes, a_text_of_exabytes, a_number_of_megabytes,
    a_pickle_of_lists_in_lists, names_that_are_numbers,
]  # fmt: skip


@pytest.mark.parametrize("attack", OLD, ids=[attack.__name__ for attack in OLD])
def test_an_old_file_that_lies(attack: Attack, folder: Path) -> None:
    attack(folder)
    assert "pytorch_model.bin" in refused(lambda: gf.load(folder))


# Folders, links and pipes instead of files


def a_folder(file: Path) -> None:
    file.mkdir()


def a_pipe(file: Path) -> None:
    os.mkfifo(file)


def a_loop(file: Path) -> None:
    file.symlink_to(file.name)


def zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("instead", [a_folder, a_pipe, a_loop, zeros], ids=lambda function: function.__name__)
def test_something_else_in_the_place_of_a_file(name: str, instead: Attack, folder: Path) -> None:
    (folder / name).unlink()
    instead(folder / name)
    refused(lambda: gf.load(folder))


# Indexes

MAP = "model.safetensors.index.json"
INDEXES: dict[str, Any] = {
    "no map": {"metadata": {}},
    "null": {"weight_map": None},
    "a list": {"weight_map": ["a"]},
    "empty": {"weight_map": {}},
    "numbers": {"weight_map": {"a": 1}},
    "a way out": {"weight_map": {"a": "../model.safetensors"}},
    "the root": {"weight_map": {"a": "/etc/passwd"}},
    "itself": {"weight_map": {"a": MAP}},
    "a file that is not there": {"weight_map": {f"tensor {i}": "lost.safetensors" for i in range(10**5)}},
    "a folder": {"weight_map": {"a": "."}},
    "an empty name": {"weight_map": {"a": ""}},
    "a name with a zero": {"weight_map": {"a": "x\0y"}},
    "a name of a megabyte": {"weight_map": {"a": "x" * 10**6}},
    "a text": "weight_map",
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_an_index_that_leads_elsewhere(index: Any, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / MAP).write_text(json.dumps(index), encoding="utf-8")
    refused(lambda: gf.load(folder))


def test_an_index_that_is_nested(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / MAP).write_text('{"weight_map":' * 10**5 + "1" + "}" * 10**5, encoding="utf-8")
    assert "is not an index of shards" in refused(lambda: gf.load(folder))


# Generation settings

GENERATION: list[tuple[str, Any]] = [
    *(("num_beams", value) for value in (10**6, 10**9, 10**18, 10**400, -1, 0, 2.5, "four", [4], True)),
    *(("num_return_sequences", value) for value in (10**9, 10**30, 0, -3, "x")),
    *(("max_length", value) for value in (10**9, 10**18, -1, 1.5, "long", [])),
    *(("max_new_tokens", value) for value in (2**31 - 1, 10**18, 0)),
    *(("top_k", value) for value in (10**30, -1, 0.5)),
    *(("temperature", value) for value in (math.nan, math.inf, -1.0, 10**400, "hot")),
    *(("top_p", value) for value in (math.nan, 2.0, -0.1, "x")),
    *(("length_penalty", value) for value in (math.nan, 10**400, "x")),
    *(("repetition_penalty", value) for value in (0, -1.0, math.nan, 10**400)),
    *(("bad_words_ids", value) for value in ([[]], [[10**18]], "x", [["a"]])),
    *(("suppress_tokens", value) for value in ([10**18], "x", [-5])),
    *(("no_repeat_ngram_size", value) for value in (-1, 10**18, "x")),
    *(("forced_bos_token_id", value) for value in (10**18, -1, "x")),
    *(("stop_strings", value) for value in ([""], 7, [7])),
    *(("do_sample", value) for value in ("yes", 1)),
]


@pytest.mark.parametrize(("key", "value"), GENERATION, ids=lambda part: str(part)[:24])
def test_settings_of_generation_that_no_machine_can_follow(key: str, value: Any, folder: Path) -> None:
    settings = {"num_beams": 1, "do_sample": key in ("num_return_sequences", "top_k", "temperature", "top_p")}
    (folder / "generation_config.json").write_text(json.dumps({**settings, key: value}), encoding="utf-8")
    said = refused(lambda: gf.generate(gf.load(folder), torch.tensor([[1, 5, 7]])))
    assert key in said or (key == "max_new_tokens" and "max_length" in said)


def test_more_texts_than_the_machine_holds_are_refused_by_its_memory(folder: Path) -> None:
    model = gf.load(folder)
    said = refused(lambda: gf.generate(model, torch.tensor([[1, 5, 7]]), do_sample=True, num_return_sequences=10**9))
    assert "num_return_sequences is 1,000,000,000: this needs" in said
    assert "GB for 1 input, and this machine has" in said
    said = refused(lambda: gf.generate(model, torch.tensor([[1, 5, 7]]), max_new_tokens=2 * 10**9))
    assert "Set max_new_tokens (--max-new-tokens)" in said


# Other files beside the model

GOLDEN: list[Any] = [
    [], {}, {"inputs": {}}, {"inputs": {"a": {"wave": [10**6, 10**6]}}, "outputs": {}},
    {"inputs": {"a": {"wave": [-1]}}, "outputs": {}}, {"inputs": {"a": {"wave": "x"}}, "outputs": {}},
    {"inputs": {"a": [[1], [1, 2]]}, "outputs": {}}, {"inputs": [], "outputs": []},
    {"inputs": {}, "outputs": {"logits": {"shape": 1, "scale": "x", "values": []}}},
]  # fmt: skip


@pytest.mark.parametrize("content", GOLDEN, ids=range(len(GOLDEN)))
def test_golden_values_that_are_none(content: Any, tmp_path: Path) -> None:
    (tmp_path / "golden.json").write_text(json.dumps(content), encoding="utf-8")
    assert "does not contain golden values" in refused(lambda: read_golden(tmp_path / "golden.json"))


def test_golden_values_that_are_nested(tmp_path: Path) -> None:
    (tmp_path / "golden.json").write_text("[" * 10**5 + "]" * 10**5, encoding="utf-8")
    assert "nested too deeply" in refused(lambda: read_golden(tmp_path / "golden.json"))
