"""Real public data and checkpoints, beside a checkout of the developers or where GLASSFORMER_SHARED points."""

import os
from pathlib import Path

import pytest


def shared(name: str) -> Path:
    """A file or folder below `data/`, such as "ett/ETTh1.csv"; a test that asks for one that is absent is skipped."""
    root = Path(os.environ.get("GLASSFORMER_SHARED") or Path(__file__).parents[3] / "shared")
    path = root / "data" / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set GLASSFORMER_SHARED to the folder that holds data/")
    return path
