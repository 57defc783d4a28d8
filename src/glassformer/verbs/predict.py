"""The verb `predict`: a model on the user's inputs, printed for a person or, with --json, for a program."""

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
from glassformer.io import write_whole
from glassformer.settings import Settings

if TYPE_CHECKING:
    from glassformer.data.series import Series
    from glassformer.predict.bulk.job import Asked
    from glassformer.predict.pipeline import Pipeline
    from glassformer.text.unknown import Unknown

CHUNK = 256  # inputs that are read, answered and shown before the next; sorted by length in between
SHORT = 8  # tokens of a short input: enough of those are read to fill a batch


@dataclass(frozen=True, kw_only=True)
class PredictSettings(Settings):
    """Run a model on texts, images or series: translate, continue, fill in masks, classify, answer, forecast.

    What it does is known from the model. Inputs are arguments, lines of a file, or lines of standard input. Two texts
    to be judged together have a tab between them.
    """

    run: Positional[Path]
    """The run or model folder, or a hub id owner/name."""
    texts: Positional[tuple[str, ...]] = ()
    """The texts, or the image files, or the .csv of a series to forecast; without any, those of --file or of standard
    input."""
    file: Path | None = None
    """A file with an input in each line, or a table with a column of texts (.csv, .tsv, .jsonl, .json, .parquet or
    .xlsx); one of text may be gzipped. Of images, also a folder or an idx file; of a series to forecast, a .csv with
    its dates."""
    text_columns: tuple[str, ...] = ()
    """The column of the text in --file, or the two of a pair; if not given, those of the training, or text, or
    sentence1 and sentence2."""
    header: bool | None = None
    """--header: the first row of --file names its columns; --no-header: it is an input. As in training, or found."""
    delimiter: Delimiter | None = None
    """What stands between the cells of --file; found if not given."""
    quotes: bool | None = None
    """--quotes: quotes stand around cells of --file; --no-quotes: they are part of the text. As in training, or
    found."""
    encoding: str | None = None
    """Encoding of --file, such as cp949; found if not given."""
    sheet: str | None = None
    """Which sheet of an .xlsx file; the first if not given."""
    max_line_mb: int | None = None
    """Longest line or cell of a file, in megabytes; 16 if not given. A longer one is an error."""
    truncate: bool = False
    """Cut texts that are longer than the model was trained on; without it, they are an error, unless it was trained
    with --truncate."""
    json: bool = False
    """Print one JSON object per line, with the input and what was made of it; `unknown` lists what the vocabulary
    lacks of the input, if anything."""
    device: str = "cpu"
    """Where to run, such as cpu or cuda."""
    engine: Literal["auto", "on", "off"] = "auto"
    """Whether to compile the model for speed; auto does if that saves time overall. The answers are the same."""
    revision: str | None = None
    """Of a hub id, which branch, tag or commit; the newest if not given."""

    chat: bool = False
    """Give each text as a message, in the model's chat template, and print the answer."""
    source_language: str | None = None
    """The language of the texts, as the model names it (en_XX, en, eng_Latn)."""
    target_language: str | None = None
    """The language to translate into, as the model names it."""
    question: str | None = None
    """The question that a question-answering model finds the answer to: in each text, or about each image."""
    labels: tuple[str, ...] = ()
    """Texts to choose from, of a model that matches images with texts: the one that fits each image best is named."""
    out: Path | None = None
    """Write the rows of --file here with the answers as further columns: .csv, .tsv, .jsonl (or these with .gz) or
    .parquet. If it is killed, the same command goes on where it was. Of a model that forecasts, the forecast as .csv;
    to standard output if not given."""
    id_column: str | None = None
    """With --out: of the columns of --file, write only this one beside the answers."""
    overwrite: bool = False
    """With --out: replace what is there, and start anew."""
    picture: Path | None = None
    """Draw the forecast behind its past, to this .png, .svg or .pdf."""
    fill: Literal["previous", "interpolate"] | None = None
    """What to put where a series to forecast has no value or no row; as in training, if not given."""
    date_format: str | None = None
    """How the dates of a series to forecast are written, such as %d/%m/%Y; found from the column, if not given."""
    decimal: Literal["point", "comma"] | None = None
    """Whether the numbers of a series to forecast are written 1,234.5 or 1.234,5; found, if not given."""
    batch_tokens: int | None = None
    """Tokens computed together, padding included; 4,096 if not given. Lower it if memory runs out."""
    guesses: int | None = None
    """How many words to suggest for a mask; 5 if not given."""

    max_new_tokens: int | None = None
    """Longest output, in tokens; if neither this nor the model says, 256."""
    num_beams: int | None = None
    """Search with as many beams; as the model says, if not given (so for all that follow)."""
    do_sample: bool = False
    """Draw each token by its probability."""
    greedy: bool = False
    """Take the likeliest token each time, also where the model prefers to draw."""
    temperature: float | None = None
    """Below 1 draws the likely more often, above 1 the unlikely."""
    top_k: int | None = None
    """Draw from as many of the likeliest tokens; 0 for all."""
    top_p: float | None = None
    """Draw from the likeliest tokens that have this probability together."""
    seed: int | None = None
    """Decides what is drawn."""

    @property
    def tables(self) -> TableOptions:
        """How --file is written, as far as flags say it."""
        return TableOptions.of(self)

    @property
    def generation(self) -> GenerationOptions:
        """How the model writes, as far as flags say it."""
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
        """What else a model can be told, of the flags that were given."""
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
    from glassformer.predict.inputs import check_source, remembered, stream_inputs
    from glassformer.predict.pipeline import pipeline
    from glassformer.predict.show import SHOW, as_json, as_text, as_values
    from glassformer.text.unknown import Tally

    check_source(settings.texts, settings.file, settings.text_columns)
    check_out(settings)
    options, generation = settings.options, settings.generation
    run = pipeline(str(settings.run), device=settings.device, revision=settings.revision, engine=settings.engine)
    if run.note and not settings.json:
        print(run.note, file=sys.stderr)
    if settings.text_columns and run.task in ("forecast", "series"):
        raise InputError(f"--text-columns is for a model of texts; this one {run.does}: leave it out")
    if run.task == "forecast":
        if settings.id_column:
            raise InputError(f"--id-column is for a model that answers row by row; this one {run.does}: leave it out")
        run.check_options({**options, **generation.given()})
        predict_series(run, settings)
        return
    if settings.picture is not None:
        raise InputError(f"--picture is for a model that says how a series goes on; this one {run.does}: leave it out")
    if settings.out is not None:
        from glassformer.verbs.predict_file import predict_file

        if run.task == "match" and not settings.labels:
            raise InputError("--out writes the label of each image: give the texts to choose from with --labels")
        predict_file(run, file_asked(settings))
        tell_engine(run)
        return
    size = max(CHUNK, (settings.batch_tokens or 0) // SHORT)
    if (run.task == "embed" or (run.task == "match" and not settings.labels)) and not settings.json:
        size = sys.maxsize  # vectors are compared with each other, so a person is shown all of them together
    memory = remembered(run.folder, settings.tables)
    given = stream_inputs(
        run.task, settings.texts, settings.file, settings.text_columns, memory, run.rules, tell=tell_format
    )
    told, tally = settings.json, Tally()
    for inputs, outputs, unknown in answered(run, given, options, generation, size):
        told = told or tell_engine(run)
        tally.add(unknown)
        if settings.json:
            lacks = [{"unknown": list(one.pieces)} if one.pieces else {} for one in unknown] or [{}] * len(inputs)
            for given, output, lack in zip(inputs, outputs, lacks, strict=True):
                said = {"input": as_json(given), **as_values(run.task, output), **lack}
                print(json.dumps(said, ensure_ascii=False))
        else:
            SHOW[run.task]([as_text(given) for given in inputs], outputs)
        sys.stdout.flush()
    if tally.unknown:
        print(tally.sentence(), file=sys.stderr)


def tell_format(said: str) -> None:
    """Says how a table was read, where that was not certain."""
    print(said, file=sys.stderr)


def check_out(settings: PredictSettings) -> None:
    """Refuses flags that go with --out where it is not given."""
    for flag, given in (("id-column", settings.id_column), ("overwrite", settings.overwrite)):
        if given and settings.out is None:
            raise InputError(f"--{flag} says how to write --out: give it, too")


def file_asked(settings: PredictSettings) -> "Asked":
    """What --out asks for; refuses what does not go with it."""
    from glassformer.predict.bulk.job import Asked

    assert settings.out is not None
    if settings.file is None:
        raise InputError("--out writes the rows of a file with their answers: give the file with --file")
    if settings.json:
        raise InputError("--json prints to standard output; for a file of JSON lines, end the name of --out in .jsonl")
    return Asked(
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
    """Says that the engine runs the model, if it does."""
    if run.engine is None:
        return False
    print(f"engine: {run.engine}", file=sys.stderr)
    return True


def answered(
    run: "Pipeline", inputs: Iterator[Any], options: dict[str, Any], generation: GenerationOptions, size: int
) -> Iterator[tuple[list[Any], Any, "list[Unknown]"]]:
    """Inputs, answers and unknown tokens, `size` at a time: the first are there early, and memory holds no more than
    these."""
    done, seed = 0, generation.seed
    with counted() as tell:
        while chunk := list(islice(inputs, size)):
            if seed is not None:  # what is drawn for a text differs from chunk to chunk
                generation = generation.replace(seed=seed + done)
            try:
                outputs, unknown = run.answer(chunk, generation=generation, **options)
            except InputError as error:
                if not done:
                    raise
                raise InputError(f"among the inputs {done + 1} to {done + len(chunk)}, {error}") from None
            yield chunk, outputs, unknown
            done += len(chunk)
            tell(done)


@contextmanager
def counted() -> Iterator[Callable[[int], None]]:
    """Says on a terminal how much is done, while the answers go elsewhere; where they are seen, they say it."""
    console = Console(stderr=True)
    shown = console.is_terminal and not sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} done"), TimeElapsedColumn())
    # The library would take what is printed meanwhile to its own console, away from the file it is meant for.
    bar = Progress(*columns, console=console, disable=not shown, transient=True, redirect_stdout=False)
    with bar:
        line = bar.add_task("predict", total=None)
        yield lambda done: bar.update(line, completed=done)


def predict_series(run: "Pipeline", settings: PredictSettings) -> None:
    """`predict` with a model that forecasts: a CSV file in, a CSV file out, with the dates that follow."""
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
        write_whole(settings.out, text)
        print(f"{len(future)} values of {len(series.names)} channels are in {settings.out}", file=sys.stderr)


def given_series(settings: PredictSettings, run: "Pipeline") -> "tuple[Series, str]":
    from glassformer.data.files import STDIN
    from glassformer.predict.inputs import remembered
    from glassformer.predict.series import read_as_trained

    if len(settings.texts) > 1:
        raise InputError(
            f"{len(settings.texts)} files were given: this model forecasts one at a time. Give one CSV file"
        )
    file = settings.file or (Path(settings.texts[0]) if settings.texts else STDIN)
    series = read_as_trained(
        file, run.beside, fill=settings.fill, date_format=settings.date_format, decimal=settings.decimal,
        options=replace(settings.tables, max_line_mb=remembered(run.folder, settings.tables).options.max_line_mb),
    )  # fmt: skip
    return series, str(file)
