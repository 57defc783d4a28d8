"""Runs a model on a whole file and writes another: `glassformer predict RUN --file big.csv --out scored.csv`.

The columns of the input are unchanged, the answers are extra columns, and the rows keep their order. Rows are answered
chunk by chunk, so memory holds one chunk at a time. A killed job continues after its last complete chunk and ends with
the same bytes: a chunk always has the same rows and batches, and runs on the same engine with the same number of
threads (`journal.py`, `facts.py`).
"""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from glassformer.config import GenerationOptions
from glassformer.data.files import AS_FOUND, absent_column
from glassformer.data.formats.table import TableOptions
from glassformer.errors import InputError
from glassformer.io import sync
from glassformer.predict.bulk.columns import answer_cells, answer_columns
from glassformer.predict.bulk.facts import check_same_job, job_facts
from glassformer.predict.bulk.formats import Format, RowCells, make_format, suffix_of
from glassformer.predict.bulk.journal import Journal
from glassformer.predict.bulk.rows import InputRow, Source, Survey, survey
from glassformer.predict.calls import collect_notes
from glassformer.predict.inputs import remembered_format
from glassformer.predict.pipeline import Pipeline
from glassformer.text.unknown import UnknownTally
from glassformer.threads import Load, held, threads_of_training

CHUNK_ROWS = 1024, 8192  # minimum rows, for a large model, and maximum rows, for a small one
CHUNK_WORK = 1 << 34  # parameters times rows: chunks of a few seconds, so that little is lost and batches are full
CHUNK_TO_WRITE = 256  # rows for a model that generates, which takes longer per row
CHUNK_CHARACTERS = 1 << 23  # maximum characters of a chunk: a file of long texts must not fill the memory
SHORT_TEXT_TOKENS = 8  # tokens of a short text; a chunk has enough texts of this length to fill a batch
SAMPLE_ROWS = 256  # rows from which the total work is estimated
NAMED, REMEMBERED = 5, 20  # unanswered rows that are named at the end; unknown words that the journal keeps


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The settings of a job."""

    file: Path
    out: Path
    text_columns: tuple[str, ...] = ()
    id_column: str | None = None  # the only column of the input to write; None: all
    overwrite: bool = False
    tables: TableOptions = AS_FOUND  # how to read the file, where flags say so
    options: dict[str, Any] = field(default_factory=dict)  # of the pipeline
    generation: GenerationOptions = field(default_factory=GenerationOptions)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine the answers, by the names of their flags."""
        chosen = {"text_columns": self.text_columns or None, "id_column": self.id_column, **vars(self.tables)}
        return {
            name: value
            for name, value in {**chosen, **self.options, **self.generation.given()}.items()
            if value is not None
        }


class Teller(Protocol):
    """Shows the progress of a job."""

    def say(self, line: str) -> None: ...
    def at(self, rows: int, total: int) -> None: ...


class Unanswered(NamedTuple):
    """In place of an answer, for an input that the model cannot answer, such as a text that is too long."""

    why: str


@dataclass
class Outcome:
    """Counts of what happened to the rows so far; saved in the journal."""

    empty: int = 0  # empty rows
    refused: int = 0  # rows that the model cannot answer
    named: list[str] = field(default_factory=list)  # the first of both, with reasons
    spaced: int = 0  # cells of a .tsv whose tabs and line breaks became spaces
    notes: Counter[str] = field(default_factory=Counter)  # remarks on texts, and the number of texts
    unknown: UnknownTally = field(default_factory=UnknownTally)  # unknown tokens
    engine: str | None = None  # engine that ran the model, "off" if none; None before the first answer

    def add(self, row: str, answer: Any) -> None:
        """Counts a row without an answer."""
        self.empty += answer is None
        self.refused += isinstance(answer, Unanswered)
        if len(self.named) < NAMED:
            self.named.append(f"{row}: {'it is empty' if answer is None else answer.why}")

    def to_dict(self) -> dict[str, Any]:
        counts = {**vars(self.unknown), "pieces": dict(self.unknown.pieces.most_common(REMEMBERED))}
        return {**vars(self), "unknown": counts}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Outcome":
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        tally = UnknownTally()
        vars(tally).update(known.pop("unknown", {}))
        tally.pieces = Counter(tally.pieces)
        return cls(**{**known, "notes": Counter(known.get("notes")), "unknown": tally})


def run_job(run: Pipeline, asked: JobOptions, teller: Teller) -> "Job":
    """Answers every row of a file, or continues a job that was killed."""
    load = Load()
    check_place(asked)
    with Journal(asked.out) as journal:
        check_free_output(journal, asked)
        job = Job(run, asked, journal, teller)
        threads = job.begin(load)
        start_tokenizer_threads(run)
        with held(threads), frozen_garbage():
            job.work()
        job.end()
    return job


