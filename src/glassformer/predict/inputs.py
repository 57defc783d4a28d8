"""What `predict` is given, one input after another: arguments, lines of a file or of standard input, rows of a table,
pictures. Nothing is read before it is needed, so that a file may be larger than memory.

    text                 a line, or a cell of the column --text-columns
    text<TAB>second      two texts to be judged together, for a model that names classes; or two columns
    1.5, 2, -0.25        a series to be classified
    picture.png<TAB>what colour is it?     a question about a picture; or two columns
    digits/              a folder of pictures, an idx file (MNIST's format), or lines with the path of one each
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
    Row,
    Skipped,
    Table,
    as_text,
    as_trained,
    cell_of,
    find_column,
    kind_of,
    place_of,
    stream_lines,
    stream_rows,
    table_format,
    text_format,
)
from glassformer.data.formats.table import Reads, TableFormat, TableOptions
from glassformer.data.images import IDX_PIXELS, file_named, list_pictures, read_idx, some_of
from glassformer.data.labeled_series import as_number, numbered_rows
from glassformer.data.texts import choose_text_columns, reads_texts
from glassformer.errors import InputError, listed
from glassformer.predict.calls import check_characters, check_is_text, split_pair
from glassformer.predict.images import PICTURES, Picture

IMAGE_COLUMNS = ("image", "path", "file", "filename", "file_name")  # usual names of a column of image files
BETWEEN_NUMBERS = re.compile(r"\s*[,;\t]\s*|\s+")


@dataclass(frozen=True)
class Memory:
    """How tables are read: as flags say, and else as the training of the model read its own."""

    options: TableOptions = AS_FOUND
    columns: tuple[str, ...] = ()  # of its texts, or of its image files
    label_column: str = "label"


AS_FLAGS_SAY = Memory()


def remembered(folder: Path, options: TableOptions) -> Memory:
    """What the run in a folder remembers; of a model that was not trained here, nothing."""
    if not is_run(folder):
        return Memory(options)
    record = read_record(folder)
    settings = record["settings"]
    source = settings.get("source_column") or next(iter(record.get("columns", ())), None) or settings.get("text_column")
    source = source or settings.get("image_column")
    columns = settings.get("text_columns") or ([source] if source else [])
    columns = [*columns, *filter(None, [settings.get("question_column")])]
    label = settings.get("label_column")
    return Memory(as_trained(options, settings), tuple(columns), label if isinstance(label, str) else "label")


def check_source(texts: Sequence[str], file: Path | None, text_columns: Sequence[str]) -> None:
    """Refuses what cannot be an input, before a model is loaded for it."""
    if texts and file:
        raise InputError("texts and --file were both given: choose one")
    if text_columns and not file:
        raise InputError("--text-columns names columns of a table: give it with --file")
    if file and not file.exists():
        raise InputError(f"{file}: there is no such file")
    if not texts and not file and sys.stdin.isatty():
        raise InputError('no text was given: write it behind the run, as in glassformer predict RUN "Nov 15 2026"')


def stream_inputs(
    task: str,
    texts: Sequence[str] = (),
    file: Path | None = None,
    text_columns: tuple[str, ...] = (),
    memory: Memory = AS_FLAGS_SAY,
    rules: TextRules = NO_RULES,
    *,
    tell: Callable[[str], None] = lambda said: None,
) -> Iterator[Any]:
    """The inputs as a pipeline of this task takes them, by the rules of the training. `tell` hears how a table was
    read, if that is not certain."""
    options = memory.options
    if texts:
        for number, text in enumerate(texts, start=1):
            if task not in (*PICTURES, "forecast", "series"):
                check_is_text(text)
            yield as_input(task, text, f"input {number}", rules)
    elif file is None:
        for number, text in lines_of(STDIN, options):
            yield as_input(task, text, f"{STDIN}, line {number}", rules)
    elif task in PICTURES and (file.is_dir() or "idx3-ubyte" in file.name):
        yield from pictures_in(file)
    elif task == "series" and (is_table(file) or has_tabs(file, memory)):
        yield from (values for _, values in series_in(file, memory, tell))
    elif text_columns or (task != "series" and (is_table(file) or has_columns(file, memory, task))):
        for row, given in rows_in(file, text_columns, task, memory, tell=tell):
            if task != "lm":
                texts = given if isinstance(given, tuple) else (given,)
                for text in texts[1:] if task in PICTURES else texts:
                    check_not_empty(text, place_of(file, row.line))
            yield given
    else:
        for number, text in lines_of(file, options):
            yield as_line(task, text, file, number, rules)


def as_line(task: str, text: str, file: Path, number: int, rules: TextRules) -> Any:
    """A line of a file as what a model of this task reads."""
    place = f"{file}, line {number}"
    reads_one = task == "translate" or rules.texts == 1
    if reads_one and "\t" in text and ".tsv" in file.suffixes:
        raise InputError(
            f"{place} has a tab, and this model reads one text: {text!r:.60}. Give the texts alone, or a table whose "
            "first line names its columns, with --text-columns"
        )
    return as_input(task, text, place, rules)


def is_table(file: Path) -> bool:
    """Whether a file is a table by its name; one with tabs may as well be lines, of which some have two texts."""
    return kind_of(file) in ("csv", "jsonl", "parquet", "xlsx")


def has_columns(file: Path, memory: Memory, task: str) -> bool:
    """Whether a file with tabs has a header, or of a model that writes a text for a text is one of pairs."""
    if not has_tabs(file, memory):
        return False
    form = table_format(file, memory.options, reads_tabs(memory))
    return form.has_header or (task == "translate" and len(form.first) == 2)


def has_tabs(file: Path, memory: Memory) -> bool:
    """Whether the lines of a file by name with tabs are cut by them."""
    return kind_of(file) == "tsv" and len(table_format(file, memory.options, reads_tabs(memory)).first) > 1


def reads_of(file: Path, columns: tuple[str, ...], memory: Memory) -> Reads:
    """What is expected of a table of texts."""
    return reads_tabs(memory) if kind_of(file) == "tsv" else reads_texts(columns or memory.columns or None)


def reads_tabs(memory: Memory) -> Reads:
    return replace(reads_texts(memory.columns or None), header=False, delimiters=("tab",))


def as_input(task: str, text: str, place: str, rules: TextRules = NO_RULES) -> Any:
    """A line as what a model of this task reads. A decoder may go on from nothing; others need a text."""
    if task == "ask" and "\t" in text:
        path, question = text.split("\t", 1)
        check_characters(question, place)
        check_not_empty(question, place)
        return path, question
    if task not in PICTURES:  # a path may be of any bytes
        check_characters(text, place)
    if task == "series":
        return as_numbers(text, place)
    if task not in ("lm", *PICTURES):
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
        number = as_number(cell)
        if number is None:
            raise not_a_number(cell, place)
        numbers.append(number)
    return numbers


def not_a_number(cell: str, place: str) -> InputError:
    return InputError(f"{place}: {cell[:60]!r} is not a number. Expected the values of a series, with commas between")


def lines_of(file: Path, options: TableOptions = AS_FOUND) -> Iterator[tuple[int, str]]:
    number = 0
    for number, line in stream_lines(file, text_format(file, options), options.longest):
        yield number, line.removesuffix("\n").removesuffix("\r")
    if not number:
        raise InputError(f"{file} is empty: expected one example per line")


def rows_in(
    file: Path,
    columns: tuple[str, ...],
    task: str,
    memory: Memory = AS_FLAGS_SAY,
    *,
    nulls: bool = False,
    tell: Callable[[str], None] = lambda said: None,
) -> Iterator[tuple[Row, Any]]:
    """The rows of a table, each with what the model reads of it: a cell, or for a model that judges pairs the two. With
    `nulls`, a cell may be None."""
    rows = stream_rows(file, memory.options, reads_of(file, columns, memory))
    names: tuple[str, ...] = ()
    for row in rows:
        if not names:
            table = Table(file, tuple(row.cells), [row], rows.form)
            found = chosen(table, columns, memory, task)
            names = tuple(find_column(file, name, table.names, rows.form, "--text-columns") for name in found)
            tell_form(file, rows.form, tell, f", texts from {' and '.join(map(repr, names))}")
            if len(names) == 2 and task not in ("classify", "ask"):
                raise InputError(
                    f"{file} has the texts {' and '.join(names)}, and this model reads one. Name it: --text-columns "
                    f"{names[0]}"
                )
        cells = [cell_of(file, row, name) for name in names]
        for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
            if not (nulls and cell is None):
                cells[place] = as_text(file, row.line, name, cell)
        if task in PICTURES and cells[0] is not None:
            cells[0] = path_from(file, cells[0])
        yield row, cells[0] if len(cells) == 1 else tuple(cells)
    if rows.skipped.count:
        tell(f"{file}: {rows.skipped.count:,} blank rows were skipped")


def chosen(table: Table, columns: tuple[str, ...], memory: Memory, task: str) -> Sequence[str]:
    """Which columns are the texts: those that were named, those of the training, or the usual ones."""
    if not columns and task in PICTURES:
        usual = next((name for name in (*memory.columns[:1], *IMAGE_COLUMNS) if name in table.names), None)
        if usual is None:
            raise InputError(
                f"{table.path} has the columns {listed(table.names)}: expected one of {', '.join(IMAGE_COLUMNS)}. "
                "Name the column of the image files: --text-columns NAME"
            )
        asks = task == "ask" and next((name for name in (*memory.columns[1:], "question") if name in table.names), None)
        return (usual, asks) if asks else (usual,)
    if not columns and memory.columns and set(memory.columns) <= set(table.names):
        return memory.columns
    if not columns and task == "translate" and table.names == ("1", "2"):
        return table.names[:1]  # pairs, as in training: the source stands first
    if not columns and memory.columns and task != "translate":
        raise InputError(
            f"{table.path} has the columns {listed(table.names)}, and the training read "
            f"{' and '.join(memory.columns)}. Name the column of the text with --text-columns"
        )
    return choose_text_columns(table, columns or None)


def path_from(table: Path, cell: str) -> str:
    """An image that a table names: from the table's own folder, as in training, or else from where we are."""
    beside = file_named(table, cell)
    return str(beside) if beside.is_file() or not Path(cell.strip()).is_file() else cell.strip()


