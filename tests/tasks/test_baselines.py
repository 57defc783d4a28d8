"""Baselines agree with results computed by hand or by other libraries."""

import math
import random
from itertools import product

import numpy as np
import pytest
from helpers.shared import shared

from glassformer.data.pairs import TextPair
from glassformer.data.seasons import seasons
from glassformer.data.series import Scaler, read_series, split_rows, windows
from glassformer.errors import InputError
from glassformer.tasks.baselines import (
    bag_of_words,
    linear_forecast,
    majority_class,
    most_frequent_token,
    nearest_source,
    seasonal_naive,
)


def test_seasonal_naive_repeats_the_last_season() -> None:
    rows = np.tile(np.arange(4, dtype=np.float32), 10)[:, None].repeat(2, axis=1)
    score = seasonal_naive(windows(rows, 8, 6), period=4)
    assert (score.mse, score.mae, score.windows) == (0.0, 0.0, 40 - 14 + 1)
    late = seasonal_naive(windows(rows, 8, 1), period=3)  # one step late: errors of 1, 1, 1 and 3
    assert late.mae == pytest.approx(1.5, abs=0.05)
    with pytest.raises(InputError, match="period 9: expected 1 to 8"):
        seasonal_naive(windows(rows, 8, 6), period=9)


def test_the_linear_forecast_is_scikit_learns_ridge() -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    rows = np.cumsum(rng.normal(size=(900, 2)), axis=0).astype(np.float32)
    train, test = windows(rows[:700], 12, 3), windows(rows[700:], 12, 3)

    def scaled(every: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        series = every.astype(np.float64).swapaxes(1, 2).reshape(-1, 15)
        mean, deviation = series[:, :12].mean(1, keepdims=True), series[:, :12].std(1, keepdims=True) + 1e-5
        return (series - mean) / deviation, deviation

    (fit, _), (check, deviation) = scaled(train.all()), scaled(test.all())
    model = Ridge(alpha=2.0).fit(fit[:, :12], fit[:, 12:])
    error = (model.predict(check[:, :12]) - check[:, 12:]) * deviation
    score = linear_forecast(train, test, ridge=2.0)
    assert score.mse == pytest.approx((error**2).mean(), rel=1e-6)
    assert score.mae == pytest.approx(np.abs(error).mean(), rel=1e-6)
    assert score.windows == 200 - 15 + 1


def test_the_town_is_hard_for_a_season_and_easier_for_a_line() -> None:
    town = seasons()
    split = split_rows(len(town))
    rows = Scaler.fit(town.values[: split.train]).scale(town.values)
    train = windows(split.part(rows, "train", 168), 168, 24)
    test = windows(split.part(rows, "test", 168), 168, 24)
    day, week, line = seasonal_naive(test, 24), seasonal_naive(test, 168), linear_forecast(train, test)
    assert len(test) == line.windows == 1897
    assert line.mse < week.mse < day.mse
    assert line.mse > 0.25  # the rest is left for a nonlinear model


def test_ett_scores_as_published() -> None:
    """DLinear, another linear model, has a mean squared error of 0.375 at 336 -> 96 (Zeng et al., 2023)."""
    path = shared("ett/ETTh1.csv")
    series = read_series(path)
    split = split_rows(len(series), (8640, 2880, 2880))
    rows = Scaler.fit(series.values[: split.train]).scale(series.values)
    train, test = (windows(split.part(rows, part, 336), 336, 96) for part in ("train", "test"))
    line, day = linear_forecast(train, test), seasonal_naive(test, 24)
    assert 0.35 < line.mse < 0.40
    assert line.mse < day.mse < 0.6


def test_the_majority() -> None:
    assert majority_class(["a", "a", "b"], ["a", "b", "b", "b"]) == 0.25


def test_a_bag_of_words_knows_words_but_not_their_order() -> None:
    rng = random.Random(0)
    words = {"good": ["fine", "great", "lovely"], "bad": ["poor", "dull", "awful"]}
    by_word = [(f"a {rng.choice(words[label])} film {n}", label) for n in range(60) for label in words]
    assert bag_of_words(by_word[:80], by_word[80:]) == 1.0
    order = [(f"{a} {b}", "up" if a < b else "down") for a, b in product("abcdefgh", repeat=2) if a != b]
    rng.shuffle(order)
    doubled = order * 3
    assert bag_of_words(doubled, order) < 0.75
    assert bag_of_words(doubled, order, longest=2) == 1.0
    with pytest.raises(InputError, match="a label has only 1 training example"):
        bag_of_words([("x", "a"), ("y", "b"), ("z", "b")], [("x", "a")])


def test_masked_tokens_by_their_share() -> None:
    score = most_frequent_token([[5, 5, 5], [6]], masked=[5, 6, 7], vocab_size=8)
    assert score.accuracy == pytest.approx(1 / 3)
    expected = -(math.log(4 / 12) + math.log(2 / 12) + math.log(1 / 12)) / 3
    assert score.perplexity == pytest.approx(math.exp(expected))
    with pytest.raises(InputError, match="expected at least one of each"):
        most_frequent_token([], [1], 8)


def test_translations_without_a_translator() -> None:
    train = [TextPair("a red house", "ein rotes Haus"), TextPair("a blue car", "ein blaues Auto")]
    test = [
        TextPair("the red house", "das rote Haus"),
        TextPair("Berlin", "Berlin"),
        TextPair("a blue car", "ein blaues Auto"),
    ]
    assert nearest_source(train, test)[0] == "ein rotes Haus"
    assert nearest_source(train, test)[2] == "ein blaues Auto"
