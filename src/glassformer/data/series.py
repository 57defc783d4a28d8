"""Time series: from a CSV file, wide or long, to rows of numbers at even steps, and to the windows a model learns from.

    wide   date,HUFL,HULL,...,OT       the date first, then a column for each series (as in ETT: Zhou et al., 2021)
    long   unique_id,ds,y              one value a line; every series has its name in the first of these columns

Which of the two it is follows from the names of the columns. A cell that is empty or no number, a date that is not
one, doubled or out of order, and a gap are errors that name the line. Empty cells and gaps are filled when asked for
(`fill`), long series cut to the span they share (`cut`); how much was done is counted in the Series.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.data.files import AS_FOUND, read_table
from glassformer.data.formats.table import TableOptions
from glassformer.errors import InputError

Fill = Literal["interpolate", "previous"]
Times = NDArray[np.datetime64]
Values = NDArray[np.float32]

LONG = ("unique_id", "ds", "y")
MISSING = {"", "nan", "na", "n/a", "null", "none"}
# The year comes first, or it would be a guess which number is the month.
DATE = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?")
ASK_FOR_FILL = "Ask for fill='interpolate' or fill='previous' (--fill), or complete the file"


@dataclass(frozen=True)
class Frequency:
    """The step from one row to the next: so many seconds, or so many months."""

    count: int
    unit: Literal["second", "month"]

    def __str__(self) -> str:
        for seconds, name in ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
            if self.unit == "second" and self.count % seconds == 0:
                return f"{self.count // seconds} {name}{'s' if self.count > seconds else ''}"
        return f"{self.count} month{'s' if self.count > 1 else ''}"


@dataclass(frozen=True)
class Series:
    """Several series of the same span and step, one a column."""

    names: tuple[str, ...]
    times: Times  # (T)
    values: Values  # (T, C)
    frequency: Frequency
    filled: int = 0  # values that the file did not have
    cut: int = 0  # values outside the span that all series share

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Scaler:
    """z = (value - mean) / deviation, for each series by itself."""

    mean: Values  # (C)
    deviation: Values  # (C)

    @classmethod
    def fit(cls, rows: Values) -> "Scaler":
        """From the rows of training alone: what comes later is not known then."""
        deviation = rows.std(axis=0, dtype=np.float64)
        deviation[deviation == 0] = 1.0  # a series that never changes stays at 0
        return cls(rows.mean(axis=0, dtype=np.float64).astype(np.float32), deviation.astype(np.float32))

    def scale(self, values: Values) -> Values:
        return (values - self.mean) / self.deviation

    def unscale(self, values: Values) -> Values:
        return values * self.deviation + self.mean


@dataclass(frozen=True)
class Windows:
    """Every stretch of `length` rows and the `horizon` rows after it. They are views: nothing is copied."""

    rows: Values  # (T, C)
    length: int
    horizon: int

    def __len__(self) -> int:
        return len(self.rows) - self.length - self.horizon + 1

    def __getitem__(self, index: int) -> tuple[Values, Values]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        start, middle = index % len(self), index % len(self) + self.length
        return self.rows[start:middle], self.rows[middle : middle + self.horizon]

    def __iter__(self) -> Iterator[tuple[Values, Values]]:
        return (self[index] for index in range(len(self)))

    def all(self) -> Values:
        """All windows at once, past and future together: (N, length + horizon, C), still a view."""
        both = np.lib.stride_tricks.sliding_window_view(self.rows, self.length + self.horizon, axis=0)  # (N, C, L+H)
        return both.swapaxes(1, 2)  # (N, L+H, C)


def windows(rows: Values, length: int, horizon: int) -> Windows:
    """Every window of these rows; an error if there is none."""
    if length < 1 or horizon < 1:
        raise InputError(f"a window of length {length} and horizon {horizon}: expected at least 1 for both")
    if len(rows) < length + horizon:
        raise InputError(
            f"{len(rows)} rows hold no window: {length} to look back on and {horizon} to forecast need "
            f"{length + horizon}. Choose a shorter length or horizon, or give more rows"
        )
    return Windows(rows, length, horizon)


@dataclass(frozen=True)
class Split:
    """Where training ends, validation ends and the test ends, in rows."""

    train: int
    validation: int
    test: int

    def part(self, rows: Values, name: Literal["train", "validation", "test"], length: int) -> Values:
        """The rows of a part. Validation and test start `length` rows early: their first window looks back on these."""
        start, end = {
            "train": (0, self.train),
            "validation": (self.train - length, self.validation),
            "test": (self.validation - length, self.test),
        }[name]
        if start < 0:
            raise InputError(f"{name} looks back {length} rows, and only {start + length} stand before it")
        return rows[start:end]


def split_rows(total: int, parts: Sequence[float] = (0.7, 0.1, 0.2)) -> Split:
    """By time: the first rows train. Fractions of the whole, or numbers of rows such as ETTh1's (8640, 2880, 2880)."""
    if len(parts) != 3 or any(part <= 0 for part in parts):
        raise InputError(f"a split of {tuple(parts)}: expected three numbers above 0: training, validation, test")
    if all(isinstance(part, int) for part in parts):
        train, validation, test = (int(part) for part in parts)
        if train + validation + test > total:
            raise InputError(
                f"a split of {tuple(parts)} needs {train + validation + test} rows, and there are {total}. "
                f"Choose smaller parts, or fractions such as (0.7, 0.1, 0.2)"
            )
        return Split(train, train + validation, train + validation + test)
    if not math.isclose(sum(parts), 1.0, abs_tol=1e-6):
        raise InputError(f"a split of {tuple(parts)}: fractions must add up to 1, and these give {sum(parts):g}")
    train, test = int(total * parts[0]), int(total * parts[2])
    return Split(train, total - test, total)


