"""Unknown tokens are found, counted and reported."""

from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.text import Tokenizer, load_tokenizer, train_tokenizer
from glassformer.text.unknown import Unknown, UnknownTally, check_mostly_known, find_unknown

LINES = ["the quick brown fox", "jumps over the lazy dog"] * 3


def learned(kind: str) -> Tokenizer:
    return train_tokenizer(LINES, 300 if kind == "bytes" else 60, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "characters"])
def test_what_a_vocabulary_lacks_is_found_where_it_stands(kind: str) -> None:
    tokenizer = learned(kind)
    known, partly, wholly = find_unknown(tokenizer, ["the lazy fox", "the 안 fox", "안녕"])
    assert known.pieces == ()
    assert known.tokens == len(tokenizer.ids("the lazy fox", add_special=False))
    assert partly.pieces == ("안",)
    assert partly.tokens == len(tokenizer.ids("the 안 fox", add_special=False))
    assert not partly.is_mostly
    assert "".join(wholly.pieces) == "안녕"
    assert wholly.is_mostly
    assert find_unknown(tokenizer, ["the fox"], ["안"])[0].pieces == ("안",)


def test_bytes_lack_nothing() -> None:
    tokenizer = learned("bytes")
    assert tokenizer.unknown_id is None
    assert find_unknown(tokenizer, ["안녕 <|endoftext|>"])[0].pieces == ()


def test_an_unknown_token_that_was_written_is_known() -> None:
    tokenizer = learned("wordpiece")
    (found,) = find_unknown(tokenizer, ["the <unk> fox 안"])
    assert tokenizer.ids("the <unk> fox 안", add_special=False).count(tokenizer.unknown_id or 0) == 2
    assert found.pieces == ("안",)


def test_many_texts_keep_their_order() -> None:
    texts = ["the fox" if i % 3 else "the 안" for i in range(600)]
    found = find_unknown(learned("bpe"), texts)
    assert [bool(one.pieces) for one in found] == [i % 3 == 0 for i in range(600)]


def test_the_sentence() -> None:
    assert UnknownTally([Unknown(4)]).sentence() == ""
    one = UnknownTally([Unknown(9, ("안", "녕"))])
    assert one.sentence() == "2 of 9 tokens are unknown to the vocabulary: '안', '녕'"
    several = UnknownTally([Unknown(4)])
    several.add([Unknown(3, ("안", "안"), 0.6), Unknown(8, ("녕",), 0.5)])
    said = several.sentence()
    assert said.startswith(
        "3 of 15 tokens in 2 of 3 texts are unknown to the vocabulary: '안', '녕'. In 1 of them it is"
    )
    assert ". That is more than half, so the answer means little" in UnknownTally([Unknown(1, ("안",), 1.0)]).sentence()
    assert UnknownTally([Unknown(9, tuple("abcdefg"))]).sentence().endswith("'a', 'b', 'c', 'd', 'e', ...")


def test_a_text_that_is_mostly_unknown_disproves_what_was_assumed(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "##es"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    assumed = load_tokenizer(tmp_path)
    found = find_unknown(assumed, ["the foxes", "C C 안"])
    with pytest.raises(InputError, match=r"text 2: 3 of 3 tokens are unknown .* about the tokenizer is probably"):
        check_mostly_known(assumed, found, ["text 1", "text 2"])
    check_mostly_known(learned("bpe"), found, ["text 1", "text 2"])  # a tokenizer.json is trusted
