"""The step from one row of a series to the next: seconds, months, or weekdays.

A daily series without weekends has trading days: its rows go from weekday to weekday, and a missing weekday is a
holiday, not a gap. Future holidays are not known, so forecast times skip only weekends.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Calendar = Literal["auto", "every-day", "weekdays"]
Times = NDArray[np.datetime64]

MAX_HOLIDAYS = 0.15  # share of the weekdays; exchanges are closed on 3 to 8 %
MAX_HOLIDAY = 10  # weekdays in a row that still count as holidays; more are a gap
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Frequency:
    """The step from one row to the next: a number of seconds or months, or from weekday to weekday."""

    count: int
    unit: Literal["second", "month", "weekday"]

    def __str__(self) -> str:
        for seconds, name in ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
            if self.unit == "second" and self.count % seconds == 0:
                return f"{self.count // seconds} {name}{'s' if self.count > seconds else ''}"
        return f"{self.count} {self.unit}{'s' if self.count > 1 else ''}"


EVERY_WEEKDAY = Frequency(1, "weekday")


def regular_steps(times: Sequence[datetime], calendar: Calendar) -> tuple[Frequency, list[int | None]]:
    """The step between ascending times, and the number of steps from the first to each; None for a time between two
    steps."""
    if calendar == "weekdays" or (calendar == "auto" and are_trading_days(times)):
        return EVERY_WEEKDAY, list(place_weekdays(times))
    shift = to_month_start(times)
    frequency = find_frequency([time + shift for time in times])
    return frequency, [count_steps(times[0] + shift, time + shift, frequency) for time in times]


def are_weekdays(times: Sequence[datetime]) -> bool:
    """Whether most rows are a day apart, at one time of day, and none is on a Saturday or Sunday."""
    is_daily = 2 * sum(after - before == DAY for before, after in pairwise(times)) >= len(times) - 1
    return is_daily and all(time.weekday() < 5 and time.time() == times[0].time() for time in times)


def are_trading_days(times: Sequence[datetime]) -> bool:
    """Whether a daily series has no weekends but most weekdays, apart from long gaps, over at least one weekend."""
    if len(times) < 2 or not are_weekdays(times):
        return False
    steps = [(count_weekdays(before, after), (after - before).days) for before, after in pairwise(times)]
    has_weekend = any(days > weekdays for weekdays, days in steps)
    possible = sum(weekdays for weekdays, _ in steps if weekdays <= MAX_HOLIDAY + 1)
    return has_weekend and len(steps) >= (1 - MAX_HOLIDAYS) * possible


def count_weekdays(first: datetime, last: datetime) -> int:
    """The number of weekdays from one weekday to another."""
    return int(np.busday_count(np.datetime64(first, "D"), np.datetime64(last, "D")))


def place_weekdays(times: Sequence[datetime]) -> list[int]:
    """One step per row, also across holidays; a gap too long for holidays has one step per weekday."""
    days = np.array(times, dtype="datetime64[D]")
    apart = np.busday_count(days[:-1], days[1:])
    steps = np.where(apart > MAX_HOLIDAY + 1, apart, 1)
    places: list[int] = np.concatenate([[0], np.cumsum(steps)]).tolist()
    return places


def to_month_start(times: Sequence[datetime]) -> timedelta:
    """One day if all times are on the last day of their month: month ends are not evenly spaced, but the days after
    them are the first of a month."""
    return DAY if all((time + DAY).day == 1 for time in times) else timedelta(0)


def find_frequency(times: Sequence[datetime]) -> Frequency:
    """The most frequent step. Steps of 28 to 31 days on the same day of the month are months."""
    months = Counter(12 * (b.year - a.year) + b.month - a.month for a, b in pairwise(times))
    if len({(time.day, time.time()) for time in times}) == 1 and 0 not in months:
        return Frequency(months.most_common(1)[0][0], "month")
    seconds = Counter(round((b - a).total_seconds()) for a, b in pairwise(times))
    return Frequency(max(1, seconds.most_common(1)[0][0]), "second")


def count_steps(first: datetime, time: datetime, frequency: Frequency) -> int | None:
    """The number of steps after the first row; None if it is between two steps."""
    if frequency.unit == "month":
        apart: float = 12 * (time.year - first.year) + time.month - first.month
    else:
        apart = (time - first).total_seconds()
    return int(apart // frequency.count) if apart % frequency.count == 0 else None


def step_times(first: datetime, frequency: Frequency, count: int) -> Times:
    """This many times, starting with the first."""
    start, steps = np.datetime64(first, "s"), np.arange(count) * frequency.count
    if frequency.unit == "second":
        return start + steps.astype("timedelta64[s]")
    if frequency.unit == "weekday":
        day = start.astype("datetime64[D]")
        later: Times = np.busday_offset(day, steps, roll="forward").astype("datetime64[s]")
        return later + (start - day.astype("datetime64[s]"))
    month = start.astype("datetime64[M]")
    into_month = start - month.astype("datetime64[s]")
    return (month + steps.astype("timedelta64[M]")).astype("datetime64[s]") + into_month


def even_times(times: Sequence[datetime], places: Sequence[int], frequency: Frequency) -> Times:
    """The time of every row, including missing ones."""
    if frequency.unit != "weekday":
        shift = to_month_start(times)
        return step_times(times[0] + shift, frequency, places[-1] + 1) - np.timedelta64(shift.days, "D")
    whole = np.zeros(places[-1] + 1, dtype="datetime64[s]")
    for time, place, next_place in zip(times, places, places[1:], strict=False):
        if next_place > place + 1:
            whole[place:next_place] = step_times(time, frequency, next_place - place)
    whole[list(places)] = np.array(times, dtype="datetime64[s]")
    return whole


def times_after(times: Times, frequency: Frequency, count: int) -> Times:
    """The next `count` times after these."""
    known: list[datetime] = times.astype("datetime64[s]").tolist()
    shift = to_month_start(known) if frequency.unit == "month" else timedelta(0)
    return step_times(known[-1] + shift, frequency, count + 1)[1:] - np.timedelta64(shift.days, "D")


def is_even(times: Sequence[datetime]) -> bool:
    """Whether times rise or fall without a gap, which distinguishes the right date format from a wrong one."""
    ordered = times if times[0] <= times[-1] else times[::-1]
    if len(times) < 2 or any(before >= after for before, after in pairwise(ordered)):
        return False
    return regular_steps(ordered, "auto")[1] == list(range(len(ordered)))
