"""The console that every verb prints to, without markup or line wrapping. Also handles standard streams that are closed
or whose reader is gone."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, Any, cast

from rich.console import Console

AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False, "soft_wrap": True}


class NotebookConsole(Console):
    """The output of a notebook cell, in which rich draws live progress bars with ipywidgets."""

    def __init__(self, **options: Any) -> None:
        super().__init__(force_jupyter=True, force_terminal=True, force_interactive=False, **options)

    def show_cursor(self, show: bool = True) -> bool:
        return False  # there is none


class LossyStream:
    """Standard output or error for work that continues when nobody reads it: a closed pipe or a full disk only loses
    lines."""

    def __init__(self, name: str) -> None:
        self.name, self.is_lost = name, False

    @property
    def stream(self) -> Any:
        found = getattr(sys, self.name)
        return getattr(found, "rich_proxied_file", found)  # rich replaces the stream while a live bar is shown

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
    """Redirects a stream that cannot be written to /dev/null, so that flushing it at exit is not an error."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        place = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, place)
        os.close(nowhere)


def open_streams() -> None:
    """Opens standard streams that were closed (`<&-`, `>&-`, `2>&-`) on /dev/null. Otherwise the next opened file
    would get their number, and receive what a library prints."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def make_console(*, stderr: bool = False, enduring: bool = False) -> Console:
    """A console for a terminal, a file or a notebook. A notebook without ipywidgets gets plain lines, as a file does.

    An `enduring` console keeps working when its reader is gone; one for standard error always does.
    """
    options: dict[str, Any] = {**AS_IT_IS, "stderr": stderr}
    console = Console(**options)
    if console.is_jupyter and find_spec("ipywidgets") is not None:
        return NotebookConsole(**options)
    if not console.is_jupyter and (enduring or stderr):
        return Console(**options, file=cast(IO[str], LossyStream("stderr" if stderr else "stdout")))
    return console
