"""The command line, called in this process."""

import json
from typing import Any

import pytest

from glassformer.cli import main


def run(*arguments: object) -> int:
    """The exit code of `glassformer ARGUMENTS`."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def lines(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What was printed with `--json`, line by line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
