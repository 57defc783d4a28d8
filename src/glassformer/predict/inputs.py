"""Reads the inputs of `predict` one by one: arguments, lines of a file or of standard input, rows of a table, images.
Files are streamed, so they may be larger than memory.

    text                 a line, or a cell of the column --text-columns
    text<TAB>second      a pair of texts, for a model that classifies pairs; or two columns
    1.5, 2, -0.25        a series to classify
    image.png<TAB>what colour is it?       a question about an image; or two columns
    digits/              a folder of images, an idx file (MNIST's format), or one path per line
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.checkpoints.run import NO_RULES, TextRules, is_run, read_record
from glassformer.data.files import (
    AS_FOUND,
    STDIN,
    BlankRows,
    Row,
    Table,
    cell_of,
    cell_text,
    file_kind,
    find_column,
    locate,
    stream_lines,
    stream_rows,
    table_format,
    text_format,
    with_training_flags,
)
from glassformer.data.formats.table import ExpectedColumns, TableFormat, TableOptions
from glassformer.data.images import IDX_PIXELS, file_named, first_of, list_images, read_idx
from glassformer.data.labeled_series import numbered_rows, parse_value
from glassformer.data.texts import choose_text_columns, reads_texts
from glassformer.errors import InputError, join_names
from glassformer.predict.calls import check_characters, check_is_text, split_pair
from glassformer.predict.images import IMAGE_ABILITIES, Picture

IMAGE_COLUMNS = ("image", "path", "file", "filename", "file_name")  # usual names of the column of image files
BETWEEN_NUMBERS = re.compile(r"\s*[,;\t]\s*|\s+")


@dataclass(frozen=True)
class RememberedFormat:
    """How to read tables: as the flags say, otherwise as in training."""

    options: TableOptions = AS_FOUND
    columns: tuple[str, ...] = ()  # of the texts, or of the image files
    label_column: str = "label"


NOTHING_REMEMBERED = RememberedFormat()


def remembered_format(folder: Path, options: TableOptions) -> RememberedFormat:
    """How the run in a folder read its tables; for a model that was not trained here, only the flags count."""
    if not is_run(folder):
        return RememberedFormat(options)
    record = read_record(folder)
    settings = record["settings"]
    source = settings.get("source_column") or next(iter(record.get("columns", ())), None) or settings.get("text_column")
    source = source or settings.get("image_column")
    columns = settings.get("text_columns") or ([source] if source else [])
    columns = [*columns, *filter(None, [settings.get("question_column")])]
    label = settings.get("label_column")
    return RememberedFormat(
        with_training_flags(options, settings), tuple(columns), label if isinstance(label, str) else "label"
    )


def check_source(texts: Sequence[str], file: Path | None, text_columns: Sequence[str]) -> None:
    """Refuses impossible inputs before the model is loaded."""
    if texts and file:
        raise InputError("texts and --file were both given: choose one")
    if text_columns and not file:
        raise InputError("--text-columns names columns of a table. Give the table with --file")
    if file and not file.exists():
        raise InputError(f"{file}: there is no such file")
    if not texts and not file and sys.stdin.isatty():
        raise InputError('no text given. Put it after the run: glassformer predict RUN "Nov 15 2026"')


def stream_inputs(
    task: str,
    texts: Sequence[str] = (),
    file: Path | None = None,
    text_columns: tuple[str, ...] = (),
    memory: RememberedFormat = NOTHING_REMEMBERED,
    rules: TextRules = NO_RULES,
    *,
    tell: Callable[[str], None] = lambda said: None,
) -> Iterator[Any]:
    """Yields the inputs in the form that a pipeline of this task takes, by the same rules as in training. `tell` is
    called with a sentence on how a table was read, if that is not certain."""
    options = memory.options
    if texts:
        for number, text in enumerate(texts, start=1):
            if task not in (*IMAGE_ABILITIES, "forecast", "series"):
                check_is_text(text)
            yield as_input(task, text, f"input {number}", rules)
    elif file is None:
        for number, text in numbered_lines(STDIN, options):
            yield as_input(task, text, f"{STDIN}, line {number}", rules)
    elif task in IMAGE_ABILITIES and (file.is_dir() or "idx3-ubyte" in file.name):
        yield from images_in(file)
    elif task == "series" and (is_table(file) or has_tabs(file, memory)):
        yield from (values for _, values in series_in(file, memory, tell))
    elif text_columns or (task != "series" and (is_table(file) or is_text_table(file, memory, task))):
        for row, given in rows_in(file, text_columns, task, memory, tell=tell):
            if task != "lm":
                texts = given if isinstance(given, tuple) else (given,)
                for text in texts[1:] if task in IMAGE_ABILITIES else texts:
                    check_not_empty(text, locate(file, row.line))
            yield given
    else:
        for number, text in numbered_lines(file, options):
            yield as_line(task, text, file, number, rules)


def as_line(task: str, text: str, file: Path, number: int, rules: TextRules) -> Any:
    """Parses a line of a file for a model of this task."""
    place = f"{file}, line {number}"
    reads_one = task == "translate" or rules.texts == 1
    if reads_one and "\t" in text and ".tsv" in file.suffixes:
        raise InputError(
            f"{place} has a tab, and this model reads one text: {text!r:.60}. Remove the other columns, or add a first "
            "line with column names and choose one with --text-columns"
        )
    return as_input(task, text, place, rules)


def is_table(file: Path) -> bool:
    """Whether the file name says that it is a table. A .tsv may also be plain lines, some of them with two texts."""
    return file_kind(file) in ("csv", "jsonl", "parquet", "xlsx")


def is_text_table(file: Path, memory: RememberedFormat, task: str) -> bool:
    """Whether a .tsv file has a header or, for a model that translates, holds pairs."""
    if not has_tabs(file, memory):
        return False
    form = table_format(file, memory.options, reads_tabs(memory))
    return form.has_header or (task == "translate" and len(form.first) == 2)


def has_tabs(file: Path, memory: RememberedFormat) -> bool:
    """Whether a .tsv file really has several columns."""
    return file_kind(file) == "tsv" and len(table_format(file, memory.options, reads_tabs(memory)).first) > 1


def expected_columns(file: Path, columns: tuple[str, ...], memory: RememberedFormat) -> ExpectedColumns:
    """What to expect of a table of texts."""
    return reads_tabs(memory) if file_kind(file) == "tsv" else reads_texts(columns or memory.columns or None)


def reads_tabs(memory: RememberedFormat) -> ExpectedColumns:
    return replace(reads_texts(memory.columns or None), header=False, delimiters=("tab",))


def as_input(task: str, text: str, place: str, rules: TextRules = NO_RULES) -> Any:
    """Parses a line for a model of this task. Only a decoder-only model accepts an empty text."""
    if task == "ask" and "\t" in text:
        path, question = text.split("\t", 1)
        check_characters(question, place)
        check_not_empty(question, place)
        return path, question
    if task not in IMAGE_ABILITIES:  # a path may contain any bytes
        check_characters(text, place)
    if task == "series":
        return as_numbers(text, place)
    if task not in ("lm", *IMAGE_ABILITIES):
        check_not_empty(text, place)
    if task != "classify":
        return text
    parts = split_pair(text, place, rules)
    return text if len(parts) == 1 else tuple(parts)


def check_not_empty(text: str, place: str) -> None:
    if not text.strip():
        raise InputError(f"{place} is empty: expected a text. Fill it, or leave it out")


def as_numbers(text: str, place: str) -> list[float]:
    numbers = []
    for cell in BETWEEN_NUMBERS.split(text.strip()):
        number = parse_value(cell)
        if number is None:
            raise not_a_number(cell, place)
        numbers.append(number)
    return numbers


def not_a_number(cell: str, place: str) -> InputError:
    return InputError(f"{place}: {cell[:60]!r} is not a number. Expected the values of a series, separated by commas")


def numbered_lines(file: Path, options: TableOptions = AS_FOUND) -> Iterator[tuple[int, str]]:
    number = 0
    for number, line in stream_lines(file, text_format(file, options), options.longest):
        yield number, line.removesuffix("\n").removesuffix("\r")
    if not number:
        raise InputError(f"{file} is empty: expected one example per line")


def rows_in(
    file: Path,
    columns: tuple[str, ...],
    task: str,
    memory: RememberedFormat = NOTHING_REMEMBERED,
    *,
    nulls: bool = False,
    tell: Callable[[str], None] = lambda said: None,
) -> Iterator[tuple[Row, Any]]:
    """Yields the rows of a table, each with the model's input: a cell, or the two cells of a pair. With `nulls`, a cell
    may be None."""
    rows = stream_rows(file, memory.options, expected_columns(file, columns, memory))
    names: tuple[str, ...] = ()
    for row in rows:
        if not names:
            table = Table(file, tuple(row.cells), [row], rows.form)
            found = input_columns(table, columns, memory, task)
            names = tuple(find_column(file, name, table.names, rows.form, "--text-columns") for name in found)
            tell_form(file, rows.form, tell, f", texts from {' and '.join(map(repr, names))}")
            if len(names) == 2 and task not in ("classify", "ask"):
                raise InputError(
                    f"{file} has the text columns {' and '.join(names)}, and this model reads one text. Choose one: "
                    f"--text-columns {names[0]}"
                )
        cells = [cell_of(file, row, name) for name in names]
        for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
            if not (nulls and cell is None):
                cells[place] = cell_text(file, row.line, name, cell)
        if task in IMAGE_ABILITIES and cells[0] is not None:
            cells[0] = path_from(file, cells[0])
        yield row, cells[0] if len(cells) == 1 else tuple(cells)
    if rows.skipped.count:
        count = rows.skipped.count
        tell(f"{file}: skipped {count:,} blank row{'s' if count > 1 else ''}")


def input_columns(table: Table, columns: tuple[str, ...], memory: RememberedFormat, task: str) -> Sequence[str]:
    """Chooses the text columns: those named by the flag, those used in training, or the usual ones."""
    if not columns and task in IMAGE_ABILITIES:
        usual = next((name for name in (*memory.columns[:1], *IMAGE_COLUMNS) if name in table.names), None)
        if usual is None:
            raise InputError(
                f"{table.path} has the columns {join_names(table.names)}: expected one of {', '.join(IMAGE_COLUMNS)}. "
                "Name the column with the image files: --text-columns NAME"
            )
        asks = task == "ask" and next((name for name in (*memory.columns[1:], "question") if name in table.names), None)
        return (usual, asks) if asks else (usual,)
    if not columns and memory.columns and set(memory.columns) <= set(table.names):
        return memory.columns
    if not columns and task == "translate" and table.names == ("1", "2"):
        return table.names[:1]  # pairs, as in training: the source comes first
    if not columns and memory.columns and task != "translate":
        raise InputError(
            f"{table.path} has the columns {join_names(table.names)}: expected {' and '.join(memory.columns)}, as in "
            "training. Name the text column with --text-columns"
        )
    return choose_text_columns(table, columns or None)


def path_from(table: Path, cell: str) -> str:
    """The path of an image named in a table: relative to the table's folder, as in training, or to the current one."""
    beside = file_named(table, cell)
    return str(beside) if beside.is_file() or not Path(cell.strip()).is_file() else cell.strip()


