"""The console that every verb prints to: what a user gave is shown as it is, and no line is cut in two."""

from rich.console import Console


def make_console(*, stderr: bool = False) -> Console:
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True, stderr=stderr)
