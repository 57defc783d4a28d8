"""Runs the command line in this process and Python in subprocesses with a timeout, and checks that bad calls are
refused in little time and memory."""

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
from glassformer.errors import MAX_MESSAGE, InputError

PATIENCE = 240  # seconds; less than a test's limit in pyproject.toml, so that a failing test can show the output


def run(*arguments: object) -> int:
    """The exit code of `glassformer ARGUMENTS`."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The output of `glassformer ARGUMENTS`, which must succeed."""
    assert run(*arguments) == 0
    return capsys.readouterr().out


def lines(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """The output of `--json`, line by line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@contextmanager
def started(*arguments: str | Path, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Starts `python ARGUMENTS`; afterwards, ends it and all its child processes."""
    options = {"stdout": PIPE, "stderr": PIPE, "text": True, **options}
    with subprocess.Popen([sys.executable, *map(str, arguments)], start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def python(*arguments: str | Path, given: Any = None, patience: float = PATIENCE, **options: Any) -> Any:
    """The output of `python ARGUMENTS`; the test fails if it fails."""
    with started(*arguments, stdin=PIPE, **options) as process:
        printed, errors = process.communicate(given, timeout=patience)
    assert process.returncode == 0, f"{printed[-3000:]}{errors[-3000:]}"
    return printed


SECONDS, MEMORY = 10, 3 << 29  # generous: a busy machine is slow, and libraries reserve address space


@contextmanager
def bounded(seconds: float = SECONDS, size: int = MEMORY) -> Iterator[None]:
    """Limits what runs inside to `seconds`, and to `size` more bytes of address space."""
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
    """The error message with which a call refuses its input: in time, without much memory, and short."""
    with bounded(seconds), pytest.raises(InputError) as caught:
        call()
    said = str(caught.value)
    assert 0 < len(said) <= MAX_MESSAGE
    assert "Traceback" not in said
    return said
