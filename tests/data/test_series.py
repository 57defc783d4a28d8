"""Time series files, errors in them, splits, scaling and windows."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.shared import shared

from glassformer.data.columns import cells
from glassformer.data.columns.calendar import Frequency
from glassformer.data.series import Scaler, Series, SeriesFormat, read_series, split_rows, windows
from glassformer.errors import InputError

WIDE = """date,HUFL,OT
2016-07-01 00:00:00,5.827,30.531
2016-07-01 01:00:00,5.693,27.787
2016-07-01 02:00:00,5.157,27.787
2016-07-01 03:00:00,5.09,25.044
"""
LONG = """unique_id,ds,y
a,2020-01-01,1
a,2020-01-02,2
a,2020-01-03,3
b,2020-01-01,10
b,2020-01-02,20
b,2020-01-03,30
"""


def write(folder: Path, text: str, name: str = "series.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_wide_file(tmp_path: Path) -> None:
    series = read_series(write(tmp_path, WIDE))
    assert series.names == ("HUFL", "OT")
    assert series.values.dtype == np.float32
    np.testing.assert_array_equal(series.values[1], np.array([5.693, 27.787], dtype=np.float32))
    assert str(series.times[3]) == "2016-07-01T03:00:00"
    assert series.frequency == Frequency(3600, "second")
    assert str(series.frequency) == "1 hour"
    assert (len(series), series.filled, series.cut) == (4, 0, 0)


def test_a_long_file_in_any_order_of_columns_and_lines(tmp_path: Path) -> None:
    series = read_series(write(tmp_path, LONG))
    assert series.names == ("a", "b")
    np.testing.assert_array_equal(series.values, [[1, 10], [2, 20], [3, 30]])
    assert str(series.frequency) == "1 day"
    mixed = "y,ds,unique_id\n1,2020-01-01,a\n10,2020-01-01,b\n2,2020-01-02,a\n20,2020-01-02,b\n"
    np.testing.assert_array_equal(read_series(write(tmp_path, mixed)).values, [[1, 10], [2, 20]])


def test_a_packed_file_and_one_from_windows(tmp_path: Path) -> None:
    packed = tmp_path / "series.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + WIDE.replace("\n", "\r\n").encode()))
    np.testing.assert_array_equal(read_series(packed).values, read_series(write(tmp_path, WIDE)).values)
    packed.write_bytes(gzip.compress(WIDE.encode())[:-9])
    with pytest.raises(InputError, match="Is it a complete"):
        read_series(packed)


def test_months_are_even_steps(tmp_path: Path) -> None:
    text = "date,x\n" + "".join(f"{2020 + month // 12}/{month % 12 + 1}/1 0:00,{month}\n" for month in range(14))
    series = read_series(write(tmp_path, text))
    assert series.frequency == Frequency(1, "month")
    assert str(series.times[13]) == "2021-02-01T00:00:00"
    with pytest.raises(InputError, match=r"between lines 4 and 5: a gap .* 1 step of 1 month missing"):
        read_series(write(tmp_path, text.replace("2020/4/1 0:00,3\n", "")))


def test_the_last_days_of_months_are_even_steps(tmp_path: Path) -> None:
    days = ["2019-11-30", "2019-12-31", "2020-01-31", "2020-02-29", "2020-03-31"]
    series = read_series(write(tmp_path, "date,x\n" + "".join(f"{day},1\n" for day in days)))
    assert [str(time)[:10] for time in series.times] == days
    assert str(series.frequency) == "1 month"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("5.693", "five"), r"line 3, column 'HUFL': 'five' is not a number"),
        (("5.693", "inf"), r"line 3, column 'HUFL': 'inf' is not a number"),
        (("5.693", ""), r"line 3, column 'HUFL': no value\. Use --fill interpolate or --fill previous"),
        (("27.787", "nan"), r"line 3, column 'OT': no value, and 1 more values are missing\. Use --fill"),
        (
            ("2016-07-01 02:00:00", "01.07.2016"),
            r"line 4: '01.07.2016' is not a date, or not written as those before it",
        ),
        (("2016-07-01 02:00:00", "2016-07-32"), r"line 4: '2016-07-32' is not a date, .*\(ISO 8601, as in '2016-07-01"),
        (("2016-07-01 02", "2016-07-01 01"), r"line 4: 2016-07-01 01:00:00 occurs twice, first on line 3"),
        (("2016-07-01 02", "2016-06-01 02"), r"line 4: 2016-06-01 02:00:00 comes after 2016-07-01 01:00:00 of line 3"),
        (("2016-07-01 03", "2016-07-01 07"), r"between lines 4 and 5: a gap from .*, 4 steps of 1 hour missing"),
        (("2016-07-01 03:00", "2016-07-01 03:30"), r"line 5: .* is not a whole number of steps of 1 hour"),
        (("5.693,", ""), r"line 3: 2 cells, expected 3"),
        (("HUFL", "OT"), r"line 1: two columns are called 'OT'"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = write(tmp_path, WIDE.replace(*change))
    with pytest.raises(InputError, match=message) as error:
        read_series(path)
    assert str(path) in str(error.value)


def test_files_without_rows_or_series(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has a header but no rows"):
        read_series(write(tmp_path, "date,x\n"))
    with pytest.raises(InputError, match="expected a date and at least one series"):
        read_series(write(tmp_path, "x\n1\n"))
    with pytest.raises(InputError, match="one row"):
        read_series(write(tmp_path, "date,x\n2020-01-01,1\n"))
    with pytest.raises(InputError, match="no such file"):
        read_series(tmp_path / "none.csv")


def test_gaps_and_empty_cells_are_filled_on_request_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, WIDE.replace("2016-07-01 02:00:00,5.157,27.787\n", "").replace("5.693", ""))
    straight = read_series(path, fill="interpolate")
    assert straight.filled == 3
    np.testing.assert_allclose(straight.values[:, 0], np.linspace(5.827, 5.09, 4), rtol=1e-6)
    assert straight.values[2, 1] == pytest.approx((27.787 + 25.044) / 2)
    held = read_series(path, fill="previous")
    np.testing.assert_allclose(held.values, [[5.827, 30.531], [5.827, 27.787], [5.827, 27.787], [5.09, 25.044]])
    empty_start = write(tmp_path, WIDE.replace("5.827", ""))
    with pytest.raises(InputError, match="first 1 values are missing"):
        read_series(empty_start, fill="previous")


def test_series_of_unequal_spans_are_cut_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, LONG.replace("a,2020-01-01,1\n", "") + "b,2020-01-04,40\n")
    with pytest.raises(InputError, match=r"'a' goes from 2020-01-02.* Use --cut"):
        read_series(path)
    series = read_series(path, cut=True)
    np.testing.assert_array_equal(series.values, [[2, 20], [3, 30]])
    assert series.cut == 2
    apart = write(tmp_path, "unique_id,ds,y\na,2020-01-01,1\na,2020-01-02,1\nb,2021-01-01,1\nb,2021-01-02,1\n")
    with pytest.raises(InputError, match="the series do not overlap in time"):
        read_series(apart, cut=True)


def test_a_long_series_names_what_is_doubled(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 7: 2020-01-02 00:00:00 occurs twice of series 'b', first on line 6"):
        read_series(write(tmp_path, LONG.replace("b,2020-01-03", "b,2020-01-02")))


def test_a_split_by_fractions_or_rows() -> None:
    assert split_rows(100).train == 70
    assert (split_rows(100).validation, split_rows(100).test) == (80, 100)
    borders = split_rows(17_420, (8640, 2880, 2880))
    assert (borders.train, borders.validation, borders.test) == (8640, 11_520, 14_400)
    for parts, message in (
        ((0.5, 0.5, 0.5), "add up to 1"),
        ((80, 20, 20), "needs 120 rows, but there are 100"),
        ((1, 0, 0), "three numbers above 0"),
    ):
        with pytest.raises(InputError, match=message):
            split_rows(100, parts)


def test_the_windows_of_a_part_forecast_every_row_of_it() -> None:
    """The usual number of test windows: rows - horizon + 1, since a window may read rows before the part."""
    rows = np.arange(200, dtype=np.float32).reshape(100, 2)
    split = split_rows(100)
    test = windows(split.part(rows, "test", 12), 12, 4)
    assert len(test) == 20 - 4 + 1
    np.testing.assert_array_equal(test[0][1], rows[80:84])
    np.testing.assert_array_equal(test[-1][1], rows[96:])
    assert len(windows(split.part(rows, "train", 12), 12, 4)) == 70 - 16 + 1
    with pytest.raises(InputError, match="validation looks back 71 rows, but only 70 come before it"):
        split.part(rows, "validation", 71)


def test_windows_are_views() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    every = windows(rows, 5, 2)
    assert len(every) == len(list(every)) == 24
    for index, (past, future) in enumerate(every):
        assert np.shares_memory(past, rows)
        assert np.shares_memory(future, rows)
        np.testing.assert_array_equal(np.concatenate([past, future]), every.all()[index])
    assert np.shares_memory(every.all(), rows)
    with pytest.raises(IndexError, match="window 24 of 24"):
        every[24]
    with pytest.raises(InputError, match="30 rows are too few for a window: 28 to read and 3"):
        windows(rows, 28, 3)


def test_the_scaler_knows_only_what_it_was_fitted_on() -> None:
    rows = np.random.default_rng(0).normal(5.0, 3.0, size=(50, 2)).astype(np.float32)
    rows[:, 1] = 7.0
    scaler = Scaler.fit(rows[:40])
    scaled = scaler.scale(rows)
    np.testing.assert_allclose(scaled[:40, 0].mean(), 0.0, atol=1e-6)
    np.testing.assert_allclose(scaled[:40, 0].std(), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(scaled[:, 1], 0.0)
    np.testing.assert_allclose(scaler.unscale(scaled), rows, rtol=1e-5)


def test_ett() -> None:
    path = shared("ett/ETTh1.csv")
    series: Series = read_series(path)
    assert series.names == ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    assert series.values.shape == (17_420, 7)
    assert str(series.frequency) == "1 hour"
    split = split_rows(len(series), (8640, 2880, 2880))
    # The number of test windows that papers report on at horizon 96.
    assert len(windows(split.part(series.values, "test", 336), 336, 96)) == 2785


def test_columns_that_are_not_chosen_may_have_one_name(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("date,Close,Volume,Volume\n2024-01-01,1.5,x,y\n2024-01-02,2.5,x,y\n", encoding="utf-8")
    assert read_series(file, SeriesFormat(columns=("Close",))).values[:, 0].tolist() == [1.5, 2.5]
    with pytest.raises(InputError, match="line 1: two columns are called 'Volume'"):
        read_series(file, SeriesFormat(columns=("Volume",)))


class CountedName(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    def strip(self, *_: object) -> "CountedName":  # type: ignore[override]
        return self


def test_columns_are_not_compared_with_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 10,000 columns: fifty million comparisons would take longer than everything else."""
    names = ["date", *(f"c{i}" for i in range(10_000))]
    rows = "".join(f"2024-01-0{day}{',1.5' * 10_000}\n" for day in (1, 2, 3))
    file = tmp_path / "wide.csv"
    file.write_text(f"{','.join(names)}\n{rows}", encoding="utf-8")
    real = cells.read_table

    def counted(*given: Any) -> Any:
        table = real(*given)
        return replace(table, names=[CountedName(name) for name in table.names])

    monkeypatch.setattr(cells, "read_table", counted)
    series = read_series(file)
    assert series.values.shape == (3, 10_000)
    assert CountedName.compared < 10 * len(names)
