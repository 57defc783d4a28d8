"""Detects the delimiter of a table from its first rows: comma, semicolon, tab or pipe."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from glassformer.errors import InputError

Delimiter = Literal["comma", "semicolon", "tab", "pipe"]
# Quotes enclose cells, which may span several lines or not; or they are text; or none was seen so far.
Quotes = Literal["none", "text", "one line", "several lines"]
DELIMITERS: tuple[Delimiter, ...] = ("comma", "semicolon", "tab", "pipe")
DELIMITER_SIGNS: dict[str, str] = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SAME_WIDTH_SHARE = 0.8  # share of rows with the same number of cells, if the delimiter is right
MAX_CELL = 2**31 - 1  # the most that the csv module accepts; its default is 128 KB
EXCEL_LINE = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)  # a first line that tells Excel the delimiter
DECIMAL_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][-+]?\d+)?")
DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")


def split_rows(
    lines: Sequence[str], sign: str, *, quoted: bool = True, skips_spaces: bool = False, cut: bool = False
) -> list[list[str]]:
    """The cells of these lines in this format; no rows if they do not match it. The last row may be `cut` off."""
    if not quoted:
        return [line.rstrip("\r\n").split(sign) for line in lines]
    csv.field_size_limit(MAX_CELL)
    rows = []
    try:
        for row in csv.reader(lines, delimiter=sign, skipinitialspace=skips_spaces, strict=True):
            rows.append(row)
    except csv.Error as error:
        return rows if cut and "unexpected end" in str(error) else []
    return rows


def find_delimiter(
    lines: Sequence[str],
    usual: Delimiter,
    name: str,
    *,
    candidates: Sequence[Delimiter] = DELIMITERS,
    cut: bool = False,
) -> Delimiter:
    """The delimiter that splits the lines into rows with as many cells as the first; the usual one if none does."""
    found = [delimiter for delimiter in candidates if cuts_alike(lines, DELIMITER_SIGNS[delimiter], cut=cut)]
    if "comma" in found and "semicolon" in found and has_decimal_commas(split_rows(lines, ";", cut=cut)):
        return "semicolon"
    if usual in found or not found:
        return usual
    if len(found) > 1:
        first, second = found[:2]
        raise InputError(
            f"{name}: its cells may be separated by {first}s or by {second}s. Choose with --delimiter {first} or "
            f"--delimiter {second}"
        )
    return found[0]


def cuts_alike(lines: Sequence[str], sign: str, *, cut: bool) -> bool:
    """Whether nearly all rows have as many cells as the first, and more than one."""
    for quoted in (sign != "\t", sign == "\t"):
        rows = split_rows(lines, sign, quoted=quoted, cut=cut)
        widths = [len(row) for row in rows if any(cell.strip() for cell in row)]
        if widths and widths[0] > 1 and Counter(widths)[widths[0]] >= SAME_WIDTH_SHARE * len(widths):
            return True
    return False


def has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether numbers are written as 1,5: some are, and none has a decimal point."""
    cells = [cell.strip() for row in rows for cell in row]
    with_comma = [
        cell for cell in cells if "," in cell and not any(sign.isalpha() and sign not in "eE" for sign in cell)
    ]
    is_so = bool(with_comma) and all(map(DECIMAL_COMMA.fullmatch, with_comma))
    return is_so and not any(map(DECIMAL_POINT.fullmatch, cells))


def quotes_of(lines: Sequence[str], sign: str, *, cut: bool = False) -> Quotes:
    """How tab-separated cells are quoted: as Excel, pandas and R do, over several lines or not, or not at all.

    Quotes count as enclosing only with evidence: a doubled quote inside quotes, every name in quotes, or a cell over
    several lines, and no unquoted cell that contains a quote. Otherwise quotes are text. If every line is a row, each
    line is read separately, so that a single quote cannot swallow the following lines.
    """
    if not any('"' in line for line in lines):
        return "none"
    plain = [row for row in split_rows(lines, sign, quoted=False) if any(row)]
    if len({len(row) for row in plain}) > 1:
        widths = {len(row) for row in split_rows(lines, sign, cut=cut) if row}
        return "several lines" if len(widths) == 1 and widths != {1} else "text"
    cells = [cell for row in plain for cell in row if '"' in cell]
    if not all(map(is_in_quotes, cells)):
        return "text"
    return "one line" if all(map(is_in_quotes, plain[0])) or any(map(doubles_quotes, cells)) else "text"


def without_quotes(cell: str) -> str:
    """The content of a cell that may be quoted."""
    return cell[1:-1].replace('""', '"') if is_in_quotes(cell) else cell


def is_in_quotes(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")


def doubles_quotes(cell: str) -> bool:
    """Whether a cell is quoted and contains doubled quotes: evidence that the quotes around it are not text."""
    return '""' in cell[1:-1] and is_in_quotes(cell)


def contradicts(cell: str, quotes: Quotes) -> bool:
    """Whether a cell with a quote contradicts what was detected from the beginning of the file."""
    return (quotes == "one line" and not is_in_quotes(cell)) or (quotes == "none" and doubles_quotes(cell))
