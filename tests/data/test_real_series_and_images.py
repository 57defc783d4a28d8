"""Series and images as written by exchanges, spreadsheets, libraries, cameras and scanners: each is read correctly, or
refused with an error that says what to do."""

import io
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

from glassformer.data.images import read_images
from glassformer.data.pixels import inspect_image, read_image
from glassformer.data.series import Series, SeriesFormat, read_series
from glassformer.errors import InputError

TRADING = "the rows are trading days, without weekends: {}forecasts skip weekends; future holidays are not known"
THOUSANDS, DECIMAL = "commas separate thousands, as in 1,234.5", "commas are decimal marks, as in 1.234,5"
REVERSED = "the newest row comes first in the file: the order was reversed"


@dataclass(frozen=True)
class Read:
    """The expected result of reading a file of series."""

    first: str  # time
    last: str
    step: str
    values: Sequence[float]  # of the first row
    names: tuple[str, ...] = ("x",)
    rows: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A file and its expected result; a text is the expected error."""

    text: str
    expected: Read | str
    form: dict[str, Any] = field(default_factory=dict)
    name: str = "series.csv"


def table(header: str, rows: Sequence[str]) -> str:
    return "\n".join([header, *rows]) + "\n"


def times(
    count: int, form: str, *, step: timedelta = timedelta(days=1), first: datetime = datetime(2024, 1, 1)
) -> list[str]:
    return [(first + i * step).strftime(form) for i in range(count)]


def numbered(cells: Sequence[str], header: str = "date,x") -> str:
    """Dates, followed by 0, 1, 2, ..."""
    return table(header, [f"{cell},{i}" for i, cell in enumerate(cells)])


def trading_days(count: int = 30, holidays: Sequence[date] = (date(2024, 1, 15),)) -> list[date]:
    """From Tuesday, 2024-01-02."""
    days = [date(2024, 1, 2) + timedelta(days=i) for i in range(2 * count)]
    return [day for day in days if day.weekday() < 5 and day not in holidays][:count]


DAYS = trading_days()
NEWEST_FIRST = list(enumerate(DAYS))[::-1]
ISO = times(20, "%Y-%m-%d")
ASK_FOR_FILL = "Use --fill interpolate or --fill previous, or complete the file"
HOLIDAY = TRADING.format("1 weekdays without a row count as holidays, and ")
DAILY = Read("2024-01-01", "2024-01-20", "1 day", [0], rows=20)
MONTHLY = Read("2024-01-01", "2025-02-01", "1 month", [0], rows=14)
MONTHS = [datetime(2024 + i // 12, i % 12 + 1, 1) for i in range(14)]


def daily(*notes: str) -> Read:
    return Read(DAILY.first, DAILY.last, DAILY.step, DAILY.values, rows=20, notes=notes)


def monthly(*notes: str) -> Read:
    return Read(MONTHLY.first, MONTHLY.last, MONTHLY.step, MONTHLY.values, rows=14, notes=notes)


def hourly(*notes: str) -> Read:
    return Read("2025-01-01", "2025-01-02 05:00:00", "1 hour", [0], rows=30, notes=notes)


def hours(form: str) -> list[str]:
    return times(30, form, step=timedelta(hours=1), first=datetime(2025, 1, 1))


INVESTING = table(
    '"Date","Price","Open","High","Low","Vol.","Change %"',
    [
        f'"{day:%m/%d/%Y}","{4700 + i:,}.50","{4700 + i:,}.10","4,800.00","4,600.00","{i}.25M","0.52%"'
        for i, day in NEWEST_FIRST
    ],
)
SERIES = {
    # --- exchanges ----------------------------------------------------------------------------------------------------
    "Yahoo Finance": Case(
        table(
            "Date,Open,High,Low,Close,Adj Close,Volume",
            [f"{day},{100 + i}.500000,{i}.25,1.0,2.0,2.0,{1000 * i}" for i, day in enumerate(DAYS)],
        ),
        Read(
            "2024-01-02",
            "2024-02-13",
            "1 weekday",
            [100.5, 0.25, 1, 2, 2, 0],
            ("Open", "High", "Low", "Close", "Adj Close", "Volume"),
            30,
            (HOLIDAY,),
        ),
    ),
    "Yahoo Finance with null": Case(
        table("Date,Close", [f"{day},{'null' if i == 4 else i}" for i, day in enumerate(DAYS)]),
        "{path}, line 6, column 'Close': no value. {fill}",
    ),
    "Yahoo Finance with null, filled": Case(
        table("Date,Close", [f"{day},{'null' if i == 4 else i}" for i, day in enumerate(DAYS)]),
        Read("2024-01-02", "2024-02-13", "1 weekday", [0], ("Close",), 30, (HOLIDAY,)),
        {"fill": "interpolate"},
    ),
    "yfinance, in the time zone of the exchange": Case(
        table(
            "Date,Close",
            [f"{day} 00:00:00-0{5 if day < date(2024, 3, 10) else 4}:00,{i}" for i, day in enumerate(trading_days(60))],
        ),
        Read(
            "2024-01-02",
            "2024-03-26",
            "1 weekday",
            [0],
            ("Close",),
            60,
            ("the time zone changes its offset: dates are local, as written", HOLIDAY),
        ),
    ),
    "Investing.com": Case(
        INVESTING,
        "{path}: these columns are not numbers: 'Vol.' ('29.25M': a suffix), 'Change %' ('0.52%': a percent sign). Use "
        "the others only: --columns Price Open High Low",
    ),
    "Investing.com, its prices": Case(
        INVESTING,
        Read(
            "2024-01-02",
            "2024-02-13",
            "1 weekday",
            [4700.5, 4600.0],
            ("Price", "Low"),
            30,
            ("dates are read as month first (02/13/2024 to 01/02/2024)", THOUSANDS, REVERSED, HOLIDAY),
        ),
        {"columns": ("Price", "Low")},
    ),
    "Investing.com in German": Case(
        table(
            '"Datum","Zuletzt","Eröffn."',
            [f'"{day:%d.%m.%Y}","{16 + i}.769,36","{16 + i}.500,00"' for i, day in NEWEST_FIRST],
        ),
        Read(
            "2024-01-02",
            "2024-02-13",
            "1 weekday",
            [16_769.36, 16_500],
            ("Zuletzt", "Eröffn."),
            30,
            ("dates are read as day first (13.02.2024 to 02.01.2024)", DECIMAL, REVERSED, HOLIDAY),
        ),
    ),
    "Investing.com in Korean": Case(
        table('"날짜","종가"', [f'"{day:%Y- %m- %d}","{2600 + i:,}.12"' for i, day in NEWEST_FIRST]),
        Read(
            "2024-01-02",
            "2024-02-13",
            "1 weekday",
            [2600.12],
            ("종가",),
            30,
            (THOUSANDS, REVERSED, HOLIDAY),
        ),
    ),
    "KRX": Case(
        table(
            "일자,종가,대비,등락률,거래량",
            [f'{day:%Y/%m/%d},"{71 + i},000",-{i},0.5,"12,345,{678 + i}"' for i, day in NEWEST_FIRST],
        ),
        Read(
            "2024-01-02",
            "2024-02-13",
            "1 weekday",
            [71_000, 0, 0.5, 12_345_678],
            ("종가", "대비", "등락률", "거래량"),
            30,
            (THOUSANDS, REVERSED, HOLIDAY),
        ),
    ),
    "KRX, the price alone, which the volume explains": Case(
        table("일자,종가,거래량", [f'{day:%Y/%m/%d},"{71 + i},000","12,345,678"' for i, day in enumerate(DAYS)]),
        Read("2024-01-02", "2024-02-13", "1 weekday", [71_000], ("종가",), 30, (THOUSANDS, HOLIDAY)),
        {"columns": ("종가",)},
    ),
    "prices that may be thousands or fractions": Case(
        table("date,x", [f'{day},"{71 + i},000"' for i, day in enumerate(DAYS)]),
        "{path}, line 2, column 'x': '71,000' is ambiguous, and so is the whole table. Use --decimal point if it is "
        "71000, or --decimal comma if it is 71.000",
    ),
    "the same, settled": Case(
        table("date,x", [f'{day},"{71 + i},000"' for i, day in enumerate(DAYS)]),
        Read("2024-01-02", "2024-02-13", "1 weekday", [71_000], rows=30, notes=(THOUSANDS, HOLIDAY)),
        {"decimal": "point"},
    ),
    "Binance, milliseconds": Case(
        numbered([str(1_735_689_600_000 + 3_600_000 * i) for i in range(30)], "open_time,x"),
        hourly("dates are read as milliseconds since 1970 (1735689600000 to 1735794000000)"),
    ),
    "Binance since 2025, microseconds": Case(
        numbered([str(1_735_689_600_000_000 + 3_600_000_000 * i) for i in range(30)], "open_time,x"),
        hourly("dates are read as microseconds since 1970 (1735689600000000 to 1735794000000000)"),
    ),
    "seconds since 1970, with a fraction": Case(
        numbered([f"{1_735_689_600 + 3600 * i}.0" for i in range(30)], "timestamp,x"),
        hourly("dates are read as seconds since 1970 (1735689600.0 to 1735794000.0)"),
    ),
    "MetaTrader, date and time apart": Case(
        table("<DATE>,<TIME>,<CLOSE>", [f"{hour},{i}" for i, hour in enumerate(hours("%Y.%m.%d,%H:%M:%S"))]),
        Read(
            "2025-01-01",
            "2025-01-02 05:00:00",
            "1 hour",
            [0],
            ("<CLOSE>",),
            30,
            ("dates and times are joined from '<DATE>' and '<TIME>'",),
        ),
    ),
    "hours of trading": Case(
        numbered([f"{day} {hour:02}:30" for day in DAYS[:8] for hour in range(9, 16)]),
        "{path}, between lines 8 and 9: a gap from 2024-01-02 15:30:00 to 2024-01-03 09:30:00, 17 steps of 1 hour "
        "missing (7 gaps with 167 missing rows in all). All gaps are over nights or weekends, as in trading "
        "hours, which cannot be forecast by the hour. Use one row a day, or --fill previous to fill the gaps",
    ),
    "an exchange that was closed for a month": Case(
        numbered([str(day) for day in (*DAYS[:15], *trading_days(80)[40:])]),
        "{path}, between lines 16 and 17: a gap from 2024-01-23 00:00:00 to 2024-02-28 00:00:00, 25 steps of 1 weekday "
        "missing. More than 10 do not count as holidays. {fill}",
    ),
    "days of work, half of them": Case(
        numbered([str(day) for i, day in enumerate(DAYS) if i % 4]),
        "{path}, between lines 4 and 5: a gap from 2024-01-05 00:00:00 to 2024-01-09 00:00:00, 3 steps of 1 day "
        "missing (9 gaps with 20 missing rows in all). All rows are on weekdays: if the others are holidays, "
        "use --calendar weekdays. {fill}",
    ),
    "days of trading whose weekends are to be filled": Case(
        numbered([str(day) for day in DAYS]),
        Read("2024-01-02", "2024-02-13", "1 day", [0], rows=43),
        {"calendar": "every-day", "fill": "previous"},
    ),
    "a calendar of weekdays for days with weekends": Case(
        numbered(ISO),
        "--calendar weekdays is for daily rows without weekends, but {path} has Saturday, 2024-01-06, on line 7. "
        "Leave it out",
        {"calendar": "weekdays"},
    ),
    # --- spreadsheets and libraries -----------------------------------------------------------------------------------
    "pandas, with the numbers of its rows": Case(
        table(",date,x", [f"{i},{day},{i}" for i, day in enumerate(ISO)]),
        daily("dates are taken from the column 'date'", "the column '' counts the rows and is left out"),
    ),
    "pandas, an index without a name": Case(numbered(ISO, ",x"), daily()),
    "pandas, hours in UTC": Case(numbered(hours("%Y-%m-%d %H:%M:%S+00:00")), hourly()),
    "pandas, hours in Seoul": Case(
        numbered(hours("%Y-%m-%d %H:%M:%S+09:00")), hourly("times are at UTC+09:00, as written")
    ),
    "hours over the change of the clocks": Case(
        numbered([f"2025-03-30 {hour}:00" for hour in ("00:00+01", "01:00+01", "03:00+02", "04:00+02")]),
        Read(
            "2025-03-29 23:00:00",
            "2025-03-30 02:00:00",
            "1 hour",
            [0],
            rows=4,
            notes=("the time zone changes its offset: times are in UTC",),
        ),
    ),
    "a zone in some rows only": Case(
        numbered([*hours("%Y-%m-%d %H:%M")[:20], *hours("%Y-%m-%d %H:%M:00+09:00")[20:]]),
        "{path}, line 22: this row or the first row has a time zone, but not both. Give all rows one, or none",
    ),
    "a zone by its name": Case(
        numbered(hours("%Y-%m-%d %H:%M KST")),
        "{path}, line 2: the time zone 'KST' of '2025-01-01 00:00 KST' is not known. Write it as in +09:00",
    ),
    "Excel, American, hours of twelve": Case(
        numbered(hours("%m/%d/%Y %I:%M %p")),
        hourly("dates are read as month first (01/01/2025 12:00 AM to 01/02/2025 05:00 AM)"),
    ),
    "Excel, American, hours of one day": Case(
        numbered([f"02/01/2025 {clock}" for clock in ("11:00 AM", "12:00 PM", "1:00 PM")]),
        "{path}, line 2: '02/01/2025 11:00 AM' is ambiguous, and so is the whole column: day first or month first. "
        "Give --date-format '%d/%m/%Y %I:%M %p' or --date-format '%m/%d/%Y %I:%M %p'",
    ),
    "Excel, American, hours of one day, settled": Case(
        numbered([f"02/01/2025 {clock}" for clock in ("11:00 AM", "12:00 PM", "1:00 PM")]),
        Read("2025-02-01 11:00:00", "2025-02-01 13:00:00", "1 hour", [0], rows=3),
        {"date_format": "%m/%d/%Y %I:%M %p"},
    ),
    "Excel, American, days": Case(
        numbered(times(20, "%m/%d/%Y")), daily("dates are read as month first (01/01/2024 to 01/20/2024)")
    ),
    "Excel, British, days": Case(
        numbered(times(20, "%d/%m/%Y")), daily("dates are read as day first (01/01/2024 to 20/01/2024)")
    ),
    "Dutch days": Case(
        numbered(times(20, "%d-%m-%Y")), daily("dates are read as day first (01-01-2024 to 20-01-2024)")
    ),
    "German days": Case(
        numbered(times(20, "%d.%m.%Y")), daily("dates are read as day first (01.01.2024 to 20.01.2024)")
    ),
    "days with two digits of the year": Case(
        numbered(times(20, "%d/%m/%y", first=datetime(2024, 12, 25))),
        Read(
            "2024-12-25",
            "2025-01-13",
            "1 day",
            [0],
            rows=20,
            notes=("dates are read as day first, two-digit year (25/12/24 to 13/01/25)",),
        ),
    ),
    "twelve days that may be twelve months": Case(
        numbered(times(12, "%d/%m/%Y")),
        "{path}, line 2: '01/01/2024' is ambiguous, and so is the whole column: day first or month first. Give "
        "--date-format '%d/%m/%Y' or --date-format '%m/%d/%Y'",
    ),
    "months by their first days, which only fit as months": Case(
        numbered([month.strftime("%d/%m/%Y") for month in MONTHS]),
        monthly("dates are read as day first (01/01/2024 to 01/02/2025)"),
    ),
    "two orders in one column": Case(
        numbered(["01/13/2024", "13/01/2024"]),
        "{path}, line 3: '13/01/2024' is not a date, or not written as those before it (month first, as in "
        "'01/13/2024'). Correct it, or leave the row out",
    ),
    "Korean days": Case(numbered(times(20, "%Y년 %m월 %d일")), daily()),
    "Korean days of Excel": Case(numbered(times(20, "%Y. %m. %d.")), daily()),
    "Korean hours of twelve": Case(
        numbered([f"2025-01-01 {'오전' if i < 12 else '오후'} {(i - 1) % 12 + 1}:00" for i in range(24)]),
        Read("2025-01-01", "2025-01-01 23:00:00", "1 hour", [0], rows=24),
    ),
    "hours from 1 to 24": Case(
        numbered([f"2025-01-01 {i:02}:00" for i in range(1, 25)]),
        Read("2025-01-01 01:00:00", "2025-01-02", "1 hour", [0], rows=24),
    ),
    "months by number": Case(
        numbered([month.strftime("%Y-%m") for month in MONTHS]),
        monthly("dates are read as year and month (2024-01 to 2025-02)"),
    ),
    "months in six digits": Case(
        numbered([month.strftime("%Y%m") for month in MONTHS]),
        monthly("dates are read as six digits, year and month (202401 to 202502)"),
    ),
    "months by name": Case(
        numbered([month.strftime("%b %Y") for month in MONTHS]),
        monthly("dates are read as month by name and year (Jan 2024 to Feb 2025)"),
    ),
    "months of Excel": Case(
        numbered([month.strftime("%b-%y") for month in MONTHS]),
        monthly("dates are read as month by name, two-digit year (Jan-24 to Feb-25)"),
    ),
    "days with the name of the month": Case(
        numbered(times(20, '"%b %d, %Y"')),
        daily("dates are read as month by name and day (Jan 01, 2024 to Jan 20, 2024)"),
    ),
    "quarters": Case(
        numbered([f"{2020 + i // 4}Q{i % 4 + 1}" for i in range(8)], "quarter,x"),
        Read("2020-01-01", "2021-10-01", "3 months", [0], notes=("dates are read as quarters (2020Q1 to 2021Q4)",)),
    ),
    "years": Case(
        numbered([str(1990 + i) for i in range(8)], "Year,x"),
        Read("1990-01-01", "1997-01-01", "12 months", [0], rows=8, notes=("dates are read as years (1990 to 1997)",)),
    ),
    "numbers that are no years": Case(
        numbered(["1990", "1987", "1995"], "score,x"),
        "{path}, line 2, column 'score': '1990' is not a date in a known format. Give --date-format, such as "
        "--date-format '%d/%m/%Y %H:%M', or put the dates into the first column",
    ),
    "day numbers of Excel": Case(
        numbered([str(45_292 + i) for i in range(20)]),
        "{path}, line 2: '45292' is an Excel day number. Choose a date format for the column there, such as "
        "yyyy-mm-dd, and save the table again",
    ),
    "a sum at the end": Case(
        table("date,x", [*(f"{day},1" for day in ISO), "Total,20"]),
        "{path}, line 22: 'Total' is not a date, or not written as those before it (ISO 8601, as in '2024-01-01'). "
        "Correct it, or leave the row out",
    ),
    "empty rows at the end": Case(
        table("date,x", [*(f"{day},{i}" for i, day in enumerate(ISO)), ",", ","]),
        daily(),
    ),
    "a column of text between the numbers": Case(
        table("date,city,x", [f"{day},Seoul,{i}" for i, day in enumerate(ISO)]),
        "{path}, line 2, column 'city': 'Seoul' is not a number (text), nor is most of the column. Use the others "
        "only: --columns x",
    ),
    "the same, left out": Case(
        table("date,city,x", [f"{day},Seoul,{i}" for i, day in enumerate(ISO)]),
        daily(),
        {"columns": ("x",)},
    ),
    "the name of a share before the date": Case(
        table("symbol,Date,x", [f"AAPL,{day},{i}" for i, day in enumerate(ISO)]),
        daily("dates are taken from the column 'Date'"),
        {"columns": ("x",)},
    ),
    "amounts of money": Case(
        table("date,x,cost", [f'{day},{i},"$1,234.50"' for i, day in enumerate(ISO)]),
        "{path}, line 2, column 'cost': '$1,234.50' is not a number (a currency sign), nor is most of the column. "
        "Use the others only: --columns x",
    ),
    "one cell that is not a number": Case(
        table("date,x", [f"{day},{'closed' if i == 3 else i}" for i, day in enumerate(ISO)]),
        "{path}, line 5, column 'x': 'closed' is not a number. Correct it, or empty the cell and use --fill",
    ),
    "an empty column": Case(
        table("date,x,note", [f"{day},{i}," for i, day in enumerate(ISO)]),
        "{path}, line 2, column 'note': '' is not a number (no values), nor is most of the column. Use the others "
        "only: --columns x",
    ),
    "a column that is not there": Case(numbered(ISO), "{path} has no column 'y'; choose from x", {"columns": ("y",)}),
    "Swiss thousands": Case(
        table("date,x", [f"{day},{i}'234.5" for i, day in enumerate(ISO, start=1)]),
        Read("2024-01-01", "2024-01-20", "1 day", [1234.5], rows=20),
    ),
    "French numbers": Case(
        table("date,x", [f'{day},"{i}\u202f234,5"' for i, day in enumerate(ISO, start=1)]),
        Read("2024-01-01", "2024-01-20", "1 day", [1234.5], rows=20, notes=(DECIMAL,)),
    ),
    "decimal points and decimal commas": Case(
        table("date,x,y", [f'{day},"{i},5",{i}.25' for i, day in enumerate(ISO, start=1)]),
        "{path} has numbers written in two ways, such as '1.25' and '1,5'. Write all with one decimal mark, or "
        "select columns that have it with --columns",
    ),
    "FRED": Case(
        table("observation_date,DGS10", [f"{day},{'.' if i == 5 else i}" for i, day in enumerate(ISO)]),
        "{path}, line 7, column 'DGS10': no value. {fill}",
    ),
    "JSON lines, one without a value": Case(
        "".join(json.dumps({"date": day} | ({} if i == 2 else {"x": i})) + "\n" for i, day in enumerate(ISO)),
        "{path}, line 3, column 'x': no value. {fill}",
        name="series.jsonl",
    ),
    "newest first, but for one": Case(
        numbered(["2024-01-03", "2024-01-02", "2024-01-01", "2024-01-04"]),
        "{path}, line 3: 2024-01-02 00:00:00 comes after 2024-01-03 00:00:00 of line 2. Sort by date",
    ),
    "several series below each other": Case(
        table("date,x", [f"{day},1" for day in ("2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02")]),
        "{path}, line 3: 2024-01-01 00:00:00 occurs twice, first on line 2. If the file has several series below "
        "each other, call its columns unique_id, ds, y",
    ),
    "a year that means for ever": Case(
        numbered(["2024-01-01", "2024-01-02", "9999-12-31"]),
        "{path}, line 4: the year 9999 is not supported. Correct it, or leave the row out",
    ),
    "a wrong year among seconds that are to be filled": Case(
        numbered(["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2924-01-01 00:00:02"]),
        "{path}, line 4: 2924-01-01 00:00:02 is 28,401,235,201 steps of 1 second after 2024-01-01 00:00:01, too "
        "many to fill. Correct the date, or leave the row out",
        {"fill": "previous"},
    ),
    "two shares below each other, one of them": Case(
        table(
            "unique_id,ds,y",
            [f'{share},{day:%d.%m.%Y},"{i},5"' for share in ("A", "B") for i, day in NEWEST_FIRST],
        ),
        Read(
            "2024-01-02",
            "2024-02-13",
            "1 weekday",
            [0.5],
            ("B",),
            30,
            ("dates are read as day first (13.02.2024 to 02.01.2024)", DECIMAL, REVERSED, HOLIDAY),
        ),
        {"columns": ("B",)},
    ),
}


@pytest.mark.parametrize("case", SERIES.values(), ids=SERIES)
def test_a_series(case: Case, tmp_path: Path) -> None:
    path = tmp_path / case.name
    path.write_text(case.text, encoding="utf-8")
    form = SeriesFormat(**case.form)
    if isinstance(case.expected, str):
        with pytest.raises(InputError) as error:
            read_series(path, form)
        assert str(error.value) == case.expected.replace("{path}", str(path)).replace("{fill}", ASK_FOR_FILL)
        return
    check(read_series(path, form), case.expected)


def check(series: Series, expected: Read) -> None:
    shown = [str(time).replace("T", " ").removesuffix(" 00:00:00") for time in series.times]
    assert (shown[0], shown[-1], str(series.frequency)) == (expected.first, expected.last, expected.step)
    assert series.names == expected.names
    assert series.values.dtype == np.float32
    np.testing.assert_allclose(series.values[0], expected.values, rtol=1e-6)
    assert expected.rows in (None, len(series))
    assert series.notes == expected.notes


def test_what_one_file_decided_settles_another(tmp_path: Path) -> None:
    """Ambiguous dates and numbers are read as in training; otherwise the format is detected again."""
    path = tmp_path / "series.csv"
    path.write_text(table("date,x", [f'{day:%d/%m/%Y},"{i},5"' for i, day in enumerate(DAYS)]), encoding="utf-8")
    kept = read_series(path).format
    assert (kept.dates, kept.decimal, kept.calendar) == ("day first", "comma", "weekdays")
    short = table("date,x", [f'{day},"1,250"' for day in ("02/01/2024", "03/01/2024", "04/01/2024")])
    path.write_text(short, encoding="utf-8")
    again = read_series(path, kept)
    assert [str(time)[:10] for time in again.times] == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert again.values[0, 0] == 1.25
    assert str(again.frequency) == "1 weekday"
    with pytest.raises(InputError, match="is ambiguous"):
        read_series(path)
    path.write_text(numbered(ISO), encoding="utf-8")  # with weekends, the year first
    check(read_series(path, kept), DAILY)
    path.write_text(numbered(times(20, "%Y-%m-%d", step=timedelta(days=7))), encoding="utf-8")  # Mondays
    assert str(read_series(path, kept).frequency) == "7 days"


def test_dates_go_on_over_weekends_and_at_the_ends_of_months(tmp_path: Path) -> None:
    from glassformer.predict.series import following_times

    path = tmp_path / "series.csv"
    path.write_text(numbered([str(day) for day in DAYS]), encoding="utf-8")  # until Tuesday
    assert following_times(read_series(path), 5) == [
        "2024-02-14",
        "2024-02-15",
        "2024-02-16",
        "2024-02-19",
        "2024-02-20",
    ]
    path.write_text(numbered(["2023-11-30", "2023-12-31", "2024-01-31"]), encoding="utf-8")
    assert following_times(read_series(path), 3) == ["2024-02-29", "2024-03-31", "2024-04-30"]


# --- images -----------------------------------------------------------------------------------------------------------

RED, GREEN, BLUE = (200, 0, 0), (0, 200, 0), (0, 0, 200)


def halves(mode: str = "RGB", size: tuple[int, int] = (24, 16)) -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", size, BLUE)
    image.paste(RED, (0, 0, size[0] // 2, size[1]))
    return image.convert(mode)


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def turned(orientation: int, form: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(halves(), form, exif=exif, **({"quality": 95} if form == "JPEG" else {}))


def png_of_16_bits(pixels: np.ndarray) -> bytes:
    """A 16-bit colour image, which Pillow cannot write."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def clear(mode: str) -> Image.Image:
    """The left half is transparent, the right one green or white."""
    image = Image.new("RGBA", (16, 16), (*GREEN, 255))
    image.paste((0, 0, 0, 0), (0, 0, 8, 16))
    return image.convert(mode)


