"""A JSON list is read object by object, however its text is split into blocks."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.formats.json_list import objects_in_list
from glassformer.errors import InputError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def blocks(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


@given(
    st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), max_size=5),
    st.integers(1, 40),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_whatever_json_writes(rows: list[dict[str, Any]], size: int, indent: int | None, plain: bool) -> None:
    text = json.dumps(rows, indent=indent, ensure_ascii=plain)
    found = list(objects_in_list(blocks(text, size), "a.json"))
    assert [value for _, value, _ in found] == rows
    starts = [line for line, _, _ in found]
    assert starts == sorted(starts)
    assert all(json.loads(told) == value for _, value, told in found)


def test_the_first_object_comes_before_the_last_block_is_read() -> None:
    read = 0

    def arriving() -> Iterator[str]:
        nonlocal read
        for block in blocks(json.dumps([{"text": "word " * 20}] * 1000), 1000):
            read += 1
            yield block

    objects = objects_in_list(arriving(), "a.json")
    next(objects)
    assert read == 1
    assert sum(1 for _ in objects) == 999


def test_lines_are_those_of_the_file() -> None:
    text = '[\n\n{"a":\n 1},\n{"a": 2}\n]'
    assert [line for line, _, _ in objects_in_list(blocks(text, 3), "a.json")] == [3, 5]
    with pytest.raises(InputError, match=r"a\.json, line 4 is not JSON"):
        list(objects_in_list(blocks('[\n{"a": 1},\n{"a":\n nil}]', 5), "a.json"))


def test_a_quote_that_is_missing_does_not_fill_the_memory() -> None:
    endless = ("[" if i == 0 else '{"text": "a' if i == 1 else "word " * 100 for i in range(10**9))
    with pytest.raises(
        InputError, match=r"line 1: an object of more than 0 MB, expected at most 0 MB.* --max-line-mb 1"
    ):
        next(objects_in_list(endless, "a.json", 5000))


def test_a_number_of_thousands_of_digits() -> None:
    with pytest.raises(InputError, match=r"a\.json, line 1 cannot be read"):
        list(objects_in_list(iter([f'[{{"a": {"9" * 5000}}}]']), "a.json"))
