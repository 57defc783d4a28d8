"""The config of a model without reading its weights."""

import shutil
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers

import glassformer as gf
from glassformer.checkpoints.config import config_and_dtype
from glassformer.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=36, dtype="bfloat16",
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    return path


def config_of(path: str | Path) -> gf.TransformerConfig:
    return config_and_dtype(path)[0]


def test_a_folder_without_weights_says_the_same_as_with_them(folder: Path, tmp_path: Path) -> None:
    expected = gf.load(folder).config
    assert config_and_dtype(folder) == (expected, torch.bfloat16)
    for name in ("config.json", "generation_config.json"):
        shutil.copy(folder / name, tmp_path)
    assert config_and_dtype(tmp_path) == (expected, torch.bfloat16)
    assert config_of(tmp_path / "config.json") == config_of(str(tmp_path / "config.json")) == expected


def test_the_weights_are_asked_where_the_config_does_not_say(folder: Path, tmp_path: Path) -> None:
    """If the config says tied embeddings and the file has a separate head, the file wins."""
    model = gf.load(folder, dtype="float32")
    assert not model.config.tie_embeddings
    gf.save(model, tmp_path / "untied")
    config = tmp_path / "untied" / "config.json"
    config.write_text(config.read_text().replace('"tie_word_embeddings": false', '"tie_word_embeddings": true'))
    assert not config_of(tmp_path / "untied").tie_embeddings
    assert config_of(config).tie_embeddings


def test_a_name_of_ours_is_a_config() -> None:
    assert config_of("base") == gf.TransformerConfig.named("base")
    assert config_of("palm-540b").decoder.num_layers == 118


def test_from_the_hub_only_the_small_files_are_fetched(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def download(name: str, *, allow_patterns: list[str], **other: object) -> str:
        asked.extend(allow_patterns)
        shutil.copy(folder / "config.json", tmp_path)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda *_, **__: ["model.safetensors"])
    assert config_of("owner/model").decoder == gf.load(folder).config.decoder
    assert "*.json" in asked
    assert not [pattern for pattern in asked if "safetensors" in pattern or ".bin" in pattern]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "nothing", "there is no such folder"),
        (lambda path: path, "has no config.json"),
        (lambda path: written(path / "config.json", "[1]"), "expected the config of a model"),
        (lambda path: written(path / "config.json", '{"model_type": "lama"}'), "did you mean 'llama'"),
        (lambda path: written(path / "config.json", "{"), "is not JSON"),
    ],
)
def test_what_is_no_config_is_named(make: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        config_of(make(tmp_path))


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file
