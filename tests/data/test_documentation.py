"""Python's built-in documentation: its split and the sentences with gaps."""

from collections import Counter

from glassformer.data.documentation import (
    AROUND,
    BLANK,
    GAP_WORDS,
    documentation_examples,
    documentation_split,
    documentation_texts,
    is_held_out,
    joined,
    paragraphs,
    sentences,
    split_paragraphs,
)


def test_the_topics_are_those_of_help() -> None:
    texts = documentation_texts()
    assert len(texts) > 70
    assert 'The "for" statement is used to iterate' in texts["for"]
    assert sum(map(len, texts.values())) > 400_000
    assert all(text.strip() and text.endswith("\n") and not text.endswith("\n\n") for text in texts.values())


def test_about_a_tenth_is_held_out_and_none_of_it_is_seen() -> None:
    training, held_out = documentation_split()
    assert 0.05 < len(held_out) / (len(training) + len(held_out)) < 0.15
    seen, unseen = ([joined(passage) for passage in split_paragraphs(text)] for text in (training, held_out))
    assert not set(seen) & set(unseen)
    assert len(set(seen)) == len(seen)
    topics = [name for name in documentation_texts() if is_held_out(name)]
    assert "function" in topics
    assert len(topics) >= 8
    assert "A function definition is an executable statement" in held_out
    assert (
        "A function definition is an executable statement" not in training
    )  # although the topic "compound" has them as well


def test_nothing_but_doubles_is_lost() -> None:
    every = {joined(passage) for text in documentation_texts().values() for passage in split_paragraphs(text)}
    kept = [joined(passage) for passages in paragraphs().values() for passage in passages]
    assert set(kept) == every
    assert len(kept) == len(every)


def test_sentences_are_prose() -> None:
    passage = (
        '* The "if" statement is used for conditional\n  execution of a suite. It selects exactly one of the suites by '
        "evaluating them."
    )
    assert sentences(passage) == [
        'The "if" statement is used for conditional execution of a suite.',
        "It selects exactly one of the suites by evaluating them.",
    ]
    assert not sentences('if_stmt ::= "if" assignment_expression ":" suite\n  ["else" ":" suite].')
    assert not sentences("   >>> for x in range(3): print(x) if x else None.")


def test_every_example_has_one_gap_and_the_word_that_fills_it() -> None:
    sources = {
        held_out: " \n ".join(
            sentence
            for name, passages in paragraphs().items()
            if is_held_out(name) == held_out
            for passage in passages
            for sentence in sentences(passage)
        )
        for held_out in (False, True)
    }
    for held_out, least in ((False, 250), (True, 25)):
        examples = documentation_examples(held_out)
        assert set(Counter(label for _, label in examples)) == set(GAP_WORDS)
        assert min(Counter(label for _, label in examples).values()) >= least
        assert len(examples) >= 20 * least
        for text, label in examples:
            assert text.split().count(BLANK) == 1
            assert len(text.split()) <= 2 * AROUND + 1
            assert text.replace(BLANK, label) in sources[held_out]


def test_no_passage_is_on_both_sides_and_the_choice_is_fixed() -> None:
    training, held_out = documentation_examples(False), documentation_examples(True)
    assert not {text for text, _ in training} & {text for text, _ in held_out}
    assert training == documentation_examples(False)
    assert max(Counter(label for _, label in held_out).values()) <= 0.25 * len(held_out)
