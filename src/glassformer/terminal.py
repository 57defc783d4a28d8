"""The console that every verb prints to: what a user gave is shown as it is, and no line is cut in two."""

from importlib.util import find_spec
from typing import Any

from rich.console import Console

AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False, "soft_wrap": True}


class NotebookConsole(Console):
    """The output of a notebook cell, where bars move as on a terminal: rich draws them by ipywidgets."""

    def __init__(self, **options: Any) -> None:
        super().__init__(force_jupyter=True, force_terminal=True, force_interactive=False, **options)

    def show_cursor(self, show: bool = True) -> bool:
        return False  # there is none


def make_console(*, stderr: bool = False) -> Console:
    """For a terminal, a file, or a notebook; one without ipywidgets gets plain lines, as a file does."""
    console = Console(**AS_IT_IS, stderr=stderr)
    if console.is_jupyter and find_spec("ipywidgets") is not None:
        return NotebookConsole(**AS_IT_IS, stderr=stderr)
    return console
