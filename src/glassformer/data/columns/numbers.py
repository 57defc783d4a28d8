"""Parses numbers such as 1234.5, "1,234.5" or "1.234,5". All cells together decide the decimal mark.

    point   1234.5   1,234.5   1 234.5   1'234.5
    comma   1234,5   1.234,5   1 234,5

Percent and currency signs and suffixes such as K and M are refused, because they change the value.
"""

import math
import re
from collections.abc import Sequence
from typing import Literal

from glassformer.errors import InputError

Decimal = Literal["point", "comma"]

MISSING = {"", "-", "--", ".", "?", "nan", "na", "n/a", "#n/a", "<na>", "null", "none", "nat"}
EXPONENT = r"(?:[eE][-+]?\d+)?"
NUMBER_PATTERNS: dict[Decimal, re.Pattern[str]] = {
    "point": re.compile(rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:,\d{{3}})+)?(?:\.\d*)?{EXPONENT}"),
    "comma": re.compile(rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:\.\d{{3}})+)?(?:,\d*)?{EXPONENT}"),
}
THOUSANDS: dict[Decimal, str] = {"point": ",", "comma": "."}  # separator
SPACED_THOUSANDS = re.compile("(?<=\\d)[ \u00a0\u2009\u202f'\u2019](?=\\d{3}(?!\\d))")
SUFFIX = re.compile(r"[-+]?[\d.,]+\s?[KkMmBbTt]n?")
CURRENCY = re.compile(r"[$€£¥₩₹원]|\b(?:USD|EUR|KRW|GBP|JPY|CNY|CHF)\b")


def tidy(cell: str) -> str:
    """A cell without surrounding spaces and spaces between thousands, and with a plain minus sign."""
    cell = cell.strip().replace("\u2212", "-")
    return cell if cell.isascii() and " " not in cell and "'" not in cell else SPACED_THOUSANDS.sub("", cell)


def parse_number(cell: str, decimal: Decimal) -> float | None:
    """A cell as a number: nan if it is empty, None if it does not hold one."""
    number = as_float(cell) if decimal == "point" else None
    if number is not None:  # the common case
        return number
    cell = tidy(cell)
    if cell.lower() in MISSING:
        return math.nan
    if not NUMBER_PATTERNS[decimal].fullmatch(cell):
        return None
    return as_float(cell.replace(THOUSANDS[decimal], "").replace(",", "."))


def as_float(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in cell else None


def decide_decimal(cells: Sequence[str], place: str, *, remembered: Decimal | None = None) -> Decimal | None:
    """The decimal mark of these cells: the remembered one if it fits, and None if both are possible."""
    if remembered != "comma" and not any("," in cell or cell.count(".") > 1 for cell in cells):
        return "point"
    marked = [cell for cell in map(tidy, cells) if ("," in cell or "." in cell) and any(map(str.isdigit, cell))]
    reads = [(cell, [mark for mark, form in NUMBER_PATTERNS.items() if form.fullmatch(cell)]) for cell in marked]
    only = {mark: [cell for cell, marks in reads if marks == [mark]] for mark in NUMBER_PATTERNS}
    if only["point"] and only["comma"]:
        raise InputError(
            f"{place} has numbers written in two ways, such as {only['point'][0]!r} and {only['comma'][0]!r}. Write "
            "all with one decimal mark, or select columns that have it with --columns"
        )
    for mark, found in only.items():
        if found:
            return mark
    if remembered is not None:
        return remembered
    # Without commas, a point is decimal.
    return None if any("," in cell for cell, marks in reads if marks) else "point"


def why_no_number(cell: str) -> str:
    """Why a cell is not a number."""
    if not cell:
        return "no values"
    if cell.endswith("%"):
        return "a percent sign"
    if CURRENCY.search(cell):
        return "a currency sign"
    return "a suffix" if SUFFIX.fullmatch(cell) else "text"
