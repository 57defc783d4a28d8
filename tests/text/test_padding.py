"""Rows of ids become one tensor."""

from glassformer.text.padding import pad


def test_padding_on_either_side() -> None:
    assert pad([[1, 2], [3]], 0).tolist() == [[1, 2], [3, 0]]
    assert pad([[1, 2], [3]], 9, left=True).tolist() == [[1, 2], [9, 3]]
