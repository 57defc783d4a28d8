"""Fixtures shared by tests of several folders; see also `helpers/`."""

import os
import signal
from pathlib import Path

import pytest

# Tensors are tiny: a second thread would only wait for the first and take a core from another xdist worker. Set before
# anything imports torch, and inherited by the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

# The engine's compiled code is cached between test runs, apart from the user's own cache.
os.environ["GLASSFORMER_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "glassformer")

# A shell starts background jobs with SIGINT ignored, and processes started by tests would inherit that: the Ctrl-C that
# some tests send would never arrive.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOWEST = 1500  # seconds; the limit of the other tests is in pyproject.toml

pytest_plugins = ["helpers.explorer"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(SLOWEST))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run of a whole demo, and its output. It trains for minutes, so only slow tests use it, and xdist workers
    share it."""
    from filelock import FileLock
    from helpers.command import python

    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    out, said = shared / "demo", shared / "demo.txt"
    with FileLock(shared / "demo.lock"):
        if not said.is_file():
            said.write_text(python("-m", "glassformer", "demo", "--out", out, patience=SLOWEST), encoding="utf-8")
    return out, said.read_text(encoding="utf-8")