def read_series(path: Path, *, fill: Fill | None = None, cut: bool = False, options: TableOptions = AS_FOUND) -> Series:
    """The series of a CSV file, plain or .gz; `fill` and `cut` repair what would otherwise be an error."""
    if fill not in (None, "interpolate", "previous"):
        raise InputError(f"fill is {fill!r}: expected 'interpolate', 'previous' or None")
    rows = read_table(path, options).rows
    header = [name.strip() for name in rows[0].cells]
    table = Cells(path, [[str(cell) for cell in row.cells.values()] for row in rows], [row.line for row in rows])
    return read_long(table, header, fill, cut) if set(LONG) <= set(header) else read_wide(table, header, fill)


@dataclass(frozen=True)
class Cells:
    """The cells of a file, and the line that each row stands on."""

    path: Path
    rows: list[list[str]]
    lines: list[int]

    def number(self, row: int, column: int, name: str) -> float:
        """A cell as a number; nan if it is empty."""
        cell = self.rows[row][column].strip()
        if cell.lower() in MISSING:
            return math.nan
        try:
            number = float(cell)
        except ValueError:
            number = math.inf
        if not math.isfinite(number) or "_" in cell:
            raise InputError(f"{self.path}, line {self.lines[row]}, column {name!r}: {cell!r} is not a number")
        return number

    def time(self, row: int, column: int) -> datetime:
        cell = self.rows[row][column].strip()
        try:
            if match := DATE.fullmatch(cell):
                year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
                return datetime(year, month, day, hour, minute, second)
            time = datetime.fromisoformat(cell)
        except ValueError:
            raise InputError(
                f"{self.path}, line {self.lines[row]}: {cell!r} is no date. "
                f"Expected the year first, such as 2016-07-01 or 2016-07-01 13:00:00"
            ) from None
        return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time


