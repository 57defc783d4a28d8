"""The exception for bad input, which names the value, what was expected, and the next step; and the one for a stop."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

LONGEST = 2000  # characters of a message
MOST_NAMES = 40  # that are listed
CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class InputError(ValueError):
    """What the user gave cannot be used. The command line prints it without a traceback and exits with 2.

    The middle of a long message is left out: its end says what to do. What would move the cursor or change the colours
    of a terminal, as the name of a file or a cell may, is written out.
    """

    def __init__(self, message: str) -> None:
        message = message.translate(CONTROL)
        if len(message) > LONGEST:
            half = (LONGEST - 40) // 2
            message = f"{message[:half]} [{len(message) - 2 * half:,} characters] {message[-half:]}"
        super().__init__(message)


class Stopped(Exception):  # noqa: N818 - no error: the run is saved
    """A signal ended a training, which is saved; the message says how to go on."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class FailedElsewhere(Exception):  # noqa: N818 - the error is another process's
    """Another process of this training failed, and says why; this one ends without a word."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'd_model'?`, or the known names when none is near."""
    known = sorted(known)
    close = get_close_matches(name[:200], [word for word in known if len(word) <= 200][:10_000], n=1)
    return f": did you mean {close[0]!r}?" if close else f"; known are {listed(known)}"


def listed(names: Sequence[str]) -> str:
    """Names with commas between; of many, the first ones and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
