"""The command line called in this process, and Python in processes of their own, which no test waits for for ever."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from glassformer.cli import main

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
