"""Tokens as readable text, without byte alphabets and markers of spaces or continued words.

A token may be part of a character, such as a Hangul syllable or an emoji. If the next tokens hold the rest, the first
one gets the whole character, so that the texts of all tokens join to the original text. Bytes that form no character
are written as <EC>.

`label` names a token whose text is invisible: an ellipsis for the rest of a character, ZWJ for a joiner. `bytes` are
the bytes of a token that is part of a character.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import tokenizers
from tokenizers import decoders, models

from glassformer.text.token_bytes import BYTE_ALPHABET, readable_bytes
from glassformer.text.tokenizer import SPACE

BYTE = re.compile(r"<0x([0-9A-F]{2})>")
ELLIPSIS = "…"
INVISIBLE = {
    "\u00ad": "SHY", "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\u200e": "LRM", "\u200f": "RLM",
    "\u2060": "WJ", "\ufeff": "BOM", **{chr(0xFE00 + i): f"VS{i + 1}" for i in range(16)},
}  # fmt: skip


class TokenTexts:
    """Readable texts of the tokens of one vocabulary."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = backend
        added = backend.get_added_tokens_decoder()
        self.added = set(added)
        self.special = {i for i, token in added.items() if token.special}
        self.is_byte_level = isinstance(backend.decoder, decoders.ByteLevel) or "ByteLevel(" in repr(backend.decoder)
        self.continuing = getattr(backend.model, "continuing_subword_prefix", None) or ""
        self.ending = getattr(backend.model, "end_of_word_suffix", None) or ""
        self.begins_words = isinstance(backend.model, models.WordPiece)

    def describe(self, i: int, surface: str | None = None) -> dict[str, Any]:
        """A token as the page shows it; `surface` is its part of the text, used for unknown tokens."""
        token = self.backend.id_to_token(i)
        if token is None:
            return {"text": f"<{i}>", "id": i, "special": True}  # the model's table may have unused rows
        unknown = token == getattr(self.backend.model, "unk_token", None)
        if i in self.added and not (unknown and surface):
            return {"text": token, "id": i, "special": i in self.special}
        text = surface if unknown and surface else self.text(token)
        described = {"text": text, "id": i, "special": False}
        if text[:1] == " ":
            described["space"] = True
        if self.begins_words and self.continuing and token.startswith(self.continuing):
            described["joined"] = True
        if unknown:
            described["unknown"] = True
        return labelled(described)

    def text(self, token: str) -> str:
        content = self.content(token)
        if content is not None:
            return readable_bytes(content)
        if self.continuing and token.startswith(self.continuing):
            token = token.removeprefix(self.continuing)
        if self.ending and token.endswith(self.ending):
            token = token.removesuffix(self.ending)
        return token.replace(SPACE, " ")

    def content(self, token: str) -> bytes | None:
        """The bytes of a token that is spelled in bytes; None if it is spelled in characters."""
        if self.is_byte_level and all(letter in BYTE_ALPHABET for letter in token):
            return bytes(BYTE_ALPHABET[letter] for letter in token)
        found = BYTE.fullmatch(token)
        return bytes.fromhex(found[1]) if found else None

    def content_of(self, i: int) -> bytes | None:
        token = None if i in self.added else self.backend.id_to_token(i)
        return None if token is None else self.content(token)

    def describe_all(
        self, ids: Sequence[int], text: str = "", places: Sequence[tuple[int, int]] = ()
    ) -> list[dict[str, Any]]:
        """Describes a row of tokens; `places` are their positions in the text, (0, 0) for tokens that are not in it."""
        surfaces: list[str | None] = [None] * len(ids)
        for at, (start, end) in enumerate(places):
            surfaces[at] = text[start:end] or None
        described = [self.describe(int(i), surface) for i, surface in zip(ids, surfaces, strict=True)]
        contents = [self.content_of(int(i)) for i in ids]
        for is_bytes, run in groupby(range(len(ids)), key=lambda at: contents[at] is not None):
            if is_bytes:
                join_characters([(described[at], contents[at] or b"") for at in run])
        return described


def short_name(token: Mapping[str, Any]) -> str:
    """A short name of a described token, for a table or a figure."""
    continues = "##" if token.get("joined") else ""
    return str(token.get("label") or continues + token["text"].strip() or SPACE)


def join_characters(run: list[tuple[dict[str, Any], bytes]]) -> None:
    """Moves each character that spans several tokens to the first of them."""
    ends, whole = list[int](), b""
    for _, content in run:
        whole += content
        ends.append(len(whole))
    texts, begun, rest, owner = [""] * len(run), set[int](), set[int](), 0
    for start, end, text in characters(whole):
        while ends[owner] <= start:
            owner += 1
        texts[owner] += text
        last = owner
        while ends[last] < end:
            last += 1
            begun.add(owner)
            rest.add(last)
    for at in sorted(begun | rest):
        token, content = run[at]
        token |= {"text": texts[at], "bytes": content.hex(" ").upper()}
        labelled(token)
        if at in rest:
            token["label"] = ELLIPSIS + token.get("label", texts[at])


def characters(content: bytes) -> Iterator[tuple[int, int, str]]:
    """The start and end of each character; a byte outside any character is <EC>."""
    at = 0
    while at < len(content):
        for end in range(at + 1, min(at + 4, len(content)) + 1):
            try:
                text = content[at:end].decode()
            except UnicodeDecodeError:
                continue
            break
        else:
            end, text = at + 1, f"<{content[at]:02X}>"
        yield at, end, text
        at = end


def is_unseen(letter: str) -> bool:
    return letter in INVISIBLE or (unicodedata.category(letter) in ("Cf", "Cc") and not letter.isspace())


def labelled(token: dict[str, Any]) -> dict[str, Any]:
    """Adds a name for characters without width, and a dotted circle to a combining mark that stands alone."""
    text = token["text"]
    if text and all(is_unseen(letter) for letter in text):
        token["label"] = " ".join(INVISIBLE.get(letter, f"U+{ord(letter):04X}") for letter in text)
    elif text and all(unicodedata.category(letter) in ("Mn", "Me") for letter in text):
        token["label"] = f"◌{text}"
    return token
