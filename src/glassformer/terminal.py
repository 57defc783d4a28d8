"""The console that every verb prints to: what a user gave is shown as it is, and no line is cut in two. And the
standard streams, which may be closed, or lead into a pipe that nobody reads any more."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, Any, cast

from rich.console import Console

AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False, "soft_wrap": True}


class NotebookConsole(Console):
    """The output of a notebook cell, where bars move as on a terminal: rich draws them by ipywidgets."""

    def __init__(self, **options: Any) -> None:
        super().__init__(force_jupyter=True, force_terminal=True, force_interactive=False, **options)

    def show_cursor(self, show: bool = True) -> bool:
        return False  # there is none


class Enduring:
    """Standard output or error for work that goes on when nobody reads it any more: a closed pipe or a full disk loses
    lines, and nothing else."""

    def __init__(self, name: str) -> None:
        self.name, self.is_lost = name, False

    @property
    def stream(self) -> Any:
        found = getattr(sys, self.name)
        return getattr(found, "rich_proxied_file", found)  # a live bar puts itself before the stream

    def write(self, text: str) -> int:
        try:
            if not self.is_lost and self.stream is not None:
                self.stream.write(text)
        except UnicodeEncodeError as error:
            self.stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        except (OSError, ValueError):
            self.lose()
        return len(text)

    def flush(self) -> None:
        try:
            if not self.is_lost and self.stream is not None:
                self.stream.flush()
        except (OSError, ValueError):
            self.lose()

    def lose(self) -> None:
        self.is_lost = True
        silence(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def silence(stream: IO[str] | None) -> None:
    """Lets a stream that cannot be written to lead nowhere, so that what is left in it is no error at the end."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        place = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, place)
        os.close(nowhere)


def open_streams() -> None:
    """Gives a process whose standard streams were closed (`<&-`, `>&-`, `2>&-`) ones that lead nowhere. Otherwise the
    next file it opens would take their place, and get what a library prints."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def make_console(*, stderr: bool = False, enduring: bool = False) -> Console:
    """For a terminal, a file, or a notebook; one without ipywidgets gets plain lines, as a file does.

    An `enduring` one does not mind that nobody reads it, and neither does one for standard error.
    """
    options: dict[str, Any] = {**AS_IT_IS, "stderr": stderr}
    console = Console(**options)
    if console.is_jupyter and find_spec("ipywidgets") is not None:
        return NotebookConsole(**options)
    if not console.is_jupyter and (enduring or stderr):
        return Console(**options, file=cast(IO[str], Enduring("stderr" if stderr else "stdout")))
    return console