def series_in(file: Path, memory: RememberedFormat, tell: Callable[[str], None]) -> Iterator[tuple[Row, list[float]]]:
    """Yields the rows of a table, each with its values. The label column is left out if the header names it."""
    reads = ExpectedColumns((memory.label_column,), header=False, numbers=True)
    form = table_format(file, memory.options, reads)
    tell_form(file, form, tell)
    names, rows = numbered_rows(file, form, memory.options, reads, BlankRows())
    label = list(names).index(memory.label_column) if memory.label_column in names else None
    for line, cells in rows:
        values = []
        for place, cell in enumerate(cells):
            if place != label:
                number = parse_value(cell, decimal_comma=form.decimal_comma)
                if number is None:
                    raise not_a_number(str(cell), locate(file, line))
                values.append(number)
        columns = names or [str(place) for place in range(1, len(cells) + 1)]
        yield Row(line, dict(zip(columns, cells, strict=False))), values


def tell_form(file: Path, form: TableFormat, tell: Callable[[str], None], more: str = "") -> None:
    if form.is_worth_telling:
        tell(f"{file} was read as {form}{more}")


def images_in(place: Path) -> Iterator[Any]:
    """Yields the image files of a folder and its subfolders by name, or the images of an idx file by number."""
    if place.is_dir():
        files, others, _ = list_images(place)
        if others:
            names = first_of([str(file) for file in others])
            raise InputError(f"{place} has files that are not images: {names}. Move them elsewhere")
        if not files:
            raise InputError(f"{place} has no images: expected files such as .png or .jpg")
        yield from map(str, files)
        return
    for number, pixels in enumerate(read_idx(place, IDX_PIXELS)):
        yield Picture(f"{place}[{number}]", pixels)
