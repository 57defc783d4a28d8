"""Tokenizers of every kind: trained, saved, and opened by transformers with the same ids."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import transformers
from helpers.command import python
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.dates import date_pairs
from glassformer.errors import InputError
from glassformer.text import Tokenizer, load_tokenizer, train_tokenizer
from glassformer.text.train import SpecialTokenPlacement, TokenizerKind

LINES = [text for pair in date_pairs(1500, seed=0) for text in (pair.source, pair.target)]
HARD = [
    "",
    " ",
    "\t\n\r\n  x  \n\n",
    "하늘 과 땅",
    "😀👩‍👩‍👧",
    "<s>",
    "naïve e\u0301",
    "▁",
    "a\u2028b\0c\ufeff",
    "  two  spaces ",
]
DIGEST = """
import hashlib, sys
from glassformer.data.dates import date_pairs
from glassformer.text import train_tokenizer
lines = [text for pair in date_pairs(1500, seed=0) for text in (pair.source, pair.target)]
for kind in sys.argv[1:]:
    print(hashlib.sha256(train_tokenizer(lines, 500, kind).backend.to_str().encode()).hexdigest())
# With too little room for all characters.
rare = ["".join(chr(0xAC00 + i) for i in range(500))]
for kind in ("bpe", "wordpiece"):
    print(hashlib.sha256(train_tokenizer(rare, 64, kind).backend.to_str().encode()).hexdigest())
"""


@pytest.fixture(scope="module", params=get_args(TokenizerKind))
def trained(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(iter(LINES), 500, request.param)


@pytest.mark.parametrize("around", get_args(SpecialTokenPlacement))
@pytest.mark.parametrize("kind", get_args(TokenizerKind))
def test_transformers_opens_each_with_the_same_ids(
    kind: TokenizerKind, around: SpecialTokenPlacement, tmp_path: Path
) -> None:
    tokenizer = train_tokenizer(iter(LINES), 400, kind, around=around)
    tokenizer.save(tmp_path)
    theirs, again = transformers.AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    texts = ["May 1st, 2031", "  half past four zzz", "2031년 5월"]
    for batch in (None, ["noon", "5월 1일", "the 3rd"]):
        ours = tokenizer.encode(texts, batch)
        expected = theirs(texts, batch, padding=True, return_tensors="pt")
        for one in (ours, again.encode(texts, batch)):
            assert one.input_ids.tolist() == expected["input_ids"].tolist()
            assert one.attention_mask.int().tolist() == expected["attention_mask"].tolist()
            assert (one.token_type_ids is None) == (around != "segments") == ("token_type_ids" not in expected)
            if one.token_type_ids is not None:
                assert one.token_type_ids.tolist() == expected["token_type_ids"].tolist()
    for name in ("pad", "bos", "eos", "unk", "cls", "sep", "mask"):
        assert getattr(theirs, f"{name}_token_id") == getattr(tokenizer, f"{name}_token_id"), name
        assert getattr(again, f"{name}_token_id") == getattr(tokenizer, f"{name}_token_id"), name
    assert len(theirs) == len(tokenizer) == len(again) <= 400


def test_what_stands_around_a_text() -> None:
    def written(around: SpecialTokenPlacement | None, kind: TokenizerKind, pair: str | None = None) -> list[str]:
        tokenizer = train_tokenizer(LINES, 500, kind, around=around)
        return list(tokenizer.backend.encode("noon", pair).tokens)

    assert written(None, "bpe")[-1] == written(None, "unigram")[-1] == "</s>"
    assert not any("<" in token for token in written(None, "bytes") + written(None, "characters"))
    assert written("segments", "wordpiece", "at") == ["[CLS]", "n", "##oon", "[SEP]", "at", "[SEP]"]
    tokenizer = train_tokenizer(LINES, 500, "unigram", around="segments")
    assert tokenizer.ids("noon [MASK] noon").count(tokenizer.mask_token_id or -1) == 1
    types = tokenizer.encode(["noon"], ["noon"]).token_type_ids
    size = len(tokenizer.ids("noon", add_special=False))
    assert types is not None
    assert types.tolist() == [[0] * (size + 2) + [1] * (size + 1)]


def test_bytes_give_back_any_text() -> None:
    tokenizer = train_tokenizer(LINES, 300, "bytes")
    for text in HARD:
        assert tokenizer.decode(tokenizer.ids(text)) == text
    assert tokenizer.unk_token_id is None

    @given(st.text(st.characters(codec="utf-8")))
    @settings(deadline=None, max_examples=200)
    def check(text: str) -> None:
        assert tokenizer.decode(tokenizer.ids(text)) == text

    check()


def test_characters_give_back_what_they_have_seen() -> None:
    tokenizer = train_tokenizer(["".join(HARD), "A new line\n"], 100, "characters")
    for text in [*HARD, "A\n\n new  line"]:
        assert tokenizer.decode(tokenizer.ids(text)) == text
        assert len(tokenizer.ids(text)) == len(text)
    assert tokenizer.ids("AZ") == [tokenizer.id_of("A"), tokenizer.unk_token_id]
    assert len(train_tokenizer(["aaabbc"], 5, "characters")) == 5
    assert train_tokenizer(["cbaab\n"], 100, "characters").tokens(range(3, 7)) == ["▁", "a", "b", "c"]


def test_texts_come_back(trained: Tokenizer) -> None:
    # WordPiece loses the spaces around punctuation marks.
    texts = [
        text for text in LINES[:200] if "##" not in str(trained.backend.decoder) or text.replace(" ", "").isalnum()
    ]
    assert len(texts) > 50
    for text in texts:
        assert trained.decode(trained.ids(text)) == text


def test_the_same_texts_give_the_same_tokenizer_in_every_process() -> None:
    """The library's own trainers differ from one process to the next."""
    kinds = get_args(TokenizerKind)
    first, second = (python("-c", DIGEST, *kinds) for _ in range(2))
    assert first == second
    assert len(set(first.split())) == len(kinds) + 2


