"""Batches: every example once, within the budget, in an order set by seed and epoch."""

import pytest

from glassformer.data.batches import bucketed, shuffled_batches
from glassformer.errors import InputError


def test_batches_hold_every_example_once_within_the_budget() -> None:
    lengths = [1 + (i * 37) % 23 for i in range(1000)]
    batches = bucketed(lengths, max_tokens=64, seed=0, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(1000))
    assert all(len(batch) * max(lengths[i] for i in batch) <= 64 for batch in batches)
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    assert padded < 1.05 * sum(lengths), "bucketing leaves little padding"


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    lengths = list(range(1, 60))
    assert bucketed(lengths, 64, seed=1, epoch=2) == bucketed(lengths, 64, seed=1, epoch=2)
    assert bucketed(lengths, 64, seed=1, epoch=2) != bucketed(lengths, 64, seed=1, epoch=3)
    assert bucketed([100], 64, seed=0, epoch=0) == [[0]], "an example longer than the budget is a batch by itself"


def test_the_order_of_batches_stays_what_it_was() -> None:
    """A resumed run, or one repeated with a later version, sees the same batches."""
    assert bucketed([3, 1, 4, 1, 5, 9, 2, 6], 10, seed=0, epoch=0) == [[5], [7], [1, 3, 6], [0, 2], [4]]


def test_batches_hold_no_more_examples_than_asked_for() -> None:
    lengths = [1 + i % 3 for i in range(100)]
    batches = bucketed(lengths, 64, seed=0, epoch=0, max_examples=7)
    assert sorted(i for batch in batches for i in batch) == list(range(100))
    assert max(map(len, batches)) == 7
    with pytest.raises(InputError, match="max_examples 0: expected 1 or more"):
        bucketed(lengths, 64, seed=0, epoch=0, max_examples=0)


def test_batches_of_one_size() -> None:
    batches = shuffled_batches(10, 4, seed=0, epoch=0)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(i for batch in batches for i in batch) == list(range(10))
    assert batches == shuffled_batches(10, 4, seed=0, epoch=0)
    assert shuffled_batches(100, 100, seed=0, epoch=0) != shuffled_batches(100, 100, seed=0, epoch=1)
    assert shuffled_batches(100, 100, seed=0, epoch=0) != shuffled_batches(100, 100, seed=1, epoch=0)
