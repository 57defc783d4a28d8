"""Where the public data sets are, for tests that read real files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared("nsmc/train.tsv.gz")`: a file beside a checkout of the developers, or where GLASSFORMER_SHARED points."""

    def find(name: str) -> Path:
        root = Path(os.environ.get("GLASSFORMER_SHARED") or Path(__file__).parents[2].parent / "shared")
        if not (root / "data" / name).exists():
            pytest.skip(f"{name} is not here: set GLASSFORMER_SHARED to the folder that holds data/")
        return root / "data" / name

    return find
