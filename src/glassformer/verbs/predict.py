"""The verb `predict`: runs a model on your inputs and prints the answers, with --json for programs."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from tyro.conf import Positional

from glassformer.config import GenerationOptions
from glassformer.data.formats.delimiter import Delimiter
from glassformer.data.formats.table import TableOptions
from glassformer.errors import InputError
from glassformer.io import write_atomic
from glassformer.settings import Settings

if TYPE_CHECKING:
    from glassformer.data.series import Series
    from glassformer.predict.bulk.job import JobOptions
    from glassformer.predict.pipeline import Pipeline
    from glassformer.text.unknown import Unknown

INPUT_CHUNK = 256  # inputs read, answered and printed at a time; each chunk is sorted by length
SHORT_TEXT_TOKENS = 8  # tokens of a short input; a chunk has enough inputs of this length to fill a batch


@dataclass(frozen=True, kw_only=True)
class PredictSettings(Settings):
    """Run a model on texts, images or series: translate, continue, fill in masks, classify, answer, forecast.

    The model determines the task. Inputs are arguments, lines of a file, or lines of standard input. Put a tab between
    the two texts of a pair.
    """

    run: Positional[Path]
    """The run or model folder, or a hub id owner/name."""
    texts: Positional[tuple[str, ...]] = ()
    """Texts, image files, or the .csv of a series to forecast (default: the lines of --file or of standard input)."""
    file: Path | None = None
    """File with one input per line, or a table with a column of texts (.csv, .tsv, .jsonl, .json, .parquet or .xlsx).
    Text files may be gzipped. For images, also a folder or an idx file; for a forecast, a .csv with dates."""
    text_columns: tuple[str, ...] = ()
    """Column of the text in --file, or the two columns of a pair (default: as in training, otherwise text, or
    sentence1 and sentence2)."""
    header: bool | None = None
    """Whether the first row of --file holds the column names (default: as in training, otherwise detected)."""
    delimiter: Delimiter | None = None
    """Delimiter between the cells of --file (default: detected)."""
    quotes: bool | None = None
    """Whether quotes enclose cells or are part of the text (default: as in training, otherwise detected)."""
    encoding: str | None = None
    """Encoding of --file, such as cp949 (default: detected)."""
    sheet: str | None = None
    """Sheet of an .xlsx file (default: the first)."""
    max_line_mb: int | None = None
    """Maximum size of a line or cell in megabytes; a longer one is an error (default: 16)."""
    truncate: bool = False
    """Truncate texts that are longer than in training. Without this flag they are an error, unless the model was
    trained with --truncate."""
    json: bool = False
    """Print one JSON object per line with the input and the answer; `unknown` lists the parts of the input that are
    not in the vocabulary, if any."""
    device: str = "cpu"
    """Device to run on, such as cpu or cuda."""
    engine: Literal["auto", "on", "off"] = "auto"
    """Whether to compile the model for speed. auto: only if that saves time overall. The answers are the same."""
    revision: str | None = None
    """Branch, tag or commit of a hub model (default: the newest)."""

    chat: bool = False
    """Send each text as a message, in the model's chat template, and print the reply."""
    source_language: str | None = None
    """Language code of the texts, for a multilingual model, such as en_XX, en or eng_Latn."""
    target_language: str | None = None
    """Language code to translate into, for a multilingual model."""
    question: str | None = None
    """Question for a question-answering model, to be answered from each text or about each image."""
    labels: tuple[str, ...] = ()
    """Texts to choose from, for a model that matches images and texts: it picks the best one for each image."""
    out: Path | None = None
    """Write the rows of --file here, with the answers as extra columns: .csv, .tsv, .jsonl (also with .gz) or .parquet.
    If the job is killed, the same command continues it. For a forecast: the .csv to write (default: standard
    output)."""
    id_column: str | None = None
    """With --out: the only column of --file to write next to the answers (default: all columns)."""
    overwrite: bool = False
    """With --out: replace an existing file and start over."""
    picture: Path | None = None
    """Draw the series and its forecast to this .png, .svg or .pdf."""
    fill: Literal["previous", "interpolate"] | None = None
    """How to fill missing values or dates of a series (default: as in training)."""
    date_format: str | None = None
    """Date format of a series, such as %d/%m/%Y (default: as in training, otherwise detected)."""
    decimal: Literal["point", "comma"] | None = None
    """Whether the numbers of a series are written 1,234.5 or 1.234,5 (default: as in training, otherwise detected)."""
    batch_tokens: int | None = None
    """Tokens per batch, padding included; lower it if memory runs out (default: 4,096)."""
    guesses: int | None = None
    """Number of words to suggest for each mask (default: 5)."""

    max_new_tokens: int | None = None
    """Maximum length of the output in tokens (default: the model's own setting, otherwise 256)."""
    num_beams: int | None = None
    """Number of beams (default: the model's own setting)."""
    do_sample: bool = False
    """Sample each token by its probability (default: the model's own setting)."""
    greedy: bool = False
    """Always take the most probable token, even if the model's own setting is to sample."""
    temperature: float | None = None
    """Sampling temperature: below 1 sharpens the distribution, above 1 flattens it (default: the model's own
    setting)."""
    top_k: int | None = None
    """Sample from the K most probable tokens; 0 for all (default: the model's own setting)."""
    top_p: float | None = None
    """Sample from the most probable tokens whose probabilities add up to P (default: the model's own setting)."""
    seed: int | None = None
    """Random seed for sampling."""

    @property
    def tables(self) -> TableOptions:
        """How to read --file, where flags say so."""
        return TableOptions.of(self)

    @property
    def generation(self) -> GenerationOptions:
        """How to generate, where flags say so."""
        if self.do_sample and self.greedy:
            raise InputError("--do-sample and --greedy were both given: choose one")
        return GenerationOptions(
            max_new_tokens=self.max_new_tokens,
            num_beams=self.num_beams,
            do_sample=self.do_sample if self.do_sample or self.greedy else None,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=self.seed,
        )

    @property
    def options(self) -> dict[str, Any]:
        """The other options of the model, where flags were given."""
        names = (
            *("source_language", "target_language", "question", "fill", "date_format", "decimal"),
            *("batch_tokens", "guesses"),
        )
        values = {
            "chat": self.chat or None,
            "labels": self.labels or None,
            "truncate": self.truncate or None,
            **{name: getattr(self, name) for name in names},
        }
        return {name: value for name, value in values.items() if value is not None}


