"""Splits examples into training and held-out sets, by the seed."""

import random
from collections.abc import Hashable, Mapping, Sequence
from math import floor

from glassformer.errors import InputError


def split(
    count: int, fraction: float, *, seed: int, strata: Sequence[Hashable] | None = None, name: str = "the data"
) -> tuple[list[int], list[int]]:
    """Training indices and held-out indices, both in random order.

    With `strata`, the class of each example, the split is stratified: a class with two or more examples is on both
    sides, and a single example is used for training. `name` is the file name for errors.
    """
    if not 0 < fraction < 1:
        raise InputError(f"held out {fraction}: expected a fraction between 0 and 1, such as 0.1")
    if count < 2:
        raise InputError(f"{name} has {count} example{'s' * (count != 1)}: expected at least 2, to hold one out")
    order = list(range(count))
    random.Random(f"split {seed}").shuffle(order)
    wanted = min(count - 1, max(1, round(fraction * count)))
    if strata is None:
        return order[wanted:], order[:wanted]
    if len(strata) != count:
        raise InputError(f"{count} examples and {len(strata)} classes: expected one class per example")
    members: dict[Hashable, list[int]] = {}
    for index in order:
        members.setdefault(strata[index], []).append(index)
    shares = apportion(wanted, [len(indices) for indices in members.values()])
    held_out = {index for indices, share in zip(members.values(), shares, strict=True) for index in indices[:share]}
    if not held_out:
        raise InputError(
            f"{name} has {count} examples of {len(members)} classes: no class has a second example to hold out. Give a "
            "validation file with --valid"
        )
    return [index for index in order if index not in held_out], [index for index in order if index in held_out]


def split_without_duplicates(
    texts: Sequence[Hashable],
    fraction: float,
    *,
    seed: int,
    strata: Sequence[Hashable] | None = None,
    name: str = "the data",
) -> tuple[list[int], list[int]]:
    """As `split`, but examples whose text is also held out are removed from training: the model would have memorised
    them."""
    training, held_out = split(len(texts), fraction, seed=seed, strata=strata, name=name)
    secret = {texts[index] for index in held_out}
    training = [index for index in training if texts[index] not in secret]
    if not training:
        raise InputError(f"{name} has {len(texts)} examples, and each has a duplicate that is held out")
    return training, held_out


def shared_examples(parts: Mapping[str, Sequence[Hashable]], what: str = "examples") -> str:
    """A note on the examples that the parts of a data set share; empty if none."""
    known: dict[str, set[Hashable]] = {}
    said = []
    for part, inputs in parts.items():
        for other, seen in known.items():
            if count := sum(one in seen for one in inputs):
                said.append(f"{count:,} of the {len(inputs):,} {part} {what} are also in the {other} {what}")
        known[part] = set(inputs)
    return "; ".join(said)


def apportion(total: int, sizes: Sequence[int]) -> list[int]:
    """`total` divided in proportion to the sizes by largest remainder, within 1 and size - 1 (0 for a size of 1)."""
    exact = [total * size / sum(sizes) for size in sizes]
    least = [min(1, size - 1) for size in sizes]
    most = [size - 1 for size in sizes]
    shares = [min(max(floor(part), low), high) for part, low, high in zip(exact, least, most, strict=True)]
    step = 1 if sum(shares) < total else -1
    while sum(shares) != total:
        # Move the class furthest from its exact share one step closer, if possible.
        bound = most if step > 0 else least
        movable = [i for i, share in enumerate(shares) if share != bound[i]]
        if not movable:
            break
        furthest = max(movable, key=lambda i: step * (exact[i] - shares[i]))
        shares[furthest] += step
    return shares
