"""Time series: reads a wide or long table into evenly spaced rows, and makes the windows a model is trained on.

    wide   date,HUFL,HULL,...,OT       a date, and a column for each series (as in ETT: Zhou et al., 2021)
    long   unique_id,ds,y              one value per line; unique_id names the series

The column names decide between the two. The formats of dates and numbers, and whether the rows are trading days, are
detected from the whole file (`columns/`). They are reported (`Series.notes`) and stored (`Series.format`), so that a
run reads later files like its training file. On request, empty cells and gaps are filled (`fill`) and long series
trimmed to their common span (`cut`); both are counted.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from glassformer.data.columns.calendar import (
    EVERY_WEEKDAY,
    MAX_HOLIDAY,
    Calendar,
    Frequency,
    Times,
    are_weekdays,
    count_weekdays,
    even_times,
    regular_steps,
)
from glassformer.data.columns.cells import Cells
from glassformer.data.columns.numbers import Decimal
from glassformer.data.columns.times import read_times
from glassformer.data.files import AS_FOUND, locate, unit_of
from glassformer.data.formats.table import TableOptions
from glassformer.errors import InputError, did_you_mean

Fill = Literal["interpolate", "previous"]
Values = NDArray[np.float32]

LONG_COLUMNS = ("unique_id", "ds", "y")
ASK_FOR_FILL = "Use --fill interpolate or --fill previous, or complete the file"
ASK_FOR_CUT = "Use --cut to keep the span that all series share"
SAME_SPAN = "Give all series the same span"  # for files read like another file, which have no flags
MAX_FILLED = 100  # maximum ratio of filled to existing rows; more mean a wrong date
SESSIONS = 3  # minimum number of overnight gaps that look like trading hours


@dataclass(frozen=True)
class SeriesFormat:
    """How to read a file. Requested values must fit; `remembered` values of another file are used if they fit.

    No columns means all. `dates` is the detected date style (`columns/times.py`).
    """

    columns: tuple[str, ...] = ()
    fill: Fill | None = None
    cut: bool = False
    date_format: str | None = None
    decimal: Decimal | None = None
    calendar: Calendar = "auto"
    dates: str | None = None
    remembered: bool = False

    def __post_init__(self) -> None:
        for name, choices in (("fill", get_args(Fill)), ("decimal", get_args(Decimal))):
            if getattr(self, name) not in (None, *choices):
                raise InputError(f"{name} is {getattr(self, name)!r}: expected {' or '.join(map(repr, choices))}")
        if self.calendar not in get_args(Calendar):
            raise InputError(f"calendar is {self.calendar!r}: expected one of {', '.join(get_args(Calendar))}")

    def to_dict(self) -> dict[str, Any]:
        """The part that a run stores; the columns are the names of its channels."""
        names = ("fill", "cut", "date_format", "dates", "decimal", "calendar")
        return {name: getattr(self, name) for name in names}


ANY = SeriesFormat()


@dataclass(frozen=True)
class Series:
    """Several series with the same time span and step, one per column."""

    names: tuple[str, ...]
    times: Times  # (T)
    values: Values  # (T, C)
    frequency: Frequency
    filled: int = 0  # missing values that were filled
    cut: int = 0  # values outside the common span
    format: SeriesFormat = ANY  # as it was read
    notes: tuple[str, ...] = ()  # what was decided while reading, for the user

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Scaler:
    """z = (value - mean) / deviation, for each series separately."""

    mean: Values  # (C)
    deviation: Values  # (C)

    @classmethod
    def fit(cls, rows: Values) -> "Scaler":
        """Fits on the training rows only."""
        deviation = rows.std(axis=0, dtype=np.float64)
        deviation[deviation == 0] = 1.0  # a series that never changes stays at 0
        return cls(rows.mean(axis=0, dtype=np.float64).astype(np.float32), deviation.astype(np.float32))

    def scale(self, values: Values) -> Values:
        return (values - self.mean) / self.deviation

    def unscale(self, values: Values) -> Values:
        return values * self.deviation + self.mean


@dataclass(frozen=True)
class Windows:
    """Every window of `length` rows and the `horizon` rows after it, as views without copies."""

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
            f"{len(rows)} rows are too few for a window: {length} to read and {horizon} to forecast need "
            f"{length + horizon}. Choose a shorter length or horizon, or give more rows"
        )
    return Windows(rows, length, horizon)


@dataclass(frozen=True)
class SplitEnds:
    """The ends of training, validation and test, in rows."""

    train: int
    validation: int
    test: int

    def part(self, rows: Values, name: Literal["train", "validation", "test"], length: int) -> Values:
        """The rows of a part. Validation and test start `length` rows early, as the past of their first window."""
        start, end = {
            "train": (0, self.train),
            "validation": (self.train - length, self.validation),
            "test": (self.validation - length, self.test),
        }[name]
        if start < 0:
            raise InputError(f"{name} looks back {length} rows, but only {start + length} come before it")
        return rows[start:end]


def split_rows(total: int, parts: Sequence[float] = (0.7, 0.1, 0.2)) -> SplitEnds:
    """Splits by time: the first rows are for training. Fractions, or numbers of rows such as ETTh1's (8640, 2880,
    2880)."""
    if len(parts) != 3 or any(part <= 0 for part in parts):
        raise InputError(f"a split of {tuple(parts)}: expected three numbers above 0: training, validation, test")
    if all(isinstance(part, int) for part in parts):
        train, validation, test = (int(part) for part in parts)
        if train + validation + test > total:
            raise InputError(
                f"a split of {tuple(parts)} needs {train + validation + test} rows, but there are {total}. "
                f"Choose smaller parts, or fractions such as (0.7, 0.1, 0.2)"
            )
        return SplitEnds(train, train + validation, train + validation + test)
    if not math.isclose(sum(parts), 1.0, abs_tol=1e-6):
        raise InputError(f"a split of {tuple(parts)}: fractions must add up to 1, but these give {sum(parts):g}")
    train, test = int(total * parts[0]), int(total * parts[2])
    return SplitEnds(train, total - test, total)


def read_series(
    path: Path,
    form: SeriesFormat = ANY,
    *,
    fill: Fill | None = None,
    cut: bool = False,
    options: TableOptions = AS_FOUND,
) -> Series:
    """Reads the series of a table; `fill` and `cut`, here or in the format, repair what would otherwise be an error."""
    form = replace(form, fill=fill or form.fill, cut=cut or form.cut)
    table = Cells.read(path, options, () if form.remembered else form.columns)
    return read_long(table, form) if set(LONG_COLUMNS) <= set(table.names) else read_wide(table, form)


def read_wide(table: Cells, form: SeriesFormat) -> Series:
    """A column of dates, and a column for each series."""
    when, dated = table.find_times()
    columns, counted = table.find_series(when)
    if not columns:
        raise InputError(
            f"{table.path}, line 1: one column {table.names[0]!r}, expected a date and at least one series, "
            f"or the columns {', '.join(LONG_COLUMNS)}"
        )
    if form.columns and not (form.remembered and missing_of(form.columns, [table.names[i] for i in columns])):
        columns = table.choose(form.columns, columns)
    cells = [" ".join(parts) for parts in zip(*(table.column(i) for i in when), strict=True)]
    column = read_times(
        cells, table.place, column=table.names[when[0]], date_format=form.date_format, remembered=form.dates
    )
    decimal, written = decide_numbers(table, columns, form)
    trained = f"Give the file the columns of the training data: {', '.join(form.columns)}" if form.columns else ""
    advice = trained or "Leave it out of the file"
    values = table.numbers(columns, decimal, advice if form.remembered else "")  # (T, C)
    names = [table.names[i] for i in columns]
    form = replace(form, dates=column.style or None, decimal=decimal if written else form.decimal)
    series = regular(table, names, column.times, values, table.lines, form)
    return replace(series, notes=(*dated, *counted, *column.notes, *written, *series.notes))


def read_long(table: Cells, form: SeriesFormat) -> Series:
    """One value per line. The series become columns, so they must share their times."""
    which, when, what = (table.names.index(name) for name in LONG_COLUMNS)
    groups: dict[str, list[int]] = {}
    for row, name in enumerate(table.column(which)):
        groups.setdefault(name.strip(), []).append(row)
    if form.columns and not (form.remembered and missing_of(form.columns, groups)):
        if missing := missing_of(form.columns, groups):
            raise InputError(f"{table.path} has no series {missing[0]!r}{did_you_mean(missing[0], groups)}")
        kept = sorted(row for name in form.columns for row in groups[name])
        numbers = {row: number for number, row in enumerate(kept)}
        groups = {name: [numbers[row] for row in groups[name]] for name in form.columns}
        table = replace(table, rows=[table.rows[row] for row in kept], lines=[table.lines[row] for row in kept])
    column = read_times(
        table.column(when), table.place, column="ds", date_format=form.date_format, remembered=form.dates,
        groups=list(groups.values()),
    )  # fmt: skip
    decimal, written = decide_numbers(table, [what], form)
    values = table.numbers([what], decimal)  # (T, 1)
    form = replace(form, dates=column.style or None, decimal=decimal if written else form.decimal)
    series = [
        regular(
            table, [name], [column.times[row] for row in rows], values[rows], [table.lines[row] for row in rows], form,
            f" of series {name!r}",
        )
        for name, rows in groups.items()
    ]  # fmt: skip
    joined = side_by_side(table.path, series, form)
    said = dict.fromkeys(note for one in series for note in one.notes)
    return replace(joined, notes=(*column.notes, *written, *said))


def missing_of(names: Sequence[str], known: Sequence[str] | dict[str, list[int]]) -> list[str]:
    return [name for name in names if name not in known]


def decide_numbers(table: Cells, columns: Sequence[int], form: SeriesFormat) -> tuple[Decimal, tuple[str, ...]]:
    """The decimal mark, and a note if the file has commas."""
    if form.decimal is not None and not form.remembered:
        decimal = form.decimal
    else:
        decimal = table.decide_decimal(columns, form.decimal)
    marks = {mark for mark in ",." if any(mark in row[i] for row in table.rows for i in columns)}
    if decimal == "comma" and marks:
        return decimal, ("commas are decimal marks, as in 1.234,5",)
    return decimal, ("commas separate thousands, as in 1,234.5",) if "," in marks else ()


def regular(
    table: Cells,
    names: list[str],
    times: list[datetime],
    values: NDArray[np.float64],
    lines: list[int],
    form: SeriesFormat,
    of: str = "",
) -> Series:
    """Evenly spaced rows, the oldest first; gaps are an error, or filled like empty cells."""
    notes = list[str]()
    if len(times) < 2:
        raise InputError(f"{table.path}: {', '.join(names)} has only one row: the time step needs at least 2")
    if all(before > after for before, after in pairwise(times)):
        times, values, lines = times[::-1], values[::-1], lines[::-1]
        notes.append("the newest row comes first in the file: the order was reversed")
    check_order(table, times, lines, of)
    check_missing(table, values, lines, names, form.fill)
    frequency, found = regular_steps(times, calendar_of(table, times, lines, form))
    places = [place for place in found if place is not None]
    if len(places) < len(found):
        row = found.index(None)
        raise InputError(
            f"{locate(table.path, lines[row])}: {times[row]} is not a whole number of steps of {frequency} "
            f"after {times[0]} of {unit_of(table.path)} {lines[0]}, but most rows are. Correct it, or leave the row out"
        )
    if form.fill is None:
        check_gaps(table, times, lines, places, frequency, form)
    elif places[-1] >= MAX_FILLED * len(places) + MAX_FILLED:
        row = max(range(1, len(places)), key=lambda row: places[row] - places[row - 1])
        raise InputError(
            f"{locate(table.path, lines[row])}: {times[row]} is {places[row] - places[row - 1]:,} steps of "
            f"{frequency} after {times[row - 1]}, too many to fill. Correct the date, or leave the row out"
        )
    whole = np.full((places[-1] + 1, len(names)), np.nan)
    whole[places] = values
    filled = int(np.isnan(whole).sum())
    for column, name in enumerate(names):
        whole[:, column] = fill_column(whole[:, column], form.fill, f"{table.path}, column {name!r}")
    if frequency == EVERY_WEEKDAY:
        absent = count_weekdays(times[0], times[-1]) + 1 - len(whole)
        holidays = f"{absent:,} weekdays without a row count as holidays, and " if absent else ""
        notes.append(
            f"the rows are trading days, without weekends: {holidays}forecasts skip weekends; future holidays are not "
            "known"
        )
    kept = replace(
        form, columns=(), remembered=True, calendar="weekdays" if frequency == EVERY_WEEKDAY else "every-day"
    )
    even = even_times(times, places, frequency)
    with np.errstate(over="ignore"):  # values that are too large are refused later
        rows = whole.astype(np.float32)
    return Series(tuple(names), even, rows, frequency, filled, format=kept, notes=tuple(notes))


def calendar_of(table: Cells, times: list[datetime], lines: list[int], form: SeriesFormat) -> Calendar:
    """The requested calendar; a remembered one is dropped if this file has weekends."""
    if form.calendar != "weekdays" or are_weekdays(times):
        return form.calendar
    if form.remembered:
        return "auto"
    row = next((i for i, time in enumerate(times) if time.weekday() > 4), None)
    why = (
        "several times of a day"
        if row is None
        else f"{times[row]:%A}, {times[row]:%Y-%m-%d}, on {unit_of(table.path)} {lines[row]}"
    )
    raise InputError(
        f"--calendar weekdays is for daily rows without weekends, but {table.path} has {why}. Leave it out"
    )


def check_order(table: Cells, times: list[datetime], lines: list[int], of: str) -> None:
    for before, after, line, next_line in zip(times, times[1:], lines, lines[1:], strict=False):
        if before == after:
            several = (
                ""
                if of
                else f". If the file has several series below each other, call its columns {', '.join(LONG_COLUMNS)}"
            )
            raise InputError(
                f"{locate(table.path, next_line)}: {after} occurs twice{of}, first on {unit_of(table.path)} "
                f"{line}{several}"
            )
        if before > after:
            raise InputError(
                f"{locate(table.path, next_line)}: {after} comes after {before} of {unit_of(table.path)} {line}{of}"
                ". Sort by date"
            )


def check_missing(
    table: Cells, values: NDArray[np.float64], lines: list[int], names: list[str], fill: Fill | None
) -> None:
    missing = np.argwhere(np.isnan(values))
    if len(missing) and fill is None:
        row, column = missing[0]
        more = f", and {len(missing) - 1:,} more values are missing" if len(missing) > 1 else ""
        raise InputError(f"{locate(table.path, lines[row])}, column {names[column]!r}: no value{more}. {ASK_FOR_FILL}")


def check_gaps(
    table: Cells, times: list[datetime], lines: list[int], places: list[int], frequency: Frequency, form: SeriesFormat
) -> None:
    """Refuses missing rows: the error names the first, their number, and the likely reason."""
    gaps = [row for row in range(1, len(places)) if places[row] > places[row - 1] + 1]
    if not gaps:
        return
    row, total = gaps[0], places[-1] + 1 - len(places)
    missing = places[row] - places[row - 1] - 1
    more = f" ({len(gaps):,} gaps with {total:,} missing rows in all)" if len(gaps) > 1 else ""
    advice = ASK_FOR_FILL
    if frequency == EVERY_WEEKDAY:
        advice = f"More than {MAX_HOLIDAY} do not count as holidays. {ASK_FOR_FILL}"
    elif frequency.unit == "second" and frequency.count < 86_400 and len(gaps) >= SESSIONS:
        if all(times[i].date() > times[i - 1].date() for i in gaps):
            advice = (
                "All gaps are over nights or weekends, as in trading hours, which cannot be forecast by the hour. Use "
                "one row a day, or --fill previous to fill the gaps"
            )
    elif frequency == Frequency(86_400, "second") and are_weekdays(times) and not form.remembered:
        advice = "All rows are on weekdays: if the others are holidays, use --calendar weekdays. " + ASK_FOR_FILL
    raise InputError(
        f"{table.path}, between {unit_of(table.path)}s {lines[row - 1]} and {lines[row]}: a gap from {times[row - 1]} "
        f"to {times[row]}, {missing:,} step{'s' if missing > 1 else ''} of {frequency} missing{more}. {advice}"
    )


def fill_column(column: NDArray[np.float64], fill: Fill | None, where: str) -> NDArray[np.float64]:
    """Fills by linear interpolation, or with the previous value."""
    known = np.flatnonzero(~np.isnan(column))
    if len(known) == len(column):
        return column
    if len(known) == 0:
        raise InputError(f"{where}: the column is empty. Use --columns with the names of the others")
    if fill == "interpolate":
        return np.interp(np.arange(len(column)), known, column[known])
    if known[0] > 0:
        raise InputError(
            f"{where}: the first {known[0]} values are missing, with no value before them. Use --fill interpolate"
        )
    return column[known[np.searchsorted(known, np.arange(len(column)), side="right") - 1]]


def side_by_side(path: Path, columns: list[Series], form: SeriesFormat) -> Series:
    """Joins series as columns; series with different time spans are trimmed to the common span on request."""
    first = columns[0]
    for other in columns[1:]:
        if other.frequency != first.frequency:
            raise InputError(
                f"{path}: {first.names[0]!r} has steps of {first.frequency} and {other.names[0]!r} of "
                f"{other.frequency}. Read series of different steps from different files"
            )
        if not form.cut and (other.times[0] != first.times[0] or other.times[-1] != first.times[-1]):
            raise InputError(
                f"{path}: {first.names[0]!r} goes from {first.times[0]} to {first.times[-1]}, {other.names[0]!r} "
                f"from {other.times[0]} to {other.times[-1]}. {SAME_SPAN if form.remembered else ASK_FOR_CUT}"
            )
    start, end = max(column.times[0] for column in columns), min(column.times[-1] for column in columns)
    kept = [(column.times >= start) & (column.times <= end) for column in columns]
    times = first.times[kept[0]]
    if not len(times):
        raise InputError(f"{path}: the series do not overlap in time: one begins at {start}, another ends at {end}")
    for column, keep in zip(columns, kept, strict=True):
        if not np.array_equal(column.times[keep], times):
            raise InputError(f"{path}: {column.names[0]!r} and {first.names[0]!r} have steps at different times")
    return replace(
        first,
        names=tuple(column.names[0] for column in columns),
        times=times,
        values=np.concatenate([column.values[keep] for column, keep in zip(columns, kept, strict=True)], axis=1),
        filled=sum(column.filled for column in columns),
        cut=sum(int((~keep).sum()) for keep in kept),
    )