def main(settings: PredictSettings) -> None:
    from glassformer.predict.inputs import check_source, remembered_format, stream_inputs
    from glassformer.predict.pipeline import pipeline
    from glassformer.predict.show import SHOW, answer_json, as_json, as_text
    from glassformer.text.unknown import UnknownTally

    check_source(settings.texts, settings.file, settings.text_columns)
    check_out(settings)
    options, generation = settings.options, settings.generation
    run = pipeline(str(settings.run), device=settings.device, revision=settings.revision, engine=settings.engine)
    if run.note and not settings.json:
        print(run.note, file=sys.stderr)
    if settings.text_columns and run.task in ("forecast", "series"):
        raise InputError(f"--text-columns needs a model that reads texts; this model {run.does}. Leave it out")
    if run.task == "forecast":
        if settings.id_column:
            raise InputError(f"--id-column needs a model that answers row by row; this model {run.does}. Leave it out")
        run.check_options({**options, **generation.given()})
        predict_series(run, settings)
        return
    if settings.picture is not None:
        raise InputError(f"--picture needs a model that forecasts series; this model {run.does}. Leave it out")
    if settings.out is not None:
        from glassformer.verbs.predict_file import predict_file

        if run.task == "match" and not settings.labels:
            raise InputError("--out writes the label of each image. Give the texts to choose from with --labels")
        predict_file(run, file_asked(settings))
        tell_engine(run)
        return
    size = max(INPUT_CHUNK, (settings.batch_tokens or 0) // SHORT_TEXT_TOKENS)
    if (run.task == "embed" or (run.task == "match" and not settings.labels)) and not settings.json:
        size = sys.maxsize  # vectors are shown by their similarities, which need all of them
    memory = remembered_format(run.folder, settings.tables)
    given = stream_inputs(
        run.task, settings.texts, settings.file, settings.text_columns, memory, run.rules, tell=tell_format
    )
    told, tally = settings.json, UnknownTally()
    for inputs, outputs, unknown in answered_chunks(run, given, options, generation, size):
        told = told or tell_engine(run)
        tally.add(unknown)
        if settings.json:
            lacks = [{"unknown": list(one.pieces)} if one.pieces else {} for one in unknown] or [{}] * len(inputs)
            for given, output, lack in zip(inputs, outputs, lacks, strict=True):
                said = {"input": as_json(given), **answer_json(run.task, output), **lack}
                print(json.dumps(said, ensure_ascii=False))
        else:
            SHOW[run.task]([as_text(given) for given in inputs], outputs)
        sys.stdout.flush()
    if tally.unknown:
        print(tally.sentence(), file=sys.stderr)


def tell_format(said: str) -> None:
    """Prints how a table was read, if that was not certain."""
    print(said, file=sys.stderr)


def check_out(settings: PredictSettings) -> None:
    """Refuses flags that need --out if it is not given."""
    for flag, given in (("id-column", settings.id_column), ("overwrite", settings.overwrite)):
        if given and settings.out is None:
            raise InputError(f"--{flag} only works with --out. Add --out FILE")


def file_asked(settings: PredictSettings) -> "JobOptions":
    """The job of --out. Refuses flags that do not work with it."""
    from glassformer.predict.bulk.job import JobOptions

    assert settings.out is not None
    if settings.file is None:
        raise InputError("--out writes the rows of a file with their answers. Give the file with --file")
    if settings.json:
        raise InputError("--json prints to standard output. To write JSON lines to a file, use --out NAME.jsonl")
    return JobOptions(
        file=settings.file,
        out=settings.out,
        text_columns=settings.text_columns,
        id_column=settings.id_column,
        overwrite=settings.overwrite,
        tables=settings.tables,
        options=settings.options,
        generation=settings.generation,
    )


def tell_engine(run: "Pipeline") -> bool:
    """Prints that the engine runs the model, if it does."""
    if run.engine is None:
        return False
    print(f"engine: {run.engine}", file=sys.stderr)
    return True


def answered_chunks(
    run: "Pipeline", inputs: Iterator[Any], options: dict[str, Any], generation: GenerationOptions, size: int
) -> Iterator[tuple[list[Any], Any, "list[Unknown]"]]:
    """Yields inputs, answers and unknown tokens, `size` inputs at a time: the first answers appear early, and memory
    holds no more than one chunk."""
    done, seed = 0, generation.seed
    with counted() as tell:
        while chunk := list(islice(inputs, size)):
            if seed is not None:  # each chunk samples with another seed
                generation = generation.replace(seed=seed + done)
            try:
                outputs, unknown = run.answer(chunk, generation=generation, **options)
            except InputError as error:
                if not done:
                    raise
                raise InputError(f"in inputs {done + 1} to {done + len(chunk)}: {error}") from None
            yield chunk, outputs, unknown
            done += len(chunk)
            tell(done)


@contextmanager
def counted() -> Iterator[Callable[[int], None]]:
    """Shows on a terminal how many inputs are done, unless the answers themselves are printed there."""
    console = Console(stderr=True)
    shown = console.is_terminal and not sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} done"), TimeElapsedColumn())
    # rich would redirect the printed answers to its own console, away from the file that standard output goes to.
    bar = Progress(*columns, console=console, disable=not shown, transient=True, redirect_stdout=False)
    with bar:
        line = bar.add_task("predict", total=None)
        yield lambda done: bar.update(line, completed=done)


