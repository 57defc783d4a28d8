"""The command line, called in this process."""

from pathlib import Path

from glassformer.cli import main


def run(*arguments: str | Path) -> int:
    """The exit code of `glassformer ARGUMENTS`."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0
