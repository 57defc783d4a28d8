"""Tables that are no text: Parquet, by pyarrow, and Excel's .xlsx, by openpyxl; both are read row by row."""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.errors import InputError, nearest

BATCH = 1000  # rows of a Parquet file that are in memory as Python values
LARGEST = 1 << 30  # bytes that a workbook may have when it is unpacked: its texts are held in memory


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, one row group after another, each cell as what it is."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{path}: reading Parquet needs pyarrow: pip install 'glassformer[parquet]'. Or save it as .csv"
        ) from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({first_line(error)}). Is the file whole?") from None


def excel_rows(path: Path, sheet: str | None, trained: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """The rows of one sheet with their numbers, each cell as a .csv has it: a text, empty where there is nothing."""
    with workbook(path) as book:
        for number, row in enumerate(chosen_sheet(book, path, sheet, trained).iter_rows(values_only=True), start=1):
            yield number, [as_text(value) for value in row]


def excel_beginning(path: Path, sheet: str | None, trained: str | None, count: int) -> tuple[list[list[str]], str]:
    """The first rows that are not blank, and which sheet is read, where there are several."""
    with workbook(path) as book:
        page = chosen_sheet(book, path, sheet, trained)
        rows = ([as_text(value) for value in row] for row in page.iter_rows(values_only=True))
        found = list(islice((row for row in rows if any(map(str.strip, row))), count))
        several = f", one of {len(book.worksheets)} (--sheet chooses)" if len(book.worksheets) > 1 else ""
        return found, f" sheet {page.title!r}{several}"


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
        if size > LARGEST:
            raise InputError(f"{path} unpacks to {size:,} bytes: too many for a workbook. Save it as .csv")
        with warnings.catch_warnings(action="ignore"):
            book = load_workbook(path, read_only=True, data_only=True)
        try:
            yield book
        finally:
            book.close()
    except InputError:
        raise
    except Exception as error:  # a file that is not what it says can fail anywhere in its parser
        raise InputError(
            f"{path} cannot be read as an Excel workbook ({first_line(error)}). Open it in Excel and save it as .csv"
        ) from None


def chosen_sheet(book: Any, path: Path, sheet: str | None, trained: str | None = None) -> Any:
    """The sheet that is asked for, that of the training if it is there, or the first that is not hidden."""
    pages = {page.title: page for page in book.worksheets}
    if sheet is not None and sheet not in pages:
        raise InputError(f"--sheet {sheet}: {path} has no such sheet{nearest(sheet, pages)}")
    shown = [page for page in book.worksheets if page.sheet_state == "visible"]
    if not shown:
        raise InputError(f"{path} has no sheet with cells")
    page = pages[sheet] if sheet is not None else pages.get(trained, shown[0])
    page.reset_dimensions()  # some programs write wrong ones
    return page


def as_text(value: Any) -> str:
    """A cell as a .csv has it; dates with the year first."""
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