def predict_series(run: "Pipeline", settings: PredictSettings) -> None:
    """`predict` with a model that forecasts: reads a CSV file and writes one with the dates that follow."""
    from glassformer.figures.plots import draw_forecast
    from glassformer.predict.series import as_csv, following_times

    series, name = given_series(settings, run)
    for note in series.notes:
        print(note, file=sys.stderr)
    future = run(series)
    if not settings.json:
        tell_engine(run)
    times = following_times(series, len(future))
    if settings.picture is not None:
        assert run.model.config.series is not None
        length = run.model.config.series.length
        draw_forecast(
            series.values[-length:], future, series.names, series.times[-length:], times, name, settings.picture
        )
    if settings.json:
        values = {channel: future[:, c].tolist() for c, channel in enumerate(series.names)}
        text = json.dumps({"input": name, "times": times, "forecast": values}, ensure_ascii=False) + "\n"
    else:
        text = as_csv(series.names, times, future)
    if settings.out is None:
        sys.stdout.write(text)
    else:
        write_atomic(settings.out, text)
        channels = "1 channel" if len(series.names) == 1 else f"{len(series.names)} channels"
        print(f"Saved to {settings.out}: {len(future)} rows, {channels}", file=sys.stderr)


def given_series(settings: PredictSettings, run: "Pipeline") -> "tuple[Series, str]":
    from glassformer.data.files import STDIN
    from glassformer.predict.inputs import remembered_format
    from glassformer.predict.series import read_as_trained

    if len(settings.texts) > 1:
        raise InputError(
            f"{len(settings.texts)} files were given, and this model forecasts one at a time. Give one CSV file"
        )
    file = settings.file or (Path(settings.texts[0]) if settings.texts else STDIN)
    remembered = remembered_format(run.folder, settings.tables)
    series = read_as_trained(
        file, run.beside, fill=settings.fill, date_format=settings.date_format, decimal=settings.decimal,
        options=replace(settings.tables, max_line_mb=remembered.options.max_line_mb),
    )  # fmt: skip
    return series, str(file)
