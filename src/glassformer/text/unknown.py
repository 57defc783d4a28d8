"""Finds, counts and reports unknown tokens, which replace text that a vocabulary lacks.

A model answers a text of unknown tokens like any other, but the answer means little. So every answer reports how much
of the text was unknown.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import InputError
from glassformer.text.tokenizer import Encoded, Tokenizer

TOKENISE_CHUNK = 256  # texts encoded at a time
MOSTLY_UNKNOWN = 0.5  # share of a text's letters above which the text counts as not read
NAMED, REMEMBERED = 5, 10_000  # pieces listed in a message; pieces counted separately
MAX_LISTED_CHARACTERS = 20  # characters of a listed piece


@dataclass(frozen=True)
class Unknown:
    """The parts of one text, or of a pair, that became unknown tokens."""

    tokens: int  # in the whole text, without special tokens
    pieces: tuple[str, ...] = ()  # in their order
    share: float = 0.0  # share of the text's letters in these pieces: a token may be one letter or a whole word

    @property
    def is_mostly(self) -> bool:
        return self.share > MOSTLY_UNKNOWN


def find_unknown(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[Unknown]:
    """The unknown tokens of each text or text pair."""
    if tokenizer.unknown_id is None:
        return [Unknown(0)] * len(texts)
    found = []
    for start in range(0, len(texts), TOKENISE_CHUNK):
        some = slice(start, start + TOKENISE_CHUNK)
        first, second = list(texts[some]), None if pairs is None else list(pairs[some])
        found += unknown_in(tokenizer, tokenizer.rows(first, second), first, second)
    return found


def unknown_in(
    tokenizer: Tokenizer, ids: Sequence[Sequence[int]], texts: Sequence[str], pairs: Sequence[str] | None = None
) -> list[Unknown]:
    """The same for texts whose ids are known. Only those with unknown tokens are encoded again, to locate them."""
    unknown, special = tokenizer.unknown_id, tokenizer.backend.num_special_tokens_to_add(pairs is not None)
    found = [Unknown(0 if unknown is None else len(row) - special) for row in ids]
    lacking = [i for i, row in enumerate(ids) if unknown in row]
    if lacking:
        first, second = [texts[i] for i in lacking], None if pairs is None else [pairs[i] for i in lacking]
        read = unknown_of(tokenizer, tokenizer.encode(first, second), first, second)
        for i, one in zip(lacking, read, strict=True):
            found[i] = one
    return found


def unknown_of(
    tokenizer: Tokenizer, encoded: Encoded, texts: Sequence[str], pairs: Sequence[str] | None = None
) -> list[Unknown]:
    """The same for encoded texts. An unknown token that is written in the text, "[UNK]", is not counted."""
    unknown, special = tokenizer.unknown_id, tokenizer.backend.num_special_tokens_to_add(pairs is not None)
    if unknown is None:
        return [Unknown(0)] * len(texts)
    written, found = tokenizer.backend.id_to_token(unknown), list[Unknown]()
    for number, (row, ids) in enumerate(zip(encoded.rows, encoded.ids, strict=True)):
        if unknown not in ids:
            found.append(Unknown(len(ids) - special))
            continue
        pieces = []
        for i, part, (start, end) in zip(ids, row.sequence_ids, row.offsets, strict=True):
            if i == unknown and part is not None:
                piece = (texts if part == 0 or pairs is None else pairs)[number][start:end].strip()
                pieces += [piece] if piece != written else []
        whole = texts[number] + ("" if pairs is None else pairs[number])
        share = letters(*pieces) / max(1, letters(whole))
        found.append(Unknown(sum(part is not None for part in row.sequence_ids), tuple(pieces), share))
    return found


def letters(*texts: str) -> int:
    return sum(len("".join(text.split())) for text in texts)


class UnknownTally:
    """Counts the unknown tokens of many texts."""

    def __init__(self, found: Sequence[Unknown] = ()) -> None:
        self.texts = self.affected = self.mostly = self.tokens = self.unknown = 0
        self.pieces: Counter[str] = Counter()
        self.add(found)

    def add(self, found: Sequence[Unknown]) -> None:
        for one in found:
            self.texts += 1
            self.tokens += one.tokens
            if one.pieces:
                self.affected += 1
                self.mostly += one.is_mostly
                self.unknown += len(one.pieces)
                known = len(self.pieces) < REMEMBERED
                self.pieces.update(piece for piece in one.pieces if known or piece in self.pieces)

    def sentence(self) -> str:
        """A warning for the user; empty if every token is known."""
        if not self.unknown:
            return ""
        where = f" in {self.affected:,} of {self.texts:,} texts" if self.texts > 1 else ""
        named = ", ".join(f"{piece[:MAX_LISTED_CHARACTERS]!r}" for piece, _ in self.pieces.most_common(NAMED))
        more = ", ..." if len(self.pieces) > NAMED else ""
        verb = "is" if self.unknown == 1 else "are"
        said = f"{self.unknown:,} of {self.tokens:,} tokens{where} {verb} unknown to the vocabulary: {named}{more}"
        if not self.mostly:
            return said
        where = "That is" if self.texts == 1 else f"In {self.mostly:,} of them it is"
        return f"{said}. {where} more than half, so the answer means little. Is it similar to the training text?"


def check_mostly_known(tokenizer: Tokenizer, found: Sequence[Unknown], names: Sequence[str]) -> None:
    """Refuses texts that are mostly unknown if the tokenizer was partly guessed: the guess was probably wrong."""
    if not tokenizer.assumed:
        return
    for one, name in zip(found, names, strict=True):
        if one.is_mostly:
            raise InputError(
                f"{name}: {UnknownTally([one]).sentence().partition('. ')[0]}. So the assumption about the "
                "tokenizer is "
                f"probably wrong ({tokenizer.assumed}). Add the model's tokenizer.json"
            )
