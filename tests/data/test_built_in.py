"""The built-in digits and the simulated town: their content, and that it never changes."""

from collections import Counter

import numpy as np
import pytest

from glassformer.data.digits import digit_images
from glassformer.data.seasons import HOLIDAYS, SERIES_NAMES, seasons


def test_every_digit_is_split_four_to_one() -> None:
    from sklearn.datasets import load_digits

    (pixels, labels), (held_pixels, held_labels) = digit_images(False), digit_images(True)
    assert pixels.dtype == np.float32
    assert pixels.shape[1:] == (1, 8, 8)
    assert len(pixels) + len(held_pixels) == 1797
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)
    counts, held_counts = Counter(labels.tolist()), Counter(held_labels.tolist())
    for digit in range(10):
        assert held_counts[digit] / (counts[digit] + held_counts[digit]) == pytest.approx(0.2, abs=0.01)
    whole = load_digits().images
    np.testing.assert_array_equal(held_pixels[0, 0] * 16, whole[0])  # the very first image is held out
    everything = {image.tobytes() for image in np.concatenate([pixels, held_pixels])}
    assert everything == {(image / 16).astype(np.float32).tobytes() for image in whole}


def test_a_town_has_its_rhythms() -> None:
    town = seasons()
    assert town.names == SERIES_NAMES
    assert town.values.shape == (9600, 7)
    assert np.isfinite(town.values).all()
    assert str(town.frequency) == "1 hour"
    assert set(np.diff(town.times)) == {np.timedelta64(3600, "s")}
    by_day = town.values[:, 0].reshape(-1, 24)
    weekday = np.arange(len(by_day)) % 7
    free = np.isin(np.arange(len(by_day)), list(HOLIDAYS))
    assert by_day[(weekday < 5) & ~free].mean() > by_day[(weekday >= 5) & ~free].mean() + 4  # work
    assert by_day[:, 19].mean() > by_day[:, 3].mean() + 15  # evening and night


def test_the_feeder_follows_the_load_two_hours_late() -> None:
    load, feeder = seasons().values[:, :2].T
    fit = [np.corrcoef(load[: len(load) - lag], feeder[lag:])[0, 1] for lag in range(6)]
    assert int(np.argmax(fit)) == 2


def test_what_has_thresholds_stays_between_them() -> None:
    town = dict(zip(SERIES_NAMES, seasons().values.T, strict=True))
    for name, low, high in (("tower", 0.5, 10.0), ("basin", 0.3, 4.6), ("cold_store", -24.0, -16.5)):
        assert low < town[name].min(), name
        assert town[name].max() < high, name
    running = np.round((town["factory"] - 2) / 3)
    assert set(running) == {0, 1, 2, 3}


def test_the_seed_alone_decides_the_town() -> None:
    np.testing.assert_array_equal(seasons(1).values, seasons(1).values)
    assert (seasons(1).values != seasons(2).values).mean() > 0.9
    # The first hour of the default town: scores are not comparable if this changes.
    first = np.array([43.863, 23.504, 59.508, 4.768, 2.052, -19.73, 1.968], dtype=np.float32)
    np.testing.assert_array_equal(seasons().values[0], first)
