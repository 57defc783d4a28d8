"""The format of a table: encoding, delimiter, quotes and header, detected once from its beginning.

Flags have priority (`TableOptions`); the result is passed to the readers of the table (`TableFormat`) and reported in
one line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from glassformer.data.formats.delimiter import (
    DELIMITER_SIGNS,
    DELIMITERS,
    EXCEL_LINE,
    Delimiter,
    Quotes,
    find_delimiter,
    has_decimal_commas,
    quotes_of,
    split_rows,
)
from glassformer.data.formats.encoding import TextFormat, decoded, find_text_format
from glassformer.data.formats.header import FEW, Header, are_known, find_header, known_name
from glassformer.data.formats.json_list import is_list
from glassformer.data.formats.long import MAX_LINE_BYTES, MAX_LINE_MB, MEGABYTE, MOST_MB
from glassformer.errors import InputError
from glassformer.schema import shown

FileKind = Literal["csv", "tsv", "jsonl", "parquet", "xlsx"]  # by the file extension
LOOKED_AT = 500  # rows from which the format is detected
WEB_PAGE = re.compile(r"\s*<(!doctype html|html)\b", re.IGNORECASE)
MAX_LISTED = 3  # maximum number of files and formats listed by name
ROW_CHARACTERS = 60  # characters of a row shown in a message


@dataclass(frozen=True)
class TableOptions:
    """The format of a table given by flags; None means detected."""

    header: bool | None = None
    delimiter: Delimiter | None = None
    quotes: bool | None = None
    encoding: str | None = None
    sheet: str | None = None
    max_line_mb: int | None = None
    trained: "TrainingFlags | None" = None

    def __post_init__(self) -> None:
        limit = self.max_line_mb
        if limit is not None and (type(limit) is not int or not 1 <= limit <= MOST_MB):
            raise InputError(
                f"--max-line-mb is {shown(limit)}: expected a whole number of megabytes from 1 to {MOST_MB:,}"
            )

    @classmethod
    def of(cls, settings: object) -> "TableOptions":
        """The options from the flags of a verb or a task, which have the same names."""
        told = (field.name for field in fields(cls) if field.name != "trained")
        return cls(**{name: getattr(settings, name) for name in told})

    @property
    def longest(self) -> int:
        """Maximum bytes of a line, or of a cell that spans several lines."""
        return (self.max_line_mb or MAX_LINE_MB) * MEGABYTE


@dataclass(frozen=True)
class TrainingFlags:
    """The flags given for the training data, which apply to other files if they fit."""

    delimiter: Delimiter | None = None
    quotes: bool | None = None
    encoding: str | None = None
    sheet: str | None = None
    kinds: tuple[str | None, ...] = ()  # of its files: quotes apply to files of these kinds


@dataclass(frozen=True)
class ExpectedColumns:
    """What a reader expects of a table: column names, and whether a header is usual."""

    columns: tuple[str, ...] = ()  # names expected in a header
    header: bool = True
    delimiters: tuple[Delimiter, ...] = DELIMITERS
    numbers: bool = False  # whether its cells are numbers
    kind: str | None = None  # of a file without a known extension


@dataclass(frozen=True)
class TableFormat:
    """The format of a table, and the cells of its first row."""

    kind: str
    text: TextFormat | None = None  # of a text file
    delimiter: Delimiter | None = None  # of a delimited file
    usual: bool = True  # whether that delimiter is the usual one for the file extension
    quotes: Quotes = "several lines"
    quotes_asked: bool = False  # set by --quotes or --no-quotes
    skips_spaces: bool = False  # after a delimiter
    tells_excel: bool = False  # whether the first line is Excel's sep=, line
    is_list: bool = False  # whether the JSON is a list of objects
    header: Header | None = None  # None if each row names its cells
    asked: bool = False  # set by --header or --no-header
    first: tuple[str, ...] = ()
    decimal_comma: bool = False
    ends_open: bool = False  # whether every row ends with a delimiter
    sheet: str = ""
    longest: int = MAX_LINE_BYTES  # maximum bytes of a line or cell

    @property
    def has_header(self) -> bool:
        return self.header is not None and self.header.is_there

    @property
    def names(self) -> list[str]:
        """The column names: from the header, or numbers."""
        cells = [cell.strip() for cell in self.first]
        if not self.has_header:
            return [str(number) for number in range(1, len(cells) + 1)]
        while cells and not cells[-1]:
            cells.pop()
        return cells

    @property
    def is_worth_telling(self) -> bool:
        """Whether something was guessed that the user should know."""
        doubtful = self.header is not None and not self.asked and (self.header.unusual or not self.header.certain)
        guessed = self.quotes == "one line" and not self.quotes_asked
        return doubtful or guessed or not self.usual or bool(self.text and self.text.encoding.word)

    def __str__(self) -> str:
        parts = [str(self.text)] if self.text else []
        if self.kind == "jsonl":
            parts.append("a JSON list" if self.is_list else "a JSON object per line")
        elif self.delimiter is not None:
            parts.append(f"separated by {self.delimiter}s{self.about_quotes()}")
        elif self.kind == "parquet":
            parts.append("Parquet")
        else:
            parts.append(f"Excel{self.sheet}")
        if self.decimal_comma:
            parts.append("decimal commas")
        if self.header is not None:
            parts.append(self.about_header())
        return ", ".join(parts)

    def about_quotes(self) -> str:
        """A note on quotes, if they are unusual."""
        if self.quotes_asked:
            return ", quotes are text (--no-quotes)" if self.quotes == "text" else ", cells in quotes (--quotes)"
        if self.delimiter != "tab" or self.quotes == "none":
            return ""
        return ", quotes are text" if self.quotes == "text" else ", cells in quotes (--no-quotes if they are text)"

    def about_header(self) -> str:
        row = " | ".join(cell.strip() for cell in self.first).rstrip(" |")
        row = repr(row if len(row) <= ROW_CHARACTERS else f"{row[: ROW_CHARACTERS - 3]}...")
        if self.asked:
            return f"header {row} (--header)" if self.has_header else "no header (--no-header)"
        assert self.header is not None
        if self.has_header:
            return f"header {row}{'; --no-header if it is an example' if self.header.unusual else ''}"
        return f"no header: the first row is {row}; --header if it names the columns"


def describe_together(forms: Mapping[str, str]) -> str:
    """The formats of several files; files with the same format are listed together."""
    alike: dict[str, list[str]] = {}
    for name, form in forms.items():
        alike.setdefault(form, []).append(name)
    if len(forms) == 1:
        return next(iter(alike))
    several = (
        names if len(names) <= MAX_LISTED else [*names[:MAX_LISTED], f"{len(names) - MAX_LISTED:,} more"]
        for names in alike.values()
    )
    told = [f"{', '.join(names)}: {form}" for names, form in zip(several, alike, strict=True)]
    return "; ".join(
        told if len(told) <= MAX_LISTED else [*told[:MAX_LISTED], f"{len(told) - MAX_LISTED:,} other formats"]
    )


def find_format(
    kind: str, head: bytes, name: str, *, whole: bool, options: TableOptions, reads: ExpectedColumns
) -> TableFormat:
    """The format of a text table that begins with `head`."""
    trained = options.trained or TrainingFlags()
    text = find_text_format(head, name, whole=whole, asked=options.encoding, trained=trained.encoding)
    start = decoded(head, text.encoding)
    if WEB_PAGE.match(start):
        raise InputError(f"{name} is a web page, not a table. Download the file itself")
    if kind == "jsonl":
        return TableFormat(kind, text, is_list=is_list(start), longest=options.longest)
    every = complete_lines(start, text, whole=whole)
    told = EXCEL_LINE.fullmatch(every[0]) if every else None
    every = every[1:] if told else every
    lines, cut = every[:LOOKED_AT], not whole or len(every) > LOOKED_AT
    usual: Delimiter = "comma" if kind == "csv" else "tab"
    if options.delimiter is not None:
        delimiter = options.delimiter
    elif told and told[1] in DELIMITER_SIGNS.values():
        delimiter = next(known for known in DELIMITERS if DELIMITER_SIGNS[known] == told[1])
    elif trained.delimiter is not None and lines and DELIMITER_SIGNS[trained.delimiter] in lines[0]:
        delimiter = trained.delimiter
    else:
        delimiter = find_delimiter(lines, usual, name, candidates=reads.delimiters, cut=cut)
        if (
            lines
            and delimiter == usual
            and DELIMITER_SIGNS[usual] not in lines[0]
            and not is_known_column(lines[0], reads)
        ):
            # There may be a title above the table: then the lines below show the delimiter.
            delimiter = find_delimiter(lines[1:], usual, name, candidates=reads.delimiters, cut=cut)
    sign = DELIMITER_SIGNS[delimiter]
    of_training = trained.quotes if kind in trained.kinds else None
    asked = of_training if options.quotes is None else options.quotes
    quotes: Quotes = "several lines"
    if asked is not None:
        quotes = "several lines" if asked else "text"
    elif delimiter == "tab":
        quotes = quotes_of(every, sign, cut=not whole)
    quoted = quotes in ("one line", "several lines")
    rows = split_rows(lines, sign, quoted=quoted, cut=cut) or split_rows(lines, sign, quoted=False)
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    skips_spaces = quoted and bool(rows) and len(rows[0]) > 1 and all(cell.startswith(" ") for cell in rows[0][1:])
    if skips_spaces:
        rows = [row for row in split_rows(lines, sign, skips_spaces=True, cut=cut) if any(cell.strip() for cell in row)]
    header, header_asked = header_of(rows, options, reads, name)
    return TableFormat(
        kind,
        text,
        delimiter,
        usual=delimiter == usual,
        quotes=quotes,
        quotes_asked=asked is not None,
        skips_spaces=skips_spaces,
        tells_excel=told is not None,
        header=header,
        asked=header_asked,
        first=tuple(rows[0]) if rows else (),
        decimal_comma=reads.numbers and delimiter != "comma" and has_decimal_commas(rows),
        ends_open=bool(rows) and all(len(row) > 1 and not row[-1] for row in rows),
        longest=options.longest,
    )


def is_known_column(line: str, reads: ExpectedColumns) -> bool:
    """Whether a line is a known column name."""
    return line.strip().strip('"') in reads.columns or known_name(line.strip().strip('"')) is not None


def header_of(
    rows: Sequence[Sequence[str]], options: TableOptions, reads: ExpectedColumns, name: str, unit: str = "line"
) -> tuple[Header, bool]:
    """The header, and whether a flag decided it."""
    if options.header is not None:
        return Header(options.header), True
    if not rows:
        return Header(reads.header), False
    header = find_header(rows, columns=reads.columns, usual=reads.header)
    title = next(filter(None, (cell.strip() for cell in rows[0])))
    if not header.certain and is_title(rows):
        raise InputError(
            f"{name}, {unit} 1: {title[:ROW_CHARACTERS]!r} is above the header. Delete the {unit}s above it"
        )
    return header, False


def is_title(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a title or a comment: it has one cell and the others more, or column names follow it."""
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[: 1 + FEW]]
    alone = len(filled) > FEW and filled[0] == 1 and min(filled[1:]) > 1
    return alone or (len(rows) > 1 and are_known(rows[1]))


def complete_lines(start: str, text: TextFormat, *, whole: bool) -> list[str]:
    """The complete lines of the beginning of a file, with their line ends."""
    lines = start.replace("\r\n", "\n").split("\r" if text.returns else "\n")
    if len(lines) > 1 and (not whole or not lines[-1]):
        lines.pop()
    return [f"{line}\n" for line in lines]
