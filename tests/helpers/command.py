"""The command line called in this process, and Python in processes of their own, which no test waits for for ever; and
calls that must be refused in little time and memory."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from glassformer.cli import main
from glassformer.errors import LONGEST, InputError

PATIENCE = 240  # seconds; a test may take longer than that, see pyproject.toml, so that it can say what was printed


def run(*arguments: object) -> int:
    """The exit code of `glassformer ARGUMENTS`."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What `glassformer ARGUMENTS` prints, which must go well."""
    assert run(*arguments) == 0
    return capsys.readouterr().out


def lines(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What was printed with `--json`, line by line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@contextmanager
def started(*arguments: str | Path, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """`python ARGUMENTS`, ended with all that it has started itself when the test is done with it."""
    options = {"stdout": PIPE, "stderr": PIPE, "text": True, **options}
    with subprocess.Popen([sys.executable, *map(str, arguments)], start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def python(*arguments: str | Path, given: Any = None, patience: float = PATIENCE, **options: Any) -> Any:
    """What `python ARGUMENTS` prints; where it fails, the test does too."""
    with started(*arguments, stdin=PIPE, **options) as process:
        printed, errors = process.communicate(given, timeout=patience)
    assert process.returncode == 0, f"{printed[-3000:]}{errors[-3000:]}"
    return printed


SECONDS, MEMORY = 10, 3 << 29  # generous: a busy machine is slow, and libraries reserve address space


@contextmanager
def bounded(seconds: float = SECONDS, size: int = MEMORY) -> Iterator[None]:
    """What runs inside may take so many seconds, and so many bytes of address space more than there are now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size, before[1]))
    start = time.monotonic()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert time.monotonic() - start < seconds


def refused(call: Callable[[], Any], *, seconds: float = SECONDS) -> str:
    """The sentence by which a call refuses its input: in time, without memory, and short."""
    with bounded(seconds), pytest.raises(InputError) as caught:
        call()
    said = str(caught.value)
    assert 0 < len(said) <= LONGEST
    assert "Traceback" not in said
    return said
