"""Which heads are informative: uniform rows, and rows that all look at one token, are not."""

import torch

from glassformer.inspect.looks.telling import rank_heads, row_scores, usual_offset

SIZE = 8
EVEN = torch.full((SIZE, SIZE), 1 / SIZE)
CAUSAL_EVEN = torch.tril(torch.ones(SIZE, SIZE)) / torch.arange(1, SIZE + 1)[:, None]
ONE_COLUMN = torch.zeros(SIZE, SIZE).index_fill(1, torch.tensor([3]), 0.93) + 0.07 / SIZE
BEFORE = 0.9 * torch.eye(SIZE).roll(-1, dims=1) + 0.1 / SIZE
NO_SINKS = torch.zeros(SIZE, dtype=torch.bool)


def test_even_rows_and_one_column_tell_nothing() -> None:
    scores = row_scores(torch.stack([EVEN, ONE_COLUMN, BEFORE]), NO_SINKS).mean(dim=1)
    assert scores[:2].max() < 0.02
    assert scores[2] > 0.5
    causal = row_scores(CAUSAL_EVEN[None], NO_SINKS, torch.ones(1, SIZE, SIZE, dtype=torch.bool).tril())
    assert causal.max() < 1e-5


def test_weight_on_sinks_is_not_counted() -> None:
    sinks = NO_SINKS.clone()
    sinks[0] = True
    with_sink = 0.1 * BEFORE
    with_sink[:, 0] += 0.9
    few, many = row_scores(torch.stack([with_sink, BEFORE]), sinks).mean(dim=1)
    assert few < 0.2 * many


def test_heads_are_ranked_by_the_rows_that_are_meant() -> None:
    one_row = EVEN.clone()
    one_row[5] = torch.nn.functional.one_hot(torch.tensor(6), SIZE).float()
    heads = rank_heads(torch.stack([one_row, BEFORE]), list(range(SIZE)), NO_SINKS)
    assert heads[1].score > heads[0].score
    assert (heads[1].offset, heads[1].share) == (-1, 7 / 8)  # the first row wraps round to the last token
    meant = rank_heads(torch.stack([one_row, EVEN]), list(range(SIZE)), NO_SINKS, meant=[5])
    assert (meant[0].row, meant[0].key) == (5, 6)
    assert meant[0].weight == 1.0
    assert meant[0].score > 0.6 > 0.1 > meant[1].score


def test_the_usual_offset_counts_rows_by_their_numbers() -> None:
    assert usual_offset(BEFORE[4:7], [4, 5, 6]) == (-1, 1.0)


def test_of_two_rows_the_one_is_shown_that_looks_at_another_text() -> None:
    same = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    sharp = torch.eye(SIZE)
    same[:4] = torch.eye(SIZE, dtype=torch.bool)[:4]
    (plain,) = rank_heads(sharp[None], list(range(SIZE)), NO_SINKS, is_self=False)
    (chosen,) = rank_heads(sharp[None], list(range(SIZE)), NO_SINKS, is_self=False, copies=same)
    assert plain.row == 0
    assert chosen.row == 4
    assert chosen.score == plain.score  # the ranking of heads does not change
