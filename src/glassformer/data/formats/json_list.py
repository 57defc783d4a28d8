"""Reads a JSON list object by object, so that the file may be larger than memory."""

import json
from collections.abc import Iterator
from typing import Any

from glassformer.data.formats.long import MAX_LINE_BYTES, too_long
from glassformer.errors import InputError

NEAR = 12  # an error this close to the end of what was read may be a half-read value
DECODER = json.JSONDecoder()


def is_list(head: str) -> bool:
    """Whether a file with this beginning holds a list."""
    return head.lstrip().startswith("[")


class TextStream:
    """Blocks of text, joined as needed. `at` is the current position, on `line`."""

    def __init__(self, blocks: Iterator[str]) -> None:
        self.blocks, self.buffer, self.at, self.line = blocks, "", 0, 1

    def go_to(self, at: int) -> None:
        self.line += self.buffer.count("\n", self.at, at)
        self.at = at

    def more(self) -> bool:
        """Drops what has been read and doubles the rest, so that no object is decoded often."""
        self.buffer, self.at = self.buffer[self.at :], 0
        wanted = max(1, len(self.buffer))
        before = len(self.buffer)
        for block in self.blocks:
            self.buffer += block
            if len(self.buffer) - before >= wanted:
                break
        return len(self.buffer) > before

    def next_sign(self) -> str:
        """Moves to the next character that is neither blank nor a comma, and returns it; empty at the end."""
        while True:
            rest = self.at
            while rest < len(self.buffer) and self.buffer[rest] in " \t\r\n,":
                rest += 1
            self.go_to(rest)
            if rest < len(self.buffer):
                return self.buffer[rest]
            if not self.more():
                return ""


def objects_in_list(
    blocks: Iterator[str], name: str, longest: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Each object of the list, of at most `longest` characters: its first line, its values, and its text."""
    text = TextStream(blocks)
    text.next_sign()
    text.at += 1  # the opening bracket
    while (sign := text.next_sign()) != "]":
        if not sign:
            raise InputError(f"{name} ends inside its list: expected a ] at the end. Is the file complete?")
        value, end = decode(text, name, longest)
        if not isinstance(value, dict):
            raise InputError(
                f"{name}, line {text.line}: {text.buffer[text.at : end][:60]!r} is not an object. Expected a list of "
                'objects, as in [{"text": "...", "label": "..."}]'
            )
        yield text.line, value, text.buffer[text.at : end]
        text.go_to(end)
    text.at += 1
    if text.next_sign():
        raise InputError(f"{name}, line {text.line}: unexpected text after the list. Expected one list of objects")


def decode(text: TextStream, name: str, longest: int) -> tuple[Any, int]:
    """The value that starts here, and the position after it."""
    while True:
        try:
            return DECODER.raw_decode(text.buffer, text.at)
        except RecursionError:
            raise InputError(f"{name}, line {text.line}: brackets are nested too deeply to be read") from None
        except ValueError as error:
            if not isinstance(error, json.JSONDecodeError):  # such as a number of thousands of digits
                raise InputError(f"{name}, line {text.line} cannot be read ({error})") from None
            half = error.msg.startswith("Unterminated string") or error.pos > len(text.buffer) - NEAR
            if (
                half and len(text.buffer) - text.at > longest
            ):  # an object without its closing bracket is not read to the end
                size = len(text.buffer) - text.at
                raise too_long(f"{name}, line {text.line}", "object", size, longest, more=True) from None
            if not half or not text.more():
                line = text.line + text.buffer.count("\n", text.at, error.pos)
                raise InputError(
                    f"{name}, line {line} is not JSON ({error.msg}): {text.buffer[max(0, error.pos - 30) :][:60]!r}"
                ) from None
