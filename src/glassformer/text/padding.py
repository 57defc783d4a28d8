"""Pads rows of ids to one tensor."""

from collections.abc import Sequence

import torch
from torch import Tensor


def pad(rows: Sequence[Sequence[int]], value: int, *, left: bool = False) -> Tensor:
    """Rows of different lengths as one tensor, padded with `value`."""
    width = max(len(row) for row in rows)
    fill = [[value] * (width - len(row)) for row in rows]
    padded = [[*f, *row] if left else [*row, *f] for row, f in zip(rows, fill, strict=True)]
    return torch.tensor(padded, dtype=torch.long)
