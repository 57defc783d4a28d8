"""Tokens as a person would write them, for every kind of vocabulary."""

import re

import pytest
from helpers.tiny_models import LINES, tokenizer_of
from tokenizers import decoders

import glassformer as gf
from glassformer.text.token_bytes import BYTE_ALPHABET, readable_bytes
from glassformer.text.token_texts import TokenTexts, join_characters

MARKERS = ("Ġ", "Ċ", "▁", "##", "</w>", "<0x")


def described(tokenizer: gf.Tokenizer, text: str) -> list[dict[str, object]]:
    encoded = tokenizer.encode([text])
    places = [tuple(pair) for pair in encoded.offsets[0].tolist()]
    return TokenTexts(tokenizer.backend).describe_all(encoded.input_ids[0].tolist(), text, places)


def test_the_alphabet_of_bytes_is_that_of_the_library() -> None:
    """Each single byte, spelled as in the vocabulary, decodes to itself in the library."""
    assert sorted(BYTE_ALPHABET.values()) == list(range(256))
    decoder = decoders.ByteLevel()
    for letter, byte in BYTE_ALPHABET.items():
        if byte < 128:
            assert decoder.decode([letter]) == chr(byte)
    syllable = "한".encode()
    letters = {byte: letter for letter, byte in BYTE_ALPHABET.items()}
    assert decoder.decode(["".join(letters[byte] for byte in syllable)]) == "한"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("안".encode(), "안"),
        ("안".encode()[:2], "<EC><95>"),
        ("안".encode()[1:], "<95><88>"),
        (b" a" + "🦊".encode()[:1], " a<F0>"),
        (b"\xffok\xc3\xa9", "<FF>oké"),
        (b"", ""),
    ],
)
def test_parts_of_characters_are_bytes(content: bytes, text: str) -> None:
    assert readable_bytes(content) == text


@pytest.mark.parametrize("kind", ["bpe", "bytes", "unigram", "wordpiece", "characters"])
def test_no_marker_of_any_vocabulary_is_shown(kind: str) -> None:
    tokenizer = gf.train_tokenizer(LINES * 3, 300 if kind == "bytes" else 110, kind)  # type: ignore[arg-type]
    text = "The quick fox 옛날 🦊!"
    tokens = described(tokenizer, text)
    shown = [str(token["text"]) for token in tokens if not token["special"]]
    assert not [token for token in shown for marker in MARKERS if marker in token]
    assert "".join(shown).replace(" ", "").startswith("Thequickfox")
    if kind == "bytes":
        parts = re.split(r"(<[0-9A-F]{2}>)", "".join(shown))
        whole = b"".join(bytes.fromhex(part[1:3]) if part[:1] == "<" else part.encode() for part in parts)
        assert whole.decode() == text
        assert all(token.get("space", False) == str(token["text"]).startswith(" ") for token in tokens)


def test_what_a_vocabulary_does_not_know_is_shown_as_it_was_written() -> None:
    tokens = described(tokenizer_of("fill"), "The 龍 fox")
    unknown = [token for token in tokens if token.get("unknown")]
    assert [token["text"] for token in unknown] == ["龍"]
    specials = [token["text"] for token in tokens if token["special"]]
    assert specials == ["[CLS]", "[SEP]"]


def test_word_pieces_say_that_they_go_on() -> None:
    tokens = described(tokenizer_of("fill"), "foxdog")
    pieces = [token for token in tokens if not token["special"]]
    assert len(pieces) > 1
    assert [bool(token.get("joined")) for token in pieces] == [False] + [True] * (len(pieces) - 1)
    assert "".join(str(token["text"]) for token in pieces) == "foxdog"


def test_an_id_beyond_the_vocabulary_is_a_number() -> None:
    texts = TokenTexts(tokenizer_of("decoder").backend)
    assert texts.describe(10**6) == {"text": "<1000000>", "id": 10**6, "special": True}


def test_a_character_of_several_tokens_is_the_text_of_the_first() -> None:
    tokenizer = gf.train_tokenizer(LINES, 300, "bytes")
    text = "a م🦊 é"
    tokens = described(tokenizer, text)
    assert "".join(str(token["text"]) for token in tokens) == text
    letters = [(token["text"], token.get("label"), token.get("bytes")) for token in tokens]
    assert ("م", None, "D9") in letters
    assert letters[letters.index(("م", None, "D9")) + 1] == ("", "…", "85")
    fox = letters.index(("🦊", None, "F0"))
    assert letters[fox + 1 : fox + 4] == [("", "…", "9F"), ("", "…", "A6"), ("", "…", "8A")]
    assert letters[0] == ("a", None, None)


def test_a_character_that_is_not_whole_stays_bytes() -> None:
    tokenizer = gf.train_tokenizer(LINES, 300, "bytes")
    ids = tokenizer.encode(["م"]).input_ids[0].tolist()
    texts = TokenTexts(tokenizer.backend)
    assert [token["text"] for token in texts.describe_all(ids[:1])] == ["<D9>"]
    assert [token["text"] for token in texts.describe_all([*ids[::-1], *ids])] == ["<85>", "<D9>", "م", ""]


def test_tokens_may_end_one_character_and_begin_the_next() -> None:
    first, second = "م".encode(), "é".encode()
    run = [({"text": "?"}, first[:1]), ({"text": "?"}, first[1:] + b"!" + second[:1]), ({"text": "?"}, second[1:])]
    join_characters(run)
    assert [token for token, _ in run] == [
        {"text": "م", "bytes": "D9"},
        {"text": "!é", "bytes": "85 21 C3", "label": "…!é"},
        {"text": "", "bytes": "A9", "label": "…"},
    ]


def test_what_cannot_be_seen_has_a_name() -> None:
    tokenizer = gf.train_tokenizer(["a\u200db \u0301 \ufe0f"] * 3, 12, "characters")
    labels = {token["text"]: token.get("label") for token in described(tokenizer, "a\u200db\u0301\ufe0f")}
    assert labels == {"a": None, "\u200d": "ZWJ", "b": None, "\u0301": "◌\u0301", "\ufe0f": "VS16"}
    tokenizer = gf.train_tokenizer(LINES, 300, "bytes")
    labels = {token["text"]: token.get("label") for token in described(tokenizer, "👩\u200d🔬")}
    assert labels["\u200d"] == "ZWJ"
    assert [token.get("label") for token in described(tokenizer, "\x00\n\t")] == ["U+0000", None, None]
