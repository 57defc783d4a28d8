"""The one exception for bad input: it names the value, what was expected, and the next step."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """What the user gave cannot be used. The command line prints it without a traceback and exits with 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'd_model'?`, or the known names when none is near."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