def read_wide(table: Cells, header: list[str], fill: Fill | None) -> Series:
    """A column of dates, then a column for each series."""
    names = header[1:]
    if not names:
        raise InputError(
            f"{table.path}, line 1: one column {header[0]!r}, expected a date and at least one series, "
            f"or the columns {', '.join(LONG)}"
        )
    rows = range(len(table.rows))
    times = [table.time(row, 0) for row in rows]
    check_order(table, times, table.lines)
    values = np.array([[table.number(row, 1 + c, name) for c, name in enumerate(names)] for row in rows])  # (T, C)
    check_missing(table, values, table.lines, names, fill)
    return regular(table, names, times, values, table.lines, fill)


def read_long(table: Cells, header: list[str], fill: Fill | None, cut: bool) -> Series:
    """One value a line. The series are brought side by side, so they must share their times."""
    which, when, what = (header.index(name) for name in LONG)
    groups: dict[str, list[int]] = {}
    for row, cells in enumerate(table.rows):
        groups.setdefault(cells[which].strip(), []).append(row)
    columns: list[Series] = []
    for name, rows in groups.items():
        lines = [table.lines[row] for row in rows]
        times = [table.time(row, when) for row in rows]
        check_order(table, times, lines, f" of series {name!r}")
        values = np.array([[table.number(row, what, "y")] for row in rows])  # (T, 1)
        check_missing(table, values, lines, [name], fill)
        columns.append(regular(table, [name], times, values, lines, fill))
    return side_by_side(table.path, columns, cut)


def check_order(table: Cells, times: list[datetime], lines: list[int], of: str = "") -> None:
    for before, after, line, next_line in zip(times, times[1:], lines, lines[1:], strict=False):
        if before == after:
            raise InputError(f"{table.path}, line {next_line}: {after} is there twice{of}, first on line {line}")
        if before > after:
            raise InputError(
                f"{table.path}, line {next_line}: {after} comes after {before} of line {line}{of}. Sort by date"
            )


def check_missing(
    table: Cells, values: NDArray[np.float64], lines: list[int], names: list[str], fill: Fill | None
) -> None:
    missing = np.argwhere(np.isnan(values))
    if len(missing) and fill is None:
        row, column = missing[0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"{table.path}, line {lines[row]}, column {names[column]!r}: no value{more}. {ASK_FOR_FILL}")


def regular(
    table: Cells,
    names: list[str],
    times: list[datetime],
    values: NDArray[np.float64],
    lines: list[int],
    fill: Fill | None,
) -> Series:
    """Rows at even steps: gaps are an error, or filled together with the empty cells."""
    if len(times) < 2:
        raise InputError(f"{table.path}: {', '.join(names)} has one row: the step between rows needs at least 2")
    # The last days of months are no even number of days apart, but the days after them are the firsts of months.
    shift = timedelta(days=1 if all((time + timedelta(days=1)).day == 1 for time in times) else 0)
    frequency = find_frequency([time + shift for time in times])
    places = [count_steps(times[0] + shift, time + shift, frequency) for time in times]
    for row, place in enumerate(places):
        if place is None:
            raise InputError(
                f"{table.path}, line {lines[row]}: {times[row]} is not a whole number of steps of {frequency} "
                f"after {times[0]} of line {lines[0]}, and most rows are"
            )
    rows = [place for place in places if place is not None]
    if fill is None:
        for row in range(1, len(rows)):
            if missing := rows[row] - rows[row - 1] - 1:
                raise InputError(
                    f"{table.path}, between lines {lines[row - 1]} and {lines[row]}: a gap from {times[row - 1]} to "
                    f"{times[row]}, {missing} step{'s' if missing > 1 else ''} of {frequency} missing. {ASK_FOR_FILL}"
                )
    whole = np.full((rows[-1] + 1, len(names)), np.nan)
    whole[rows] = values
    filled = int(np.isnan(whole).sum())
    for column, name in enumerate(names):
        whole[:, column] = fill_column(whole[:, column], fill, f"{table.path}, column {name!r}")
    even = step_times(times[0] + shift, frequency, len(whole)) - np.timedelta64(shift.days, "D")
    return Series(tuple(names), even, whole.astype(np.float32), frequency, filled)


