"""Pairs of texts, source and translation: from a tab-separated file, or from two files aligned line by line."""

from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import InputError


@dataclass(frozen=True)
class Pair:
    """One example: a source text and its translation."""

    source: str
    target: str


def read_pairs(path: Path, targets: Path | None = None) -> list[Pair]:
    """Every line of `path` as a pair: source<TAB>target, or, with a second file, the lines of both side by side."""
    lines = read_lines(path)
    if targets is not None:
        other = read_lines(targets)
        if len(lines) != len(other):
            raise InputError(f"{path} has {len(lines)} lines and {targets} has {len(other)}: they must be aligned")
        return [Pair(*both) for both in zip(lines, other, strict=True)]
    pairs = []
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise InputError(f"{path}, line {number}: {len(cells)} columns, expected source<TAB>target: {line[:60]!r}")
        pairs.append(Pair(*cells))
    return pairs


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file."""
    try:
        return decode_lines(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, expected a text file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def decode_lines(content: bytes, name: str) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8. "
            f"Convert it first, for instance with `iconv -f CP949 -t UTF-8`"
        ) from None
    if not text:
        raise InputError(f"{name} is empty: expected one example per line")
    # Not str.splitlines, which also cuts at characters that stand inside a sentence, such as U+2028.
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