def palette() -> bytes:
    image = Image.new("P", (16, 16), 1)
    image.putpalette([*RED, *GREEN])
    image.paste(0, (0, 0, 8, 16))
    return saved(image, "PNG", transparency=0)


def frames() -> bytes:
    first, second = (Image.new("RGB", (16, 16), colour) for colour in (RED, BLUE))
    return saved(first, "GIF", save_all=True, append_images=[second])


@dataclass(frozen=True)
class Picture:
    """A file, its properties, and its colours on the left and the right; or the expected error."""

    content: Callable[[], bytes]
    size: tuple[int, int] = (24, 16)
    mode: str = "rgb"
    facts: tuple[str, ...] = ()
    left: tuple[int, ...] = RED
    right: tuple[int, ...] = BLUE
    refused: str = ""
    name: str = "picture.png"


PICTURES = {
    "PNG": Picture(lambda: saved(halves(), "PNG")),
    "JPEG of a camera, upright": Picture(lambda: turned(1), name="IMG_0001.JPG"),
    "JPEG of a phone, turned": Picture(
        lambda: turned(6), (16, 24), facts=("rotated",), left=(100, 0, 100), right=(100, 0, 100)
    ),
    "JPEG of a phone, upside down": Picture(lambda: turned(3), facts=("rotated",), left=BLUE, right=RED),
    "JPEG of a front camera, mirrored": Picture(lambda: turned(2), facts=("rotated",), left=BLUE, right=RED),
    "PNG with EXIF data": Picture(lambda: turned(3, "PNG"), facts=("rotated",), left=BLUE, right=RED),
    "JPEG that is called .png": Picture(lambda: turned(1), name="picture.png"),
    "JPEG in CMYK": Picture(lambda: saved(halves("CMYK"), "JPEG", quality=95), facts=("cmyk",), name="print.jpg"),
    "JPEG in grey": Picture(
        lambda: saved(Image.new("L", (16, 16), 90), "JPEG"), (16, 16), "grey", (), (90,), (90,), name="scan.jpeg"
    ),
    "PNG of 16 bits, grey": Picture(
        lambda: saved(Image.fromarray(np.full((16, 16), 65_535, np.uint16)), "PNG"),
        (16, 16),
        "grey",
        ("deep",),
        (255,),
        (255,),
    ),
    "PNG of 16 bits, darker": Picture(
        lambda: saved(Image.fromarray(np.full((16, 16), 40_000, np.uint16)), "PNG"),
        (16, 16),
        "grey",
        ("deep",),
        (156,),
        (156,),
    ),
    "PNG of 16 bits, colours": Picture(
        lambda: png_of_16_bits(np.full((16, 16, 3), (51_400, 0, 65_535))),
        (16, 16),
        facts=("deep",),
        left=(200, 0, 255),
        right=(200, 0, 255),
    ),
    "PNG of 16 bits with a clear shade": Picture(
        lambda: saved(Image.fromarray(np.full((16, 16), 40_000, np.uint16)), "PNG", transparency=40_000),
        (16, 16),
        "grey",
        ("deep", "transparent"),
        (255,),
        (255,),
    ),
    "TIFF of 16 bits": Picture(
        lambda: saved(Image.fromarray(np.full((16, 16), 25_700, np.uint16)), "TIFF"),
        (16, 16),
        "grey",
        ("deep",),
        (100,),
        (100,),
        name="scan.tif",
    ),
    "TIFF of 32 bits": Picture(
        lambda: saved(Image.fromarray(np.full((4, 4), 1 << 20, np.int32)), "TIFF"),
        name="depth.tiff",
        refused="{path} has 32 bits per pixel (I), with unknown range: convert it to 8 or 16 bits first",
    ),
    "TIFF of fractions": Picture(
        lambda: saved(Image.new("F", (4, 4)), "TIFF"),
        name="depth.tiff",
        refused="{path} has 32 bits per pixel (F), with unknown range: convert it to 8 or 16 bits first",
    ),
    "PNG of one bit": Picture(lambda: saved(Image.new("1", (16, 16), 1), "PNG"), (16, 16), "grey", (), (255,), (255,)),
    "PNG with a palette and a clear colour": Picture(
        palette, (16, 16), facts=("transparent",), left=(255, 255, 255), right=GREEN
    ),
    "PNG with transparency": Picture(
        lambda: saved(clear("RGBA"), "PNG"), (16, 16), facts=("transparent",), left=(255, 255, 255), right=GREEN
    ),
    "PNG with transparency, grey": Picture(
        lambda: saved(clear("LA"), "PNG"), (16, 16), "grey", ("transparent",), (255,), (117,)
    ),
    "PNG with an alpha that is opaque": Picture(lambda: saved(halves("RGBA"), "PNG")),
    "GIF of several frames": Picture(frames, (16, 16), facts=("frames",), left=RED, right=RED, name="moving.gif"),
    "WebP": Picture(lambda: saved(halves(), "WEBP", lossless=True), name="picture.webp"),
    "BMP": Picture(lambda: saved(halves(), "BMP"), name="picture.bmp"),
    "HEIC": Picture(
        lambda: b"\0\0\0\x18ftypheic" + bytes(60),
        name="IMG_0002.HEIC",
        refused="{path} is an image in the format HEIC, which Pillow cannot read here: convert it to JPEG or PNG",
    ),
    "HEIC that is called .jpg": Picture(
        lambda: b"\0\0\0\x18ftypmif1" + bytes(60),
        name="IMG_0003.jpg",
        refused="{path} is an image in the format HEIC, which Pillow cannot read here: convert it to JPEG or PNG",
    ),
    "an empty file": Picture(lambda: b"", refused="{path} is empty: expected an image"),
    "a page that says not found": Picture(
        lambda: b"<html>404</html>",
        name="photo.jpg",
        refused="{path} cannot be read as an image: expected a file such as .png or .jpg",
    ),
}