@contextmanager
def frozen_garbage() -> Iterator[None]:
    """Exempts existing objects, which stay alive, from the garbage collections that the rows of a file trigger."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def start_tokenizer_threads(run: Pipeline) -> None:
    """Starts the tokenizer's threads while this thread may still use all cores: they inherit its cores."""
    if run.tokenizer is not None:
        run.tokenizer.ids_batch(["a", "b"])


def check_place(asked: JobOptions) -> None:
    """Refuses an impossible output before any work is done."""
    suffix_of(asked.out)
    if asked.out.is_dir():
        raise InputError(f"--out {asked.out} is a folder: expected a file name")
    if asked.out.exists() and asked.out.samefile(asked.file):
        raise InputError(f"--out {asked.out} is the input file: choose another name")


def check_free_output(journal: Journal, asked: JobOptions) -> None:
    if asked.out.exists() and journal.facts is None and not asked.overwrite:
        raise InputError(f"--out {asked.out} already exists: choose another name, or replace it with --overwrite")


class Job:
    """One input file and its output."""

    def __init__(self, run: Pipeline, asked: JobOptions, journal: Journal, teller: Teller) -> None:
        self.run, self.asked, self.journal, self.teller = run, asked, journal, teller
        run.check_options({**asked.options, **asked.generation.given()})
        memory = remembered_format(run.folder, asked.tables)
        self.source = Source(run.task, asked.file, asked.text_columns, memory, run.rules)
        self.found: Survey = survey(self.source, teller.say)
        columns = kept_columns(self.found.columns, asked)
        self.kept = list(columns)
        self.answers = answer_columns(run.task, run.model, columns)
        self.format: Format = make_format(asked.out, asked.file, self.source.form, columns, self.answers)
        self.outcome = Outcome()
        self.empty_cells: list[Any] = [None] * len(self.answers)
        self.chunk_rows = max(chunk_rows(run), asked.options.get("batch_tokens", 0) // SHORT_TEXT_TOKENS)

    def begin(self, load: Load) -> int:
        """Starts the job or continues it; returns the number of threads."""
        asked, journal, settings = self.asked, self.journal, self.asked.settings
        if self.run.choice.use != "auto":
            settings["engine"] = self.run.choice.use
        settings["device"] = str(self.run.model.device)
        chunk = (self.chunk_rows, CHUNK_CHARACTERS)
        facts = job_facts(self.run.folder, self.found.checksum, self.found.count, settings, chunk)
        if journal.facts is None or asked.overwrite:
            threads = threads_of_training(load, None)
            journal.begin({**facts, "threads": threads, "engine": self.settle_engine()})
            return threads
        check_same_job(journal.facts, facts, asked.out, asked.file, self.run.folder)
        if not self.is_in_place:
            journal.go_on()
        done = journal.state["rows"]
        self.teller.say(f"continuing {asked.out} after row {done:,} of {self.found.count:,}")
        self.run.choice.use = journal.facts["engine"]
        self.outcome = Outcome.from_dict(journal.state)
        self.format.spaced = self.outcome.spaced
        return int(journal.facts["threads"])

    def settle_engine(self) -> str:
        sample = list(islice((row.input for row in self.source.rows() if row.input is not None), SAMPLE_ROWS))
        if not sample:
            return self.run.choice.use
        times = self.found.count / len(sample)
        return self.run.settle_engine(sample, times, generation=self.asked.generation, **self.asked.options)

    def work(self) -> None:
        """Answers the remaining rows, chunk by chunk."""
        done, total = self.journal.state["rows"], self.found.count
        self.teller.at(done, total)
        if done == total:
            return
        for chunk in self.chunks(islice(self.source.rows(), done, None)):
            answers = self.answer([row.input for row in chunk], done)
            self.check_answers(chunk, answers, is_first=not done)
            for row, answer in zip(chunk, answers, strict=True):
                if not is_answer(answer):
                    self.outcome.add(f"{self.source.row_name} {row.line}", answer)
            data = self.format.chunk([self.written(*pair) for pair in zip(chunk, answers, strict=True)])
            data, done = (data if done else self.format.head() + data), done + len(chunk)
            self.outcome.spaced = self.format.spaced
            self.journal.add(data, rows=done, **self.outcome.to_dict())
            self.teller.at(done, total)

    def chunks(self, rows: Iterable[InputRow]) -> Iterator[list[InputRow]]:
        """Splits the rows into chunks, which depend on the input alone."""
        chunk: list[InputRow] = []
        size = 0
        for row in rows:
            chunk.append(row)
            size += sum(len(cell) for cell in row.cells.values() if isinstance(cell, str))
            if len(chunk) == self.chunk_rows or size >= CHUNK_CHARACTERS:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def answer(self, inputs: list[Any], number: int) -> list[Any]:
        """The answer to each input; None for an empty one, `Unanswered` for one that the model cannot answer."""
        generation = self.asked.generation
        if self.run.writes:  # each chunk samples with its own seed, the same in every run
            generation = generation.replace(seed=(generation.seed or 0) + number)

        def solve(some: list[Any]) -> list[Any]:
            try:
                with collect_notes(notes := Counter[str]()):
                    answers, unknown = self.run.answer(some, generation=generation, **self.asked.options)
            except InputError as error:
                if len(some) == 1:
                    return [Unanswered(without_number(str(error)))]
                half = len(some) // 2
                return solve(some[:half]) + solve(some[half:])
            self.outcome.unknown.add(unknown)
            self.outcome.notes += notes
            return list(answers)

        given = [some for some in inputs if some is not None]
        answers = iter(solve(given) if given else ())
        return [None if some is None else next(answers) for some in inputs]

    def check_answers(self, chunk: list[InputRow], answers: list[Any], *, is_first: bool) -> None:
        """Refuses answers from another engine than before, because their bytes would differ. If no row of the first
        chunk has an answer, the rows are hardly to blame: the job stops with the reason."""
        if any(map(is_answer, answers)):
            before, now = self.outcome.engine, self.run.engine or "off"
            if before not in (None, now):
                raise InputError(
                    f"--out {self.asked.out} was started with the engine {before}, and here it is {now}: continue on "
                    "the machine where it was started, or start over with --overwrite"
                )
            self.outcome.engine = now
            return
        for row, answer in zip(chunk, answers, strict=True):
            if is_first and isinstance(answer, Unanswered):
                rows = f"any of the first {len(chunk):,} rows" if len(chunk) > 1 else "the first row"
                where = f"{self.source.row_name} {row.line}"
                raise InputError(f"{self.asked.file}: the model cannot answer {rows}; {where}: {answer.why}")

    def written(self, row: InputRow, answer: Any) -> RowCells:
        """The cells of an output row."""
        cells = answer_cells(self.run.task, answer) if is_answer(answer) else self.empty_cells
        kept = row.cells if self.asked.id_column is None else {name: row.cells.get(name) for name in self.kept}
        return {**kept, **dict(zip(self.answers, cells, strict=True))}

    @property
    def is_in_place(self) -> bool:
        """Whether the previous job was killed after its output was complete."""
        journal = self.journal
        return journal.state["rows"] == self.found.count and journal.place.is_file() and not journal.partial.exists()

    def end(self) -> None:
        """Turns the partial file into the output and deletes the journal."""
        if not self.is_in_place:
            self.format.finish(self.journal.partial, self.journal.place)
            sync(self.journal.place.parent)
        self.journal.end()

    def told(self) -> list[str]:
        """The summary to print at the end."""
        found, out = self.outcome, self.asked.out
        rows, without = self.found.count, found.empty + found.refused
        of_all, have = "row" if rows == 1 else "rows", "row has" if without == 1 else "rows have"
        columns = f"column{'s' if len(self.answers) > 1 else ''} {' and '.join(self.answers)}"
        said = [f"Saved {rows:,} {of_all} to {out}, with the answers in {columns}"]
        if without:
            reasons = ((found.empty, "empty"), (found.refused, "refused by the model"))
            counted = ", ".join(f"{count:,} {why}" for count, why in reasons if count)
            said.append(f"{without:,} {have} no answer ({counted}):")
            said += [f"  {row}" for row in [*found.named, *(["..."] if without > len(found.named) else [])]]
        for what, count in found.notes.items():
            said.append(f"{count:,} of {rows:,} texts {'is' if count == 1 else 'are'} {what}")
        if found.spaced:
            cells = "1 cell" if found.spaced == 1 else f"{found.spaced:,} cells"
            said.append(f"tabs or line breaks in {cells} became spaces, because .tsv cannot hold them")
        return [*said, *filter(None, [found.unknown.sentence()])]


def chunk_rows(run: Pipeline) -> int:
    if run.writes:
        return CHUNK_TO_WRITE
    least, most = CHUNK_ROWS
    return min(most, max(least, CHUNK_WORK // sum(weight.numel() for weight in run.model.parameters())))


def is_answer(answer: Any) -> bool:
    return answer is not None and not isinstance(answer, Unanswered)


def kept_columns(columns: dict[str, set[type]], asked: JobOptions) -> dict[str, set[type]]:
    if asked.id_column is None:
        return columns
    if asked.id_column not in columns:
        raise absent_column(str(asked.file), asked.id_column, columns)
    return {asked.id_column: columns[asked.id_column]}


def without_number(why: str) -> str:
    """An error about a single input, without its number."""
    for name in ("text", "series", "input"):
        for number in (0, 1):  # tensors of ids are counted from 0
            if why.startswith(f"{name} {number} "):
                return why.replace(f"{name} {number}", f"the {name}", 1)
    return why
