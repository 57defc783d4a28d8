"""Reads names and numbers from the query of an address, and checks them."""

import math
from collections.abc import Mapping

from glassformer.errors import InputError

Query = Mapping[str, str]


def text_of(query: Query, key: str) -> str:
    if key not in query:
        raise InputError(f"the address has no {key!r}: expected {key}=...")
    return query[key]


def number_of(query: Query, key: str, count: int, default: int | None = None) -> int:
    """A whole number from 0 to count - 1."""
    given = query.get(key)
    if given is None and default is not None:
        return default
    if given is None or not given.isascii() or not given.isdigit() or len(given) > 20 or int(given) >= count:
        raise InputError(f"{key} is {(given or '')[:20]!r}: expected a number from 0 to {count - 1}")
    return int(given)


def real_of(query: Query, key: str, low: float, high: float, default: float) -> float:
    """A number from low to high."""
    try:
        number = float(query.get(key, default))
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise InputError(f"{key} is {query[key][:20]!r}: expected a number from {low:g} to {high:g}")
    return number
