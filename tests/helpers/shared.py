"""Real public data and checkpoints, next to a developer's checkout or in GLASSFORMER_SHARED."""

import os
from pathlib import Path

import pytest


def shared(name: str) -> Path:
    """A file or folder below `data/`, such as "ett/ETTh1.csv"; skips the test if it does not exist."""
    root = Path(os.environ.get("GLASSFORMER_SHARED") or Path(__file__).parents[3] / "shared")
    path = root / "data" / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set GLASSFORMER_SHARED to the folder that holds data/")
    return path