@pytest.mark.parametrize("case", PICTURES.values(), ids=PICTURES)
def test_a_picture(case: Picture, tmp_path: Path) -> None:
    path = tmp_path / case.name
    path.write_bytes(case.content())
    if case.refused:
        with pytest.raises(InputError) as error:
            inspect_image(path)
        assert str(error.value) == case.refused.replace("{path}", str(path))
        return
    look = inspect_image(path)
    assert (look.width, look.height) == case.size
    assert (look.mode, tuple(sorted(look.facts))) == (case.mode, case.facts)
    pixels = read_image(path, 16, look.mode)
    assert pixels.shape == (len(case.left), 16, 16)
    assert pixels.dtype == np.uint8
    for place, colour in ((2, case.left), (13, case.right)):
        np.testing.assert_allclose(pixels[:, :, place].mean(axis=1), colour, atol=6)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
def test_avif(tmp_path: Path) -> None:
    (tmp_path / "picture.avif").write_bytes(saved(halves(), "AVIF"))
    assert inspect_image(tmp_path / "picture.avif").width == 24


def folder_of_a_person(root: Path) -> None:
    """The contents of a folder that was on a phone, a Mac, Windows and a network disk."""
    for name, colour in (("cat", RED), ("dog", BLUE)):
        (root / name / ".ipynb_checkpoints").mkdir(parents=True)
        for number in range(6):
            Image.new("RGB", (20 + number, 30), colour).save(root / name / f"{number}.jpg")
        for junk in ("Thumbs.db", "desktop.ini", ".DS_Store", "._1.jpg", ".ipynb_checkpoints/1-checkpoint.jpg"):
            (root / name / junk).write_bytes(b"junk")
    (root / ".DS_Store").write_bytes(b"junk")
    (root / "__MACOSX").mkdir()


