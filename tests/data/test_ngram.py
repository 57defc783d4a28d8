"""The n-gram model: probabilities add up to 1, and match Kneser-Ney computed by hand."""

import random
from collections import Counter

import pytest

from glassformer.data.documentation import documentation_split
from glassformer.data.ngram import UNSEEN_CHARACTER, CharacterNgram, character_ngram, find_discounts
from glassformer.errors import InputError


def test_the_probabilities_of_every_context_add_up_to_1() -> None:
    text = documentation_split()[0][:20_000]
    model = CharacterNgram(text, 5)
    rng = random.Random(0)
    starts = [rng.randrange(len(text) - 10) for _ in range(40)]
    contexts = [text[start : start + length] for start in starts for length in (0, 1, 3, 4, 7)]
    for context in [*contexts, "zqzq", "세계", "the세", "qthe "]:
        total = sum(model.probability(context, character) for character in [*model.alphabet, UNSEEN_CHARACTER])
        assert total == pytest.approx(1.0, abs=1e-9), context
        assert model.probability(context, UNSEEN_CHARACTER) > 0


def test_kneser_ney_by_hand() -> None:
    """Too short for the discount rule, so every discount is 0.5."""
    model = CharacterNgram("abab", order=2)
    # Pairs ab, ba, ab. One letter precedes b (a) and one precedes a (b): continuation counts of 1 and 1.
    alone = (1 - 0.5) / 2 + (0.5 + 0.5) / 2 * (1 / 3)
    assert model.probability("", "a") == pytest.approx(alone)
    assert model.probability("a", "b") == pytest.approx((2 - 0.5) / 2 + 0.5 / 2 * alone)
    assert model.probability("a", "a") == pytest.approx(0.5 / 2 * alone)
    assert model.probability("x", "a") == pytest.approx(alone)
    assert model.probability("", UNSEEN_CHARACTER) == pytest.approx(0.5 / 3)


def test_discounts_are_those_of_chen_and_goodman() -> None:
    counts = Counter(
        {f"{count}{n}": count for count, many in ((1, 100), (2, 40), (3, 20), (4, 12)) for n in range(many)}
    )
    share = 100 / (100 + 2 * 40)
    expected = (1 - 2 * share * 40 / 100, 2 - 3 * share * 20 / 40, 3 - 4 * share * 12 / 20)
    assert find_discounts(counts) == pytest.approx(expected)


def test_bits_per_byte_count_bytes_and_unknown_characters() -> None:
    training = "abcd" * 50
    assert character_ngram(training, "abcdabcd") < 0.5
    latin, korean = character_ngram(training, "abcdxabcd"), character_ngram(training, "abcd세abcd")
    assert korean * 11 == pytest.approx(latin * 9)  # one unknown character each, of one byte and of three
    with pytest.raises(InputError, match="an empty text"):
        character_ngram(training, "")
    with pytest.raises(InputError, match="too short for 5-grams"):
        character_ngram("abc", "abc")
    with pytest.raises(InputError, match="order 0"):
        character_ngram(training, "abc", order=0)


def test_longer_contexts_say_more_about_the_documentation() -> None:
    training, held_out = documentation_split()
    two, three, five = (character_ngram(training, held_out, order) for order in (2, 3, 5))
    assert two > three > five
    assert 1.5 < five < 2.2
