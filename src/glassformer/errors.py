"""The exception for bad input, which names the value, what was expected, and the next step; and the one for a stop."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """What the user gave cannot be used. The command line prints it without a traceback and exits with 2."""


class Stopped(Exception):  # noqa: N818 - no error: the run is saved
    """A signal ended a training, which is saved; the message says how to go on."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


def nearest(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'd_model'?`, or the known names when none is near."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
