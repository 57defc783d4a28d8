"""Groups examples into batches, by length or of one size, in an order that depends only on (seed, epoch)."""

import random
from collections.abc import Sequence

import numpy as np

from glassformer.errors import InputError

BUCKET = 100  # batches whose examples are sorted by length together


def bucketed(
    lengths: Sequence[int], max_tokens: int, *, seed: int, epoch: int, max_examples: int | None = None
) -> list[list[int]]:
    """Indices of examples grouped into batches of at most `max_tokens`, padding included, and `max_examples`.

    The examples are shuffled, sorted by length within buckets so that little padding is needed, and the batches are
    shuffled again so that their length does not depend on the step.
    """
    check_batch_size("max_tokens", max_tokens)
    check_batch_size("max_examples", max_examples)
    rng = random.Random(f"batches {seed} {epoch}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    most = len(order) if max_examples is None else max_examples
    mean = max(1, sum(lengths) // max(1, len(lengths)))
    stretch = max(1, BUCKET * max_tokens // mean)
    batches: list[list[int]] = []
    for start in range(0, len(order), stretch):
        batch: list[int] = []
        for index in sorted(order[start : start + stretch], key=lengths.__getitem__):
            if batch and (len(batch) == most or lengths[index] * (len(batch) + 1) > max_tokens):
                batches.append(batch)
                batch = []
            batch.append(index)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def shuffled_batches(count: int, size: int, *, seed: int, epoch: int) -> list[list[int]]:
    """Indices of examples of one length (images, windows) in shuffled batches of `size`; the last may be smaller."""
    check_batch_size("batch size", size)
    rng = np.random.default_rng(random.Random(f"batches {seed} {epoch}").getrandbits(128))
    order = rng.permutation(count).tolist()
    return [order[start : start + size] for start in range(0, count, size)]


def check_batch_size(name: str, size: int | None) -> None:
    if size is not None and size < 1:
        raise InputError(f"{name} {size}: expected 1 or more")
