"""The cells of a table of series: finds the column of times and the columns of numbers.

A column that does not hold numbers is refused by name, with the columns that can be used instead (`--columns`).
"""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.data.columns.numbers import Decimal, decide_decimal, parse_number, why_no_number
from glassformer.data.columns.times import is_time, is_time_name
from glassformer.data.files import AS_FOUND, locate, read_table
from glassformer.data.formats.table import ExpectedColumns, TableOptions
from glassformer.errors import InputError, did_you_mean

CLOCK_TIME = re.compile(r"\d{1,2}:\d{2}.*")
UNNAMED = ("", "unnamed: 0")  # as pandas writes and reads its index
MAX_SUGGESTED = 12


@dataclass(frozen=True)
class Cells:
    """The cells of a file as texts, and the line of each row."""

    path: Path
    names: list[str]
    rows: list[list[str]]
    lines: list[int]

    @classmethod
    def read(cls, path: Path, options: TableOptions = AS_FOUND, columns: Sequence[str] = ()) -> "Cells":
        """All rows of a table, without blank ones. If columns are selected, others may have duplicate names."""
        table = read_table(path, options, ExpectedColumns(columns=tuple(columns)))
        names = [name.strip() for name in table.names]
        known = set[str]()
        for name in names:
            if name in known:
                raise InputError(f"{path}: two columns are called {name!r}. Rename one of them")
            known.add(name)
        rows, lines = [], []
        for row in table.rows:
            cells = ["" if row.cells.get(name) is None else str(row.cells[name]) for name in table.names]
            if any(cell.strip() for cell in cells):
                rows.append(cells)
                lines.append(row.line)
        if not rows:
            raise InputError(f"{path} has a header but no rows")
        return cls(path, names, rows, lines)

    def place(self, row: int) -> str:
        return locate(self.path, self.lines[row])

    def column(self, number: int) -> list[str]:
        return [row[number] for row in self.rows]

    def find_times(self) -> tuple[list[int], tuple[str, ...]]:
        """The column of times, or the two columns of date and time of day; and a note about the choice.

        It is the first column, unless another column has both the name and the format of times.
        """
        named = [i for i, name in enumerate(self.names) if is_time_name(name)]
        other = next((i for i in named if is_time(self.rows[0][i])), 0)
        dated = is_time(self.rows[0][0]) and not self.rows[0][0].strip().isdigit()
        first = 0 if 0 in named or dated else other
        notes = (f"dates are taken from the column {self.names[first]!r}",) if first else ()
        plain = [name.strip("<>").lower() for name in self.names]
        if plain[first] in ("date", "날짜", "일자") and ":" not in self.rows[0][first]:
            clock = next((i for i in named if plain[i] in ("time", "시간", "시각")), None)
            if clock is not None and CLOCK_TIME.fullmatch(self.rows[0][clock].strip()):
                joined = f"dates and times are joined from {self.names[first]!r} and {self.names[clock]!r}"
                return [first, clock], (joined,)
        return [first], notes

    def find_series(self, times: Sequence[int]) -> tuple[list[int], tuple[str, ...]]:
        """The other columns, without an unnamed one that is empty or counts the rows."""
        found, notes = [], list[str]()
        for number, name in enumerate(self.names):
            if number in times:
                continue
            if name.lower() in UNNAMED and self.counts_rows(number):
                notes.append(f"the column {name!r} counts the rows and is left out")
            elif name or any(row[number].strip() for row in self.rows):
                found.append(number)
        return found, tuple(notes)

    def counts_rows(self, number: int) -> bool:
        cells = self.column(number)
        return any(cells == [str(row + start) for row in range(len(cells))] for start in (0, 1))

    def choose(self, columns: Sequence[str], among: Sequence[int]) -> list[int]:
        """The columns with these names, in this order."""
        known = {self.names[number]: number for number in among}
        for name in columns:
            if name not in known:
                raise InputError(f"{self.path} has no column {name!r}{did_you_mean(name, known)}")
        return [known[name] for name in columns]

    def decide_decimal(self, columns: Sequence[int], remembered: Decimal | None) -> Decimal:
        """The decimal mark of some columns; if they are ambiguous, the other columns decide."""
        for numbers in (columns, range(len(self.names))):
            cells = [row[number] for row in self.rows for number in numbers]
            mark = decide_decimal(cells, str(self.path), remembered=remembered)
            if mark is not None:
                return mark
        row, number = next((i, number) for i, row in enumerate(self.rows) for number in columns if "," in row[number])
        cell = self.rows[row][number].strip()
        raise InputError(
            f"{self.place(row)}, column {self.names[number]!r}: {cell!r} is ambiguous, and so is the whole table. Use "
            f"--decimal point if it is {cell.replace(',', '')}, or --decimal comma if it is {cell.replace(',', '.')}"
        )

    def numbers(self, columns: Sequence[int], decimal: Decimal, advice: str = "") -> NDArray[np.float64]:
        """Columns as numbers (T, C), nan for missing values. Without `advice`, errors suggest --columns."""
        values = np.full((len(self.rows), len(columns)), np.nan)
        texts: dict[int, int] = {}  # columns that are not numbers, each with a row that shows it
        first: InputError | None = None
        for place, number in enumerate(columns):
            found = [parse_number(cell, decimal) for cell in self.column(number)]
            wrong = [row for row, value in enumerate(found) if value is None]
            values[:, place] = [math.nan if value is None else value for value in found]
            known = len(found) - sum(value is not None and math.isnan(value) for value in found)
            if 2 * len(wrong) > known or not known:
                texts[number] = wrong[0] if wrong else 0
            elif wrong and first is None:
                more = f", and {len(wrong) - 1:,} more cells of this column are not" if len(wrong) > 1 else ""
                cell = self.rows[wrong[0]][number].strip()
                first = InputError(
                    f"{self.place(wrong[0])}, column {self.names[number]!r}: {cell!r} is not a number{more}. Correct "
                    "it, or empty the cell and use --fill"
                )
        if texts:
            raise self.not_numbers(texts, [number for number in columns if number not in texts], advice)
        if first is not None:
            raise first
        return values

    def not_numbers(self, texts: dict[int, int], others: Sequence[int], advice: str) -> InputError:
        """The error that lists the columns that cannot be series, and those that can."""
        cells = {number: self.rows[row][number].strip() for number, row in texts.items()}
        number, row = next(iter(texts.items()))
        what = f"{self.place(row)}, column {self.names[number]!r}: {cells[number]!r} is not a number"
        what += f" ({why_no_number(cells[number])}), nor is most of the column"
        if len(texts) > 1:
            said = (f"{self.names[i]!r} ({cell[:30]!r}: {why_no_number(cell)})" for i, cell in cells.items())
            what = f"{self.path}: these columns are not numbers: {', '.join(said)}"
        if advice or not others:
            return InputError(f"{what}. {advice or 'Write plain numbers such as 1234.5'}")
        names = " ".join(shlex.quote(self.names[i]) for i in others[:MAX_SUGGESTED])
        more = " ..." if len(others) > MAX_SUGGESTED else ""
        return InputError(f"{what}. Use the others only: --columns {names}{more}")
