"""Reads binary tables row by row: Parquet with pyarrow, and Excel's .xlsx with openpyxl.

A small file can be made to expand to any size, so the sizes that a file declares are checked before anything is
decompressed.
"""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.formats.long import too_long
from glassformer.errors import InputError, did_you_mean

ROWS_AT_ONCE = 1000  # rows of a Parquet file held as Python values
BATCH_BYTES = 1 << 27  # maximum bytes of text in these rows; fewer rows are held if they have more
ROW_BYTES = 16  # minimum memory of a Parquet row, however small it is in the file
MAX_WORKBOOK_BYTES = 1 << 30  # maximum bytes of a decompressed workbook: its texts are held in memory
LAST_ROW = 1 << 20  # of an Excel sheet
# A file that expands to more than both is an attack: texts and numbers expand to 3 to 30 times as much.
UNPACKED, TIMES = 1 << 22, 100
BEGINNING = 1 << 24  # decompressed bytes after which the data read so far is checked in the same way


def check_unpacked(path: Path, size: int, unpacked: int) -> None:
    """Refuses a file of `size` bytes that expands to more than real data can."""
    if unpacked > max(UNPACKED, TIMES * size):
        raise InputError(
            f"{path} has {size:,} bytes and unpacks to more than {unpacked // 10**6:,} MB, over {TIMES} times as much, "
            "which real data does not do. If it is real, unpack it first and give it as plain .csv or text"
        )


def check_so_far(path: Path, read: int, unpacked: int) -> None:
    """The same check for a file of which `read` bytes have been read so far."""
    if unpacked > max(BEGINNING, TIMES * read):
        raise InputError(
            f"{path}: its first {read:,} bytes unpack to more than {unpacked // 10**6:,} MB, over {TIMES} times as "
            "much, which real data does not do. If it is real, unpack it first and give it as plain .csv or text"
        )


def parquet_rows(path: Path, longest: int) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, row group by row group, with typed cells.

    A text shared by many rows is stored once. It stays shared until the rows are built, a few at a time if it is long.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{path}: reading Parquet needs pyarrow: pip install 'glassformer[parquet]'. Or save it as .csv"
        ) from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            about, schema = file.metadata, file.schema_arrow
            groups = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            check_unpacked(path, path.stat().st_size, max(groups, ROW_BYTES * about.num_rows))
            texts = [name for name, kind in zip(schema.names, schema.types, strict=True) if is_text(kind)]
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            row = 1
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                size = longest_cell(batch)
                if size > longest:
                    raise too_long(f"{path}, rows {row:,} to {row + len(batch) - 1:,}", "cell", size, longest)
                step = max(1, BATCH_BYTES // max(1, size * batch.num_columns))
                for start in range(0, len(batch), step):
                    yield from batch.slice(start, step).to_pylist()
                row += len(batch)
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({first_line(error)}). Is the file complete?") from None


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds texts or bytes."""
    import pyarrow.types

    checks = (
        *(pyarrow.types.is_string, pyarrow.types.is_large_string),
        *(pyarrow.types.is_binary, pyarrow.types.is_large_binary),
    )
    return any(check(kind) for check in checks)


def longest_cell(batch: Any) -> int:
    """Bytes of the longest text in some rows of Parquet."""
    import pyarrow.compute
    import pyarrow.types

    sizes = [0]
    for column in batch.columns:
        if pyarrow.types.is_dictionary(column.type) and is_text(column.type.value_type):
            sizes.append(pyarrow.compute.max(pyarrow.compute.binary_length(column.dictionary)).as_py() or 0)
        else:
            sizes.append(column.nbytes // max(1, len(column)))
    return max(sizes)


def excel_rows(path: Path, sheet: str | None, trained: str | None, longest: int) -> Iterator[tuple[int, list[str]]]:
    """The rows of one sheet with their numbers, each cell as text as in a .csv; empty if there is no value."""
    with workbook(path) as book:
        for number, cells in sheet_rows(chosen_sheet(book, path, sheet, trained), path):
            if sum(map(len, cells)) > longest:
                raise too_long(f"{path}, row {number}", "row", sum(map(len, cells)), longest)
            yield number, cells


def excel_beginning(path: Path, sheet: str | None, trained: str | None, count: int) -> tuple[list[list[str]], str]:
    """The first rows that are not blank, and the name of the sheet if there are several."""
    with workbook(path) as book:
        page = chosen_sheet(book, path, sheet, trained)
        found = list(islice((row for _, row in sheet_rows(page, path) if any(map(str.strip, row))), count))
        several = f", one of {len(book.worksheets)} (--sheet chooses)" if len(book.worksheets) > 1 else ""
        return found, f" sheet {page.title!r}{several}"


def sheet_rows(page: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a sheet. Refuses row numbers beyond Excel's limit: openpyxl would generate all the empty rows before
    row 10^12."""
    for number, row in enumerate(page.iter_rows(values_only=True), start=1):
        if number > LAST_ROW:
            raise InputError(f"{path} has a row after {LAST_ROW:,}, the last row of Excel. Save it as .csv")
        yield number, [as_text(value) for value in row]


@contextmanager
def workbook(path: Path) -> Iterator[Any]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError(
            f"{path}: reading Excel files needs openpyxl: pip install 'glassformer[excel]'. Or save it as .csv"
        ) from None
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        check_unpacked(path, path.stat().st_size, size)
        if size > MAX_WORKBOOK_BYTES:
            raise InputError(
                f"{path} unpacks to {size:,} bytes: expected at most {MAX_WORKBOOK_BYTES:,}. Save it as .csv"
            )
        with path.open("rb") as stream:  # openpyxl does not close its file if it fails
            with warnings.catch_warnings(action="ignore"):
                book = load_workbook(stream, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()
    except InputError:
        raise
    except Exception as error:  # a damaged file can fail anywhere in the parser
        raise InputError(
            f"{path} cannot be read as an Excel workbook ({first_line(error)}). Open it in Excel and save it as .csv"
        ) from None


def chosen_sheet(book: Any, path: Path, sheet: str | None, trained: str | None = None) -> Any:
    """The requested sheet, the one used in training if it exists, or the first visible one."""
    pages = {page.title: page for page in book.worksheets}
    if sheet is not None and sheet not in pages:
        raise InputError(f"--sheet {sheet}: {path} has no such sheet{did_you_mean(sheet, pages)}")
    shown = [page for page in book.worksheets if page.sheet_state == "visible"]
    if not shown:
        raise InputError(f"{path} has no visible sheet with cells")
    page = pages[sheet] if sheet is not None else pages.get(trained, shown[0])
    page.reset_dimensions()  # some programs write wrong ones
    return page


def as_text(value: Any) -> str:
    """A cell as in a .csv; dates with the year first."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()  # as Excel writes it
    if isinstance(value, datetime):
        return str(value.date() if value.time() == time() else value.replace(microsecond=0))
    if isinstance(value, date | time):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:100]
