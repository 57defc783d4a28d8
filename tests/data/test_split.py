"""Held-out examples: how many, which, and by class."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.split import split, split_without_duplicates
from glassformer.errors import InputError


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.integers(0, 5))
def test_every_example_is_on_one_side(count: int, fraction: float, seed: int) -> None:
    training, held_out = split(count, fraction, seed=seed)
    assert sorted(training + held_out) == list(range(count))
    assert training
    assert held_out
    assert abs(len(held_out) - fraction * count) <= 1
    assert (training, held_out) == split(count, fraction, seed=seed)


def test_the_seed_decides() -> None:
    assert split(100, 0.1, seed=0) != split(100, 0.1, seed=1)
    assert split(100, 0.1, seed=0)[1] != sorted(split(100, 0.1, seed=0)[1])


@given(st.lists(st.integers(0, 6), min_size=2, max_size=200), st.floats(0.02, 0.98), st.integers(0, 3))
def test_every_class_gives_its_share(strata: list[int], fraction: float, seed: int) -> None:
    sizes = Counter(strata)
    if max(sizes.values()) == 1:
        with pytest.raises(InputError, match="no class has a second example"):
            split(len(strata), fraction, seed=seed, strata=strata)
        return
    training, held_out = split(len(strata), fraction, seed=seed, strata=strata)
    assert sorted(training + held_out) == list(range(len(strata)))
    inside, outside = Counter(strata[i] for i in training), Counter(strata[i] for i in held_out)
    for name, size in sizes.items():
        assert inside[name] >= 1
        assert outside[name] >= min(1, size - 1)
    if all(1 <= size * fraction <= size - 1 for size in sizes.values()):
        assert len(held_out) == round(fraction * len(strata))
        # Largest remainder keeps every class within one of its exact share.
        for name, size in sizes.items():
            assert abs(outside[name] - len(held_out) * size / len(strata)) < 1


def test_a_rare_class_is_on_both_sides() -> None:
    strata = ["common"] * 998 + ["rare"] * 2
    training, held_out = split(1000, 0.05, seed=0, strata=strata)
    assert (len(training), len(held_out)) == (950, 50)
    assert sum(strata[i] == "rare" for i in held_out) == 1


def test_no_double_of_a_text_is_held_out_and_trained_on() -> None:
    texts = [f"text {i // 3}" for i in range(300)]
    training, held_out = split_without_duplicates(texts, 0.1, seed=0)
    assert len(held_out) == 30
    assert not {texts[i] for i in training} & {texts[i] for i in held_out}
    with pytest.raises(InputError, match=r"a\.csv has 5 examples, and each has a duplicate that is held out"):
        split_without_duplicates(["same"] * 5, 0.5, seed=0, name="a.csv")


def test_too_few_or_an_odd_share_is_named() -> None:
    with pytest.raises(InputError, match=r"a\.csv has 1 example: expected at least 2"):
        split(1, 0.1, seed=0, name="a.csv")
    for fraction in (0.0, 1.0, -0.5, 3):
        with pytest.raises(InputError, match="expected a fraction between 0 and 1"):
            split(10, fraction, seed=0)
    with pytest.raises(InputError, match="3 examples and 2 classes"):
        split(3, 0.5, seed=0, strata=["a", "b"])
