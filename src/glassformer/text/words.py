"""Finds where words begin in a row of tokens, for whole-word masking and word alignment."""

import re
import unicodedata
from typing import Any

import numpy as np
from tokenizers import models

from glassformer.text.tokenizer import Tokenizer

LETTERS, DIGITS, OTHER, SPACE = 1, 2, 0, 3

# One character of a script without spaces, with its combining marks, or a run of other characters.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
UNSPACED += "\U00020000-\U0003ffff"
COMBINING_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3\u3099\u309a\u30fc"
)
WORD = re.compile(rf"[{UNSPACED}][{COMBINING_MARKS}]*|[^\s{UNSPACED}]+")


class WordBoundaries:
    """A token continues a word if it is marked so (## in a WordPiece vocabulary), or if it starts with a letter and
    the previous token ended in one or was a single space; the same holds for digits. Any other token begins a word."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = tokenizer.backend.model
        self.prefix = model.continuing_subword_prefix if isinstance(model, models.WordPiece) else None
        size = max(tokenizer.backend.get_vocab(with_added_tokens=True).values()) + 1
        special = {i for i, token in tokenizer.backend.get_added_tokens_decoder().items() if token.special}
        texts = ["" if i in special else tokenizer.readable(i) for i in range(size)]
        self.first = np.array([boundary_rule(text[:1]) for text in texts], dtype=np.int8)
        self.last = np.array([SPACE if text == " " else boundary_rule(text[-1:]) for text in texts], dtype=np.int8)
        self.goes_on = np.array([bool(self.prefix) and text.startswith(str(self.prefix)) for text in texts])

    def begins(self, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which ids of the rows (..., T) begin a word; the first of a row always does."""
        if self.prefix is not None:
            going_on = self.goes_on[ids]
        else:
            going_on = np.zeros(ids.shape, dtype=bool)
            first, last = self.first[ids[..., 1:]], self.last[ids[..., :-1]]
            going_on[..., 1:] = (first != OTHER) & ((first == last) | (last == SPACE))
        going_on[..., 0] = False
        return ~going_on


def boundary_rule(character: str) -> int:
    if not character:
        return OTHER
    if character == "\ufffd":  # part of a multi-byte character, nearly always a letter
        return LETTERS
    group = unicodedata.category(character)[0]
    return LETTERS if group in "LM" else DIGITS if group == "N" else OTHER


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end: words are separated by spaces, as in English and Korean.

    In scripts without spaces (Han, kana, Thai, Lao, Khmer, Burmese) each character is a word.
    """
    return [match.span() for match in WORD.finditer(text)]
