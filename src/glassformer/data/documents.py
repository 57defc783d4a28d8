"""Reads texts for language models: files -> documents -> parts small enough to encode.

A plain text is one document, or several with a separator between them; in a table, each row is a document. Files are
read in parts, so they may be larger than memory. A folder stands for all texts in it.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from glassformer.data.files import (
    AS_FOUND,
    cell_text,
    file_kind,
    find_column,
    stream_rows,
    stream_text,
    table_format,
    text_format,
)
from glassformer.data.formats.table import ExpectedColumns, TableOptions
from glassformer.errors import InputError

PART_CHARACTERS = 1 << 15  # characters
BLANK_LINES = "blank lines"
NEVER = re.compile(r"(?!)")
TEXT_SUFFIXES = (".txt", ".md")  # read from a folder, plain or gzipped


class DocumentPart(NamedTuple):
    """A part of a document, and whether the document begins and ends with it."""

    text: str
    begins: bool
    ends: bool


def text_files(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The files to read, with folders replaced by the texts in them, sorted by name; and the other files in them."""
    files, others = list[Path](), list[Path]()
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = [file for file in sorted(path.rglob("*")) if file.is_file() and not is_hidden(file.relative_to(path))]
        found = [file for file in inside if file.name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES)]
        if not found:
            raise InputError(f"{path} is a folder without texts: expected files ending in {' or '.join(TEXT_SUFFIXES)}")
        files += found
        others += [file for file in inside if file not in set(found)]
    return files, others


def is_hidden(file: Path) -> bool:
    return any(part.startswith(".") for part in file.parts)


def is_plain(path: Path) -> bool:
    """Whether a file is running text, not a table."""
    return file_kind(path) is None or path.name.lower().removesuffix(".gz").endswith(".txt")


def document_format(path: Path, *, text_column: str = "text", options: TableOptions = AS_FOUND) -> str:
    """The format of a file of documents, in words."""
    if is_plain(path):
        return f"{text_format(path, options)} text"
    return str(table_format(path, options, ExpectedColumns((text_column,))))


def stream_documents(
    path: Path,
    *,
    text_column: str = "text",
    separator: str | None = None,
    size: int = PART_CHARACTERS,
    options: TableOptions = AS_FOUND,
) -> Iterator[DocumentPart]:
    """The documents of one file, in parts. A row without text gives an empty part, so that it can be counted."""
    if is_plain(path):
        yield from documents_of_text(stream_text(path, form=text_format(path, options)), separator, size)
        return
    rows = stream_rows(path, options, ExpectedColumns((text_column,)))
    for row in rows:
        name = find_column(path, text_column, tuple(row.cells), rows.form, "--text-column", row.line)
        text = cell_text(path, row.line, name, row.cells[name])
        yield from document_parts(text if text.strip() else "", size)
    for _ in range(rows.skipped.count):
        yield from document_parts("", size)


def documents_of_text(
    blocks: Iterable[str], separator: str | None, size: int = PART_CHARACTERS
) -> Iterator[DocumentPart]:
    pattern = separator_pattern(separator)
    buffer, begins = "", True
    for block in blocks:
        buffer += block
        while (match := pattern.search(buffer)) and match.end() < len(buffer):  # a match at the end may still continue
            yield from finish(buffer[: match.start()], begins, size)
            buffer, begins = buffer[match.end() :], True
        # Keep enough to recognise a half-read separator.
        while len(buffer) > 2 * max(size, len(separator or "")):
            end = split_point(buffer, size)
            yield DocumentPart(buffer[:end], begins, False)
            buffer, begins = buffer[end:], False
    match = pattern.search(buffer)
    yield from finish(buffer[: match.start()] if match else buffer, begins, size)


def separator_pattern(separator: str | None) -> re.Pattern[str]:
    """The pattern between two documents, including the line ends beside a separator."""
    if separator is None:
        return NEVER
    if not separator:
        raise InputError(f"document_separator is empty: expected {BLANK_LINES!r}, or a text such as '<|endoftext|>'")
    if separator == BLANK_LINES:
        return re.compile(r"(?:\r?\n[ \t]*){2,}")
    return re.compile(rf"(?:\r?\n)?{re.escape(separator)}(?:\r?\n)?")


def finish(text: str, begins: bool, size: int) -> Iterator[DocumentPart]:
    """The last part of a document; nothing if there is no text between two separators."""
    if not begins or text.strip():
        yield from document_parts(text, size, begins=begins)


def document_parts(text: str, size: int = PART_CHARACTERS, *, begins: bool = True) -> Iterator[DocumentPart]:
    """A whole document, or the rest of one."""
    while len(text) > 2 * size:
        end = split_point(text, size)
        yield DocumentPart(text[:end], begins, False)
        text, begins = text[end:], False
    yield DocumentPart(text, begins, True)


def split_point(text: str, size: int) -> int:
    """Where to split, at a token boundary: after a line, else before a space between two words, else after `size`
    characters.

    Line ends beside spaces or empty lines are avoided, because such runs are single tokens.
    """
    for sign, shift in (("\n", 1), (" ", 0)):
        found = text.rfind(sign, size // 2, size)
        while found > 0:
            if not text[found - 1].isspace() and not text[found + 1].isspace():
                return found + shift
            found = text.rfind(sign, size // 2, found)
    return size
