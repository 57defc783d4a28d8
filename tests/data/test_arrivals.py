"""Built-in questions about who arrived when: their answers, their split, and what a bag of words makes of them."""

import re
from collections import Counter

import pytest

from glassformer.data.arrivals import COUNTS, NAMES, ORDINALS, arrival_examples


def answer(text: str) -> str:
    """Reads a text by rules of its own."""
    statement, question = text.split(": ")
    order = re.findall("|".join(NAMES), statement)
    asked = question.rstrip("?").split()[-1]
    if asked in NAMES:
        return order[order.index(asked) + 1]
    return order[-1] if asked == "last" else order[ORDINALS.index(asked)]


@pytest.mark.parametrize("held_out", [False, True])
def test_every_answer_follows_from_its_text(held_out: bool) -> None:
    examples = arrival_examples(held_out)
    assert len(examples) == COUNTS["held out" if held_out else "training"]
    assert len(dict(examples)) == len(examples)
    assert all(answer(text) == label for text, label in examples)
    assert examples == arrival_examples(held_out)
    counts = Counter(label for _, label in examples)
    assert set(counts) == set(NAMES)
    assert max(counts.values()) < 1.5 * min(counts.values())


def test_no_list_of_names_is_on_both_sides() -> None:
    training, held_out = ({text.split(": ")[0] for text, _ in arrival_examples(side)} for side in (False, True))
    lists = [{" ".join(re.findall("|".join(NAMES), text)) for text in side} for side in (training, held_out)]
    assert not lists[0] & lists[1]


def test_words_and_their_pairs_are_not_enough() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    train, test = (list(zip(*arrival_examples(side), strict=True)) for side in (False, True))
    for longest, most in ((1, 0.3), (2, 0.5)):
        counts = CountVectorizer(ngram_range=(1, longest))
        model = LogisticRegression(max_iter=200).fit(counts.fit_transform(train[0]), train[1])
        assert model.score(counts.transform(test[0]), test[1]) < most