def test_system_files_are_skipped_and_counted(tmp_path: Path) -> None:
    folder_of_a_person(tmp_path)
    images = read_images(tmp_path)["all"]
    assert (len(images), images.names, images.size, images.mode) == (12, ("cat", "dog"), 16, "rgb")
    assert images.found is not None
    assert images.found.notes("rgb", upright=True, background="white") == [
        "12 system files skipped (.DS_Store, ._1.jpg, 1-checkpoint.jpg)"
    ]


def test_all_that_is_wrong_with_a_folder_is_said_at_once(tmp_path: Path) -> None:
    folder_of_a_person(tmp_path)
    for number in range(9):
        (tmp_path / "cat" / f"broken{number}.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "dog" / "notes.txt").write_text("x")
    (tmp_path / "dog" / "IMG.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(60))
    (tmp_path / "labels.txt").write_text("x")
    with pytest.raises(InputError) as error:
        read_images(tmp_path)
    said = str(error.value)
    assert said.startswith(
        f"{tmp_path}: 12 of 24 files cannot be used: {tmp_path / 'dog' / 'notes.txt'} is not an image; "
    )
    assert f"{tmp_path / 'labels.txt'} is not in a class folder: expected" in said
    assert said.count("broken") == 8, "ten are named"
    assert said.endswith("; and 2 more. Replace or move them, or use --skip-corrupt to skip unreadable files")
    images = read_images(tmp_path, skip=True)["all"]
    assert (len(images), len(images.skipped)) == (12, 12)


def test_a_class_that_is_lost_with_its_pictures_is_named(tmp_path: Path) -> None:
    folder_of_a_person(tmp_path)
    (tmp_path / "cow").mkdir()
    (tmp_path / "cow" / "1.jpg").write_bytes(b"")
    with pytest.raises(InputError, match="none of the images in class 'cow' can be read"):
        read_images(tmp_path, skip=True)


def test_a_table_with_paths_of_windows_and_lines_that_are_wrong(tmp_path: Path) -> None:
    folder_of_a_person(tmp_path)
    path = tmp_path / "labels.csv"
    path.write_text("image,label\ncat\\1.jpg,cat\ndog\\1.jpg,dog\n", encoding="utf-8")
    assert read_images(path)["all"].files == (tmp_path / "cat" / "1.jpg", tmp_path / "dog" / "1.jpg")
    path.write_text("image,label\ncat/1.jpg,\ncat/99.jpg,cat\ndog/1.jpg,dog\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_images(path)
    assert str(error.value) == (
        f"{path}, line 2: 'cat/1.jpg' has no label; line 3: {tmp_path / 'cat' / '99.jpg'} does not exist. Correct "
        "the table"
    )