def find_frequency(times: list[datetime]) -> Frequency:
    """The commonest step. Steps of 28 to 31 days on one day of the month are months."""
    months = Counter(12 * (b.year - a.year) + b.month - a.month for a, b in pairwise(times))
    if len({(time.day, time.time()) for time in times}) == 1 and 0 not in months:
        return Frequency(months.most_common(1)[0][0], "month")
    seconds = Counter(round((b - a).total_seconds()) for a, b in pairwise(times))
    return Frequency(max(1, seconds.most_common(1)[0][0]), "second")


def count_steps(first: datetime, time: datetime, frequency: Frequency) -> int | None:
    """How many steps after the first row, or None if it is between two steps."""
    if frequency.unit == "month":
        apart: float = 12 * (time.year - first.year) + time.month - first.month
    else:
        apart = (time - first).total_seconds()
    return int(apart // frequency.count) if apart % frequency.count == 0 else None


def step_times(first: datetime, frequency: Frequency, count: int) -> Times:
    """The times of the rows, from the first one on."""
    start, steps = np.datetime64(first, "s"), np.arange(count) * frequency.count
    if frequency.unit == "second":
        return start + steps.astype("timedelta64[s]")
    month = start.astype("datetime64[M]")
    into_month = start - month.astype("datetime64[s]")
    return (month + steps.astype("timedelta64[M]")).astype("datetime64[s]") + into_month


def fill_column(column: NDArray[np.float64], fill: Fill | None, where: str) -> NDArray[np.float64]:
    """Straight lines between the known values, or each one held until the next."""
    known = np.flatnonzero(~np.isnan(column))
    if len(known) == len(column):
        return column
    if len(known) == 0:
        raise InputError(f"{where}: no value at all. Take the column out")
    if fill == "interpolate":
        return np.interp(np.arange(len(column)), known, column[known])
    if known[0] > 0:
        raise InputError(
            f"{where}: the first {known[0]} values are missing, and none is before them. Use 'interpolate'"
        )
    return column[known[np.searchsorted(known, np.arange(len(column)), side="right") - 1]]


def side_by_side(path: Path, columns: list[Series], cut: bool) -> Series:
    """Series of one span as the columns of one; those of unequal spans are cut to what they share, if asked for."""
    first = columns[0]
    for other in columns[1:]:
        if other.frequency != first.frequency:
            raise InputError(
                f"{path}: {first.names[0]!r} has steps of {first.frequency} and {other.names[0]!r} of "
                f"{other.frequency}. Read series of different steps from different files"
            )
        if not cut and (other.times[0] != first.times[0] or other.times[-1] != first.times[-1]):
            raise InputError(
                f"{path}: {first.names[0]!r} goes from {first.times[0]} to {first.times[-1]}, {other.names[0]!r} "
                f"from {other.times[0]} to {other.times[-1]}. Ask for cut=True to keep the span that all series share"
            )
    start, end = max(column.times[0] for column in columns), min(column.times[-1] for column in columns)
    kept = [(column.times >= start) & (column.times <= end) for column in columns]
    times = first.times[kept[0]]
    if not len(times):
        raise InputError(f"{path}: there is no time that all series share: one begins at {start}, one ends at {end}")
    for column, keep in zip(columns, kept, strict=True):
        if not np.array_equal(column.times[keep], times):
            raise InputError(f"{path}: {column.names[0]!r} and {first.names[0]!r} have their steps at different times")
    return replace(
        first,
        names=tuple(column.names[0] for column in columns),
        times=times,
        values=np.concatenate([column.values[keep] for column, keep in zip(columns, kept, strict=True)], axis=1),
        filled=sum(column.filled for column in columns),
        cut=sum(int((~keep).sum()) for keep in kept),
    )
