"""Ranks heads by how informative they are: neither uniform nor always on the same token.

A row is informative if it is far from two distributions: the uniform one over its visible keys, and the head's mean
over all rows. Both distances are Kullback-Leibler divergences; the smaller one counts, relative to its maximum. Weight
on sinks (special tokens, and the first token of a decoder: Xiao et al., 2024) counts nothing, and the score is scaled
by the weight on the other keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

EPSILON = 1e-12
COPIED = 0.7  # factor, when choosing the row to show, for a row that looks at its own text


@dataclass(frozen=True)
class Telling:
    """One head: how informative it is, from 0 to 1, and the row and key to show for it."""

    score: float
    row: int
    key: int
    weight: float  # of the key in the row
    offset: int | None  # from a row to where most rows look; None for cross-attention
    share: float  # fraction of the rows that look there


def row_scores(weights: Tensor, sinks: Tensor, visible: Tensor | None = None) -> Tensor:
    """How informative each row of each head is: (H, R), from weights (H, R, S) and a mask of the sinks (S).

    `visible` (H or 1, R, S) masks the keys that a row may attend to; by default all.
    """
    kept = weights.masked_fill(sinks, 0.0)  # (H, R, S)
    share = kept.sum(dim=-1)  # (H, R)
    rows = kept / share.clamp(min=EPSILON)[..., None]  # (H, R, S)
    visible = (torch.ones_like(weights, dtype=torch.bool) if visible is None else visible) & ~sinks  # (H or 1, R, S)
    count = visible.sum(dim=-1)  # (H or 1, R)
    usual = rows.mean(dim=1, keepdim=True) * visible  # (H, R, S): the head's mean row
    usual = usual / usual.sum(dim=-1, keepdim=True).clamp(min=EPSILON)
    from_usual = (rows * (rows.clamp(min=EPSILON) / usual.clamp(min=EPSILON)).log()).sum(dim=-1)  # (H, R)
    from_even = (rows * (rows.clamp(min=EPSILON) * count[..., None]).log()).sum(dim=-1)  # (H, R)
    far = torch.minimum(from_usual, from_even) / count.clamp(min=2).log()  # (H, R)
    return (share * far.clamp(0.0, 1.0)).where(count > 1, 0.0)


def rank_heads(
    weights: Tensor,
    rows: Sequence[int],
    sinks: Tensor,
    *,
    visible: Tensor | None = None,
    meant: Sequence[int] = (),
    is_self: bool = True,
    copies: Tensor | None = None,
) -> list[Telling]:
    """Scores every head of one layer, in order. `rows` are the positions of the given rows. `meant` are the positions
    that the answer is read from, if any: a masked token, a class token. `copies` (R, S) masks the keys with the same
    text as the row: a number that looks at its copy is less interesting than a word that looks at its translation."""
    scores = row_scores(weights, sinks, visible)  # (H, R)
    shown_first = scores
    if copies is not None:
        first = weights.argmax(dim=-1, keepdim=True)  # (H, R, 1)
        copied = copies.expand_as(weights).gather(-1, first)[..., 0]  # (H, R)
        shown_first = scores.where(~copied, COPIED * scores)  # (H, R)
    own = [at for at, row in enumerate(rows) if row in set(meant)] or list(range(len(rows)))
    found = []
    for head, each in enumerate(scores):
        at = max(own, key=shown_first[head].tolist().__getitem__)
        shown = weights[head, at].masked_fill(sinks, 0.0)  # (S)
        key = int((shown if float(shown.sum()) > 0 else weights[head, at]).argmax())
        offset, share = usual_offset(weights[head], rows) if is_self else (None, 0.0)
        score, weight = float(each[own].mean()), float(weights[head, at, key])
        found.append(Telling(score, rows[at], key, weight, offset, share))
    return found


def usual_offset(weights: Tensor, rows: Sequence[int]) -> tuple[int, float]:
    """The most frequent offset from a row (R, S) to its largest weight, and the fraction of rows that have it."""
    offsets = weights.argmax(dim=-1) - torch.tensor(rows, device=weights.device)  # (R)
    values, counts = offsets.unique(return_counts=True)
    most = int(counts.argmax())
    return int(values[most]), float(counts[most]) / len(rows)
