"""Parses dates and times: 2024-12-31, 31.12.2024, 12/31/2024 11:00 PM, Dec 2024, 2024년 12월, 1735603200.

The whole column decides the format: the one in which every cell is a time. If two formats remain and give different
times (01/02/2024), the one with evenly spaced rows is used; if that does not decide either, the column is refused.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

from glassformer.data.columns.calendar import is_even
from glassformer.errors import InputError

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
TIME_COLUMNS = {  # of columns that hold times
    *("date", "time", "datetime", "date time", "timestamp", "ds", "day", "week", "month", "quarter", "year", "period"),
    *("날짜", "일자", "일시", "시간", "시각", "시점", "기준일", "기준일자", "거래일", "거래일자", "년월", "연월"),
    *("연도", "년도", "년", "월", "datum", "zeit", "fecha"),
}  # fmt: skip
DAY, MONTH, YEAR, SHORT_YEAR = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})", r"(?P<year>\d{4})", r"(?P<year>\d{2})"
NAME, QUARTER = r"(?P<name>[A-Za-z]{3,9})\.?", r"[Qq](?P<quarter>[1-4])"
WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\.?,?\s+)?"
CLOCK_PATTERN = (
    r"(?:\s*\([월화수목금토일]\))?(?:(?:\s*,\s*|\s+|T)(?:(?P<before>오전|오후)\s*)?(?P<hour>\d{1,2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
)
EPOCHS = {"seconds": (9, 10, 1), "milliseconds": (12, 13, 10**3), "microseconds": (15, 16, 10**6),
          "nanoseconds": (18, 19, 10**9)}  # fmt: skip
ISO = "ISO 8601"
FIRST_YEAR, LAST_YEAR = 100, 9000  # beyond these, earlier and later times could not be computed
FIRST_SHORT_YEAR = 69  # 69 is 1969 and 68 is 2068, as in POSIX
UNKNOWN_ZONE = re.compile(r".*\d\s*([A-Z]{2,5})")
EXCEL_DAY = re.compile(r"[2-5]\d{4}(?:\.\d+)?")
DIRECTIVES = {"year": "%Y", "month": "%m", "day": "%d", "name": "%b", "hour": "%H", "minute": "%M", "second": "%S",
              "half": "%p", "zone": "%z"}  # fmt: skip


@dataclass(frozen=True)
class TimeFormat:
    """One format of times."""

    name: str  # stored with a run
    example: str
    pattern: re.Pattern[str]
    is_usual: bool = False  # so common that it is not reported

    def read(self, cell: str) -> datetime | None:
        match = self.pattern.fullmatch(cell)
        return None if match is None else matched_time(match.groupdict())

    def format(self, cell: str) -> str:
        """The `strptime` format for this cell."""
        match = self.pattern.fullmatch(cell)
        assert match is not None
        groups = {name: text for name, text in match.groupdict().items() if text is not None and name in DIRECTIVES}
        parts, end = [], 0
        for name in sorted(groups, key=match.start):
            directive = DIRECTIVES[name]
            if name == "year" and len(groups[name]) == 2:
                directive = "%y"
            elif name == "hour" and "half" in groups:
                directive = "%I"
            elif name == "name" and len(groups[name]) > 3:
                directive = "%B"
            parts += [cell[end : match.start(name)], directive]
            end = match.end(name)
        return "".join([*parts, cell[end:]])


def dated(name: str, example: str, date: str, *, is_usual: bool = False) -> TimeFormat:
    """A format with a day, which a time of day may follow."""
    return TimeFormat(name, example, re.compile(WEEKDAY + date + CLOCK_PATTERN), is_usual)


def undated(name: str, example: str, pattern: str) -> TimeFormat:
    return TimeFormat(name, example, re.compile(pattern))


TIME_FORMATS = (
    dated("year first", "2024-12-31", rf"{YEAR}\s?[-/.]\s?{MONTH}\s?[-/.]\s?{DAY}\.?", is_usual=True),
    dated("eight digits", "20241231", r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})", is_usual=True),
    dated("in Korean", "2024년 12월 31일", rf"{YEAR}년\s*{MONTH}월\s*{DAY}일", is_usual=True),
    dated("day first", "31.12.2024", rf"{DAY}[./-]{MONTH}[./-]{YEAR}"),
    dated("month first", "12/31/2024", rf"{MONTH}[/-]{DAY}[/-]{YEAR}"),
    dated("day first, two-digit year", "31.12.24", rf"{DAY}[./-]{MONTH}[./-]{SHORT_YEAR}"),
    dated("month first, two-digit year", "12/31/24", rf"{MONTH}[/-]{DAY}[/-]{SHORT_YEAR}"),
    dated("year first, two-digit year", "24/12/31", rf"{SHORT_YEAR}[./-]{MONTH}[./-]{DAY}"),
    dated("six digits, the day last", "241231", r"(?P<year>\d{2})(?P<month>\d{2})(?P<day>\d{2})"),
    dated("day and month by name", "31 Dec 2024", rf"{DAY}[ /-]{NAME},?[ /-](?P<year>\d{{4}}|\d{{2}})"),
    dated("month by name and day", "Dec 31, 2024", rf"{NAME} {DAY},? {YEAR}"),
    undated("year and month", "2024-12", rf"{YEAR}\s?[-/.]\s?{MONTH}"),
    undated("year and month in Korean", "2024년 12월", rf"{YEAR}년\s*{MONTH}월"),
    undated("month and year", "12/2024", rf"{MONTH}[./-]{YEAR}"),
    undated("six digits, year and month", "202412", r"(?P<year>\d{4})(?P<month>\d{2})"),
    undated("month by name and year", "Dec 2024", rf"{NAME}[ /-]{YEAR}"),
    undated("month by name, two-digit year", "Dec-24", rf"{NAME}[-']{SHORT_YEAR}"),
    undated("quarters", "2024Q4", rf"{YEAR}[ -]?{QUARTER}"),
    undated("quarters, the year last", "Q4 2024", rf"{QUARTER}[ /-]?{YEAR}"),
    undated("years", "2024", r"(?P<year>1[5-9]\d\d|2[01]\d\d)년?"),
)


@dataclass(frozen=True)
class TimeColumn:
    """The times of a column, their format, and notes for the user."""

    times: list[datetime]
    style: str
    notes: tuple[str, ...] = ()


def is_time_name(name: str) -> bool:
    """Whether a column has a name for times, such as "Date", "date_time" or "<DATE>"."""
    return name.strip().strip("<>").replace("_", " ").split("(")[0].strip().lower() in TIME_COLUMNS


def is_time(cell: str) -> bool:
    """Whether a cell is a time in any known format."""
    return any(read(cell.strip()) for read in TIME_READERS.values())


def read_times(
    cells: Sequence[str],
    place: Callable[[int], str],
    *,
    column: str,
    date_format: str | None = None,
    remembered: str | None = None,
    groups: Sequence[Sequence[int]] | None = None,
) -> TimeColumn:
    """Parses a column as times without zone. `place` names a row in errors; `groups` are the rows of each series, if
    several.

    `date_format`, as for `strptime`, has priority. A `remembered` style is used if it fits.
    """
    cells = [cell.strip() for cell in cells]
    for row, cell in enumerate(cells):
        if not cell:
            raise InputError(f"{place(row)}: the date is empty. Complete it, or leave the row out")
    if date_format is not None:
        times, notes = settle_zones([by_format(cell, date_format, place(row)) for row, cell in enumerate(cells)], place)
        return TimeColumn(times, "", notes)
    found, reached = {}, {}
    for name, read in TIME_READERS.items():
        if ISO in found:  # unambiguous
            break
        times = []
        for cell in cells:
            time = read(cell)
            if time is None:
                break
            times.append(time)
        reached[name] = len(times)
        if len(times) == len(cells) and (name != "years" or is_time_name(column) or is_even(times)):
            found[name] = times
    if not found:
        raise not_times(cells, place, column, reached)
    name = remembered if remembered in found else decide(found, cells, place(0), groups or [range(len(cells))])
    times, notes = settle_zones(found[name], place)
    return TimeColumn(times, name, (*say_style(name, cells), *notes))


def read_epoch(cell: str, unit: str) -> datetime | None:
    shortest, longest, per_second = EPOCHS[unit]
    match = re.fullmatch(r"(\d+)(?:\.(\d{1,6}))?", cell)
    if match is None or not shortest <= len(match[1]) <= longest:
        return None
    seconds, rest = divmod(int(match[1]), per_second)
    fraction = rest * 10**6 // per_second if per_second > 1 else int((match[2] or "0").ljust(6, "0"))
    return datetime(1970, 1, 1) + timedelta(seconds=seconds, microseconds=fraction)


def read_iso(cell: str) -> datetime | None:
    """Formats that the standard library reads quickly: 2024-12-31T23:00:00+09:00, 20241231, 2024-W52-2."""
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        return None


def matched_time(groups: dict[str, str | None]) -> datetime | None:
    """The time of a match; None if there is no such time."""
    year, month = int(groups["year"] or 0), int(groups.get("month") or 1)
    if len(groups["year"] or "") == 2:
        year += 1900 if year >= FIRST_SHORT_YEAR else 2000
    if name := (groups.get("name") or "").lower():
        whole = "september" if name == "sept" else name
        month = next((i for i, known in enumerate(MONTHS, start=1) if known.startswith(whole)), 0)
    if quarter := groups.get("quarter"):
        month = 3 * int(quarter) - 2
    hour, minute, second = (int(groups.get(part) or 0) for part in ("hour", "minute", "second"))
    half = (groups.get("half") or {"오전": "am", "오후": "pm"}.get(groups.get("before") or "", "")).lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    ends = (hour, minute, second) == (24, 0, 0)  # 24:00 is the start of the next day
    fraction = int((groups.get("fraction") or "0")[:6].ljust(6, "0"))
    try:
        time = datetime(year, month, int(groups.get("day") or 1), 0 if ends else hour, minute, second, fraction)
        time += timedelta(days=1 if ends else 0)
    except (ValueError, OverflowError):
        return None
    return time if groups.get("zone") is None else time.replace(tzinfo=as_zone(str(groups["zone"])))


def as_zone(text: str) -> timezone:
    if text in ("Z", "UTC", "GMT"):
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(min(offset, timedelta(hours=23, minutes=59)) * (-1 if text[0] == "-" else 1))


TIME_READERS: dict[str, Callable[[str], datetime | None]] = {
    ISO: read_iso,
    **{style.name: style.read for style in TIME_FORMATS},
    **{f"{unit} since 1970": partial(read_epoch, unit=unit) for unit in EPOCHS},
}


def by_format(cell: str, date_format: str, place: str) -> datetime:
    try:
        return datetime.strptime(cell, date_format)
    except ValueError:
        raise InputError(
            f"{place}: {cell!r} is not a date in the format {date_format!r}. Give --date-format as the file has it"
        ) from None


def decide(found: dict[str, list[datetime]], cells: Sequence[str], place: str, groups: Sequence[Sequence[int]]) -> str:
    """The only format, or the only one in which the rows are evenly spaced."""
    first = next(iter(found))
    if all(times == found[first] for times in found.values()):
        return first
    even = [
        name
        for name, times in found.items()
        if all(is_even([times[row].replace(tzinfo=None) for row in rows]) for rows in groups)
    ]
    if even and all(found[name] == found[even[0]] for name in even):
        return even[0]
    by_name = {style.name: style for style in TIME_FORMATS}
    left = [by_name[name] for name in even or found if name in by_name]
    ways, formats = [style.name for style in left], [f"--date-format {style.format(cells[0])!r}" for style in left]
    raise InputError(
        f"{place}: {cells[0]!r} is ambiguous, and so is the whole column: {' or '.join(ways)}. "
        f"Give {' or '.join(formats)}"
    )


def settle_zones(times: list[datetime], place: Callable[[int], str]) -> tuple[list[datetime], tuple[str, ...]]:
    """Removes time zones: times stay as written if all have one offset, or if all are at one time of day, like days;
    otherwise they are converted to UTC."""
    for row, time in enumerate(times):
        if not FIRST_YEAR <= time.year <= LAST_YEAR:
            raise InputError(f"{place(row)}: the year {time.year} is not supported. Correct it, or leave the row out")
    odd = next((row for row, time in enumerate(times) if (time.tzinfo is None) != (times[0].tzinfo is None)), None)
    if odd is not None:
        raise InputError(
            f"{place(odd)}: this row or the first row has a time zone, but not both. Give all rows one, or none"
        )
    if times[0].tzinfo is None:
        return times, ()
    local, offsets = [time.replace(tzinfo=None) for time in times], {time.utcoffset() for time in times}
    if len(offsets) == 1:
        zone = str(times[0].tzinfo)
        return local, () if zone == "UTC" else (f"times are at {zone}, as written",)
    if len({time.time() for time in local}) == 1:
        return local, ("the time zone changes its offset: dates are local, as written",)
    return [time.astimezone(UTC).replace(tzinfo=None) for time in times], (
        "the time zone changes its offset: times are in UTC",
    )


def say_style(name: str, cells: Sequence[str]) -> tuple[str, ...]:
    usual = {style.name for style in TIME_FORMATS if style.is_usual} | {ISO}
    return () if name in usual else (f"dates are read as {name} ({cells[0]} to {cells[-1]})",)


def not_times(cells: Sequence[str], place: Callable[[int], str], column: str, reached: dict[str, int]) -> InputError:
    """The error that names the first cell that is not a time, and what to do."""
    best = max(reached, key=lambda name: reached[name])
    row = reached[best] % len(cells)
    cell = cells[row]
    if row:
        return InputError(
            f"{place(row)}: {cell!r} is not a date, or not written as those before it ({best}, as in {cells[0]!r}). "
            "Correct it, or leave the row out"
        )
    if all(map(EXCEL_DAY.fullmatch, cells)):
        return InputError(
            f"{place(0)}: {cell!r} is an Excel day number. Choose a date format for the column there, such as "
            "yyyy-mm-dd, and save the table again"
        )
    zone = UNKNOWN_ZONE.fullmatch(cell)
    if zone and is_time(cell.removesuffix(zone[1]).strip()):
        return InputError(f"{place(0)}: the time zone {zone[1]!r} of {cell!r} is not known. Write it as in +09:00")
    return InputError(
        f"{place(0)}, column {column!r}: {cell!r} is not a date in a known format. Give --date-format, such as "
        "--date-format '%d/%m/%Y %H:%M', or put the dates into the first column"
    )