def test_wordpiece_learns_what_the_library_learns() -> None:
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, trainers

    theirs = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    theirs.normalizer, theirs.pre_tokenizer = normalizers.NFC(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=1000, special_tokens=["<pad>", "<s>", "</s>", "<unk>"], min_frequency=2, show_progress=False
    )
    theirs.train_from_iterator(LINES, trainer)
    ours = set(train_tokenizer(LINES, 1000, "wordpiece").backend.get_vocab())
    # Each breaks ties between equally frequent pairs in its own way.
    assert len(ours & set(theirs.get_vocab())) > 0.97 * len(ours)


def test_lines_are_read_once_and_one_by_one() -> None:
    given_out = 0

    def lines() -> Iterator[str]:
        nonlocal given_out
        for line in LINES:
            given_out += 1
            yield line

    for kind in get_args(TokenizerKind):
        given_out = 0
        train_tokenizer(lines(), 500, kind)
        assert given_out == len(LINES)


def test_lower_case() -> None:
    tokenizer = train_tokenizer(LINES, 500, "unigram", lowercase=True)
    assert tokenizer.ids("NOON") == tokenizer.ids("noon")
    with pytest.raises(InputError, match="lowercase: a tokenizer of bytes never changes the text"):
        train_tokenizer(LINES, 500, "bytes", lowercase=True)


def test_what_cannot_be_learned_is_named() -> None:
    with pytest.raises(InputError, match="unknown kind of tokenizer 'wordpeace': did you mean 'wordpiece'"):
        train_tokenizer(LINES, 500, "wordpeace")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown value 'endd' of around: did you mean 'end'"):
        train_tokenizer(LINES, 500, around="endd")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="vocab_size 200: expected 258 or more for a tokenizer of bytes"):
        train_tokenizer(LINES, 200, "bytes")
    characters = len(set("".join(LINES)))
    for size in (40, characters + 2):
        with pytest.raises(InputError, match=f"vocab_size {size}: these texts have more distinct characters"):
            train_tokenizer(LINES, size, "unigram")
    for kind in get_args(TokenizerKind):
        with pytest.raises(InputError, match="no text to train a tokenizer on"):
            train_tokenizer([" "], 500, kind)
    with pytest.raises(InputError, match="a single text"):
        train_tokenizer("May", 500)
