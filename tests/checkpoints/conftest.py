"""Small transformers checkpoints, each made once; every test gets its own copy, which it may change."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from helpers.small_checkpoints import Made, save_small


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def made(architecture: str) -> Path:
        path = tmp_path_factory.mktemp(architecture)
        save_small(architecture, path)
        return path

    return made


@pytest.fixture
def made(original: Callable[[str], Path], tmp_path: Path) -> Made:
    """made("BertForMaskedLM"): a copy of the folder that transformers saved for it."""

    def copied(architecture: str) -> Path:
        return Path(shutil.copytree(original(architecture), tmp_path / architecture, dirs_exist_ok=True))

    return copied
