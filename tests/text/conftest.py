"""Folders of tokenizers to load."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.vocabularies import BUILD, write_json


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`make("T5Tokenizer", extra_ids=5)`: a folder with its vocabulary and these settings."""
    made: dict[str, Path] = {}

    def build(family: str, config: dict[str, Any] | None = None, **settings: Any) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            BUILD[family](made[family])
        folder = tmp_path_factory.mktemp(f"{family}-settings")
        for file in made[family].iterdir():
            (folder / file.name).symlink_to(file)
        write_json(folder, "tokenizer_config.json", {"tokenizer_class": family, **settings})
        if config is not None:
            write_json(folder, "config.json", config)
        return folder

    return build
