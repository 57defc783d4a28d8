"""What tests of several rooms share; more of it is in `helpers/`."""

import os
import signal
from pathlib import Path

import pytest

# Tiny tensors: a second thread would only wait for the first, and the core belongs to another worker of xdist. Set
# before anything imports torch, and handed on to the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

# What the engine compiles is kept from one run of the tests to the next, apart from what the user's own calls keep.
os.environ["GLASSFORMER_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "glassformer")

# A shell starts a job in the background with SIGINT ignored, and what a test starts would inherit that: Ctrl-C, which
# some tests send, would never arrive.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOWEST = 1500  # seconds; the limit of the other tests is in pyproject.toml

pytest_plugins = ["helpers.explorer"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(SLOWEST))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run of a whole demo, and what it printed. It trains for minutes: only slow tests ask for it, and a worker of
    xdist takes the one that another has made."""
    from filelock import FileLock
    from helpers.command import python

    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    out, said = shared / "demo", shared / "demo.txt"
    with FileLock(shared / "demo.lock"):
        if not said.is_file():
            said.write_text(python("-m", "glassformer", "demo", "--out", out, patience=SLOWEST), encoding="utf-8")
    return out, said.read_text(encoding="utf-8")
