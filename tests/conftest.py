"""What tests of several rooms share; more of it is in `helpers/`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Tiny tensors: a second thread would only wait for the first, and the core belongs to another worker of xdist. Set
# before anything imports torch, and handed on to the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

pytest_plugins = ["helpers.explorer"]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run of a whole demo, and what it printed. It trains for minutes: only slow tests ask for it."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    answer = subprocess.run(
        [sys.executable, "-m", "glassformer", "demo", "--out", str(out)], capture_output=True, text=True, check=True
    )
    return out, answer.stdout
