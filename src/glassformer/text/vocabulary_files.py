"""Reads vocabulary files; errors name what is broken or does not match."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from glassformer.errors import InputError, did_you_mean
from glassformer.io import parse_json, read_small
from glassformer.text.conventions import DEFAULT_SPECIAL

MAX_TOKENIZER_BYTES = 1 << 28  # bytes of a tokenizer file; the largest vocabularies have a tenth of that


class NoTokenizerError(InputError):
    """The files of a folder do not say how to tokenise texts."""


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turns the library's errors into InputError: it raises bare Exceptions, and panics that are not Exceptions."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise InputError(f"{file}: its tokenizer cannot be read ({error}). Is the file complete?") from None
        raise


def read_text(file: Path) -> str:
    try:
        return read_small(file, MAX_TOKENIZER_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text ({error}). Is the file complete? Fetch it again") from None


def read_vocabulary(file: Path) -> dict[str, int]:
    if not file.is_file():
        raise InputError(f"{file.parent} has no {file.name}, the table of token ids. Download it as well")
    values = parse_json(file)
    if not isinstance(values, dict) or not all(isinstance(i, int) for i in values.values()):
        raise InputError(f"{file}: expected a table of tokens and their ids, as in " + '{"the": 12}')
    return values


def read_merges(file: Path) -> list[tuple[str, str]]:
    pairs = [line.split(" ") for line in read_text(file).split("\n") if line and not line.startswith("#version")]
    for pair in pairs:
        if len(pair) != 2:
            raise InputError(f"{file}: the line {' '.join(pair)!r}: expected two pieces with a space between them")
    return [(left, right) for left, right in pairs]


def require_key(vocabulary: Mapping[str, int], special: Mapping[str, str], file: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if special.get(name) not in vocabulary:
            raise InputError(
                f"{file} has no token {special.get(name)!r}, the {name}. Is the file complete? Or name the {name} in "
                "tokenizer_config.json"
            )


def read_tokens(file: Path) -> dict[str, int]:
    """Reads a `vocab.txt`: one token per line, whose id is the line number from 0."""
    lines = (line.removesuffix("\r") for line in read_text(file).split("\n"))
    return {line: i for i, line in enumerate(lines) if line}


def unknown(family: str, file: Path) -> NoTokenizerError:
    known = did_you_mean(family, DEFAULT_SPECIAL)
    return NoTokenizerError(
        f"{file}: tokenizer_class {family!r} is not known for this file{known}. Or add a tokenizer.json"
    )
