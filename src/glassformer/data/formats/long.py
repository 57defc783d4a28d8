"""Refuses lines and cells that are too long, with their size, the limit and the flag that raises it.

Otherwise a file without line breaks, or with an unclosed quote, would be held in memory as one cell.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import IO

from glassformer.errors import InputError

MEGABYTE = 10**6
MAX_LINE_MB, MOST_MB = 16, 2000  # default and maximum of --max-line-mb
MAX_LINE_BYTES = MAX_LINE_MB * MEGABYTE
MEASURED_LIMITS = 16  # a line is read up to this multiple of the limit to report its size
BLOCK = 1 << 20


def bounded_lines(stream: IO[bytes], name: str, longest: int) -> Iterator[bytes]:
    """Every line with its line end; a line of more than `longest` bytes is an error."""
    read: Callable[[], bytes] = partial(stream.readline, longest + 1)
    for number, line in enumerate(iter(read, b""), start=1):
        if len(line) > longest:
            raise too_long(f"{name}, line {number}", "line", *size_of_line(stream, line, longest))
        yield line


def size_of_line(stream: IO[bytes], begun: bytes, longest: int) -> tuple[int, int, bool]:
    """The size of a partly read line, the limit, and whether it has more bytes than counted."""
    size, part = len(begun), begun
    while part and not part.endswith(b"\n") and size < MEASURED_LIMITS * longest:
        part = stream.readline(BLOCK)
        size += len(part)
    return size, longest, bool(part) and not part.endswith(b"\n")


def too_long(place: str, what: str, size: int, longest: int, more: bool = False) -> InputError:
    """The error for a line, cell, row or object of `size` bytes; with `more`, of at least `size` bytes."""
    missing = {"line": "Are its line breaks missing?", "cell": "Is a closing quote missing?"}
    return InputError(
        f"{place}: {'an' if what == 'object' else 'a'} {what} of {'more than ' if more else ''}{megabytes(size)} MB, "
        f"expected at most {megabytes(longest)} MB. {missing.get(what, 'Is a closing quote or bracket missing?')} If "
        f"that is intended, raise the limit with --max-line-mb {min(MOST_MB, -(-2 * size // MEGABYTE))}"
    )


def megabytes(size: int) -> str:
    return f"{size / MEGABYTE:,.1f}".removesuffix(".0")
