"""The exceptions for bad input and for stopped training.

A message about bad input names the value, what was expected and the next step.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_MESSAGE = 2000  # characters of a message
MAX_NAMES = 40  # in a list
CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class InputError(ValueError):
    """Bad input. The command line prints the message without a traceback and exits with 2.

    The middle of a long message is left out, because its end says what to do. Control characters, which a file name or
    a cell may contain, are escaped.
    """

    def __init__(self, message: str) -> None:
        message = message.translate(CONTROL)
        if len(message) > MAX_MESSAGE:
            half = (MAX_MESSAGE - 40) // 2
            message = f"{message[:half]} [{len(message) - 2 * half:,} characters] {message[-half:]}"
        super().__init__(message)


class Stopped(Exception):  # noqa: N818 - not an error: the run is saved
    """A signal stopped training. Its progress is saved; the message says how to continue."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class OtherProcessFailed(Exception):  # noqa: N818 - the error is in another process
    """Another process of this training run failed and prints the error; this one exits silently."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'd_model'?`, or the known names if none is similar."""
    known = sorted(known)
    close = get_close_matches(name[:200], [word for word in known if len(word) <= 200][:10_000], n=1)
    return f": did you mean {close[0]!r}?" if close else f"; choose from {join_names(known)}"


def join_names(names: Sequence[str]) -> str:
    """Names separated by commas; if there are many, the first ones and the number of the rest."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def join_choices(choices: Sequence[str]) -> str:
    """a, b or c"""
    return " or ".join(filter(None, [", ".join(choices[:-1]), *choices[-1:]]))