def series_in(file: Path, memory: Memory, tell: Callable[[str], None]) -> Iterator[tuple[Row, list[float]]]:
    """The rows of a table, each with its values, without its label where a header tells which cell that is."""
    reads = Reads((memory.label_column,), header=False, numbers=True)
    form = table_format(file, memory.options, reads)
    tell_form(file, form, tell)
    names, rows = numbered_rows(file, form, memory.options, reads, Skipped())
    label = list(names).index(memory.label_column) if memory.label_column in names else None
    for line, cells in rows:
        values = []
        for place, cell in enumerate(cells):
            if place != label:
                number = as_number(cell, decimal_comma=form.decimal_comma)
                if number is None:
                    raise not_a_number(str(cell), place_of(file, line))
                values.append(number)
        columns = names or [str(place) for place in range(1, len(cells) + 1)]
        yield Row(line, dict(zip(columns, cells, strict=False))), values


def tell_form(file: Path, form: TableFormat, tell: Callable[[str], None], more: str = "") -> None:
    if form.is_worth_telling:
        tell(f"{file} was read as {form}{more}")


def pictures_in(place: Path) -> Iterator[Any]:
    """The files of a folder and of those in it, by name; or the images of an idx file, by number."""
    if place.is_dir():
        files, others, _ = list_pictures(place)
        if others:
            names = some_of([str(file) for file in others])
            raise InputError(f"{place} has files that are no pictures: {names}. Move them elsewhere")
        if not files:
            raise InputError(f"{place} has no image in it: expected files such as .png or .jpg")
        yield from map(str, files)
        return
    for number, pixels in enumerate(read_idx(place, IDX_PIXELS)):
        yield Picture(f"{place}[{number}]", pixels)
