"""Texts for language models: files -> documents -> pieces that are small enough to encode.

A plain text is one document, or several with a separator between them; in a table each row is one. A file is read piece
by piece, so it may be larger than memory.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from glassformer.data.files import absent_column, check_text, kind_of, stream_rows, stream_text
from glassformer.errors import InputError

PIECE = 1 << 15  # characters
BLANK_LINES = "blank lines"
NOWHERE = re.compile(r"(?!)")


class Piece(NamedTuple):
    """A stretch of a document, and whether the document begins and ends with it."""

    text: str
    begins: bool
    ends: bool


def stream_documents(
    path: Path, *, text_column: str = "text", separator: str | None = None, size: int = PIECE
) -> Iterator[Piece]:
    """The documents of one file, in pieces. A row without text comes as an empty piece, so that it can be counted."""
    if kind_of(path) is None or path.name.removesuffix(".gz").lower().endswith(".txt"):
        yield from documents_of_text(stream_text(path), separator, size)
    else:
        for row in stream_rows(path):
            if text_column not in row.cells:
                raise absent_column(f"{path}, line {row.line}", text_column, row.cells)
            text = row.cells[text_column]
            check_text(path, row.line, text_column, text)
            yield from pieces_of(text if text.strip() else "", size)


def documents_of_text(blocks: Iterable[str], separator: str | None, size: int = PIECE) -> Iterator[Piece]:
    pattern = separator_pattern(separator)
    buffer, begins = "", True
    for block in blocks:
        buffer += block
        while (match := pattern.search(buffer)) and match.end() < len(buffer):  # at the end it may yet go on
            yield from finish(buffer[: match.start()], begins, size)
            buffer, begins = buffer[match.end() :], True
        # What is cut off leaves enough behind for a separator that has only half arrived.
        while len(buffer) > 2 * max(size, len(separator or "")):
            end = place_to_cut(buffer, size)
            yield Piece(buffer[:end], begins, False)
            buffer, begins = buffer[end:], False
    match = pattern.search(buffer)
    yield from finish(buffer[: match.start()] if match else buffer, begins, size)


def separator_pattern(separator: str | None) -> re.Pattern[str]:
    """What stands between two documents; the line ends beside a separator belong to it."""
    if separator is None:
        return NOWHERE
    if not separator:
        raise InputError(f"document_separator is empty: expected {BLANK_LINES!r}, or a text such as '<|endoftext|>'")
    if separator == BLANK_LINES:
        return re.compile(r"(?:\r?\n[ \t]*){2,}")
    return re.compile(rf"(?:\r?\n)?{re.escape(separator)}(?:\r?\n)?")


def finish(text: str, begins: bool, size: int) -> Iterator[Piece]:
    """The last of a document; nothing if there is no text between two separators."""
    if not begins or text.strip():
        yield from pieces_of(text, size, begins=begins)


def pieces_of(text: str, size: int = PIECE, *, begins: bool = True) -> Iterator[Piece]:
    """A whole document, or the rest of one."""
    while len(text) > 2 * size:
        end = place_to_cut(text, size)
        yield Piece(text[:end], begins, False)
        text, begins = text[end:], False
    yield Piece(text, begins, True)


def place_to_cut(text: str, size: int) -> int:
    """Where tokens end anyway: after a line, else before the space between two words, else after `size` characters.

    A line end with spaces or empty lines about it is avoided, for such runs make tokens of their own.
    """
    for sign, shift in (("\n", 1), (" ", 0)):
        found = text.rfind(sign, size // 2, size)
        while found > 0:
            if not text[found - 1].isspace() and not text[found + 1].isspace():
                return found + shift
            found = text.rfind(sign, size // 2, found)
    return size
