"""What each verb can be told: one dataclass per verb. Its fields are the flags, the keys of a TOML file, and the
record kept beside the weights. Nothing heavy is imported here, so that `--help` answers at once.

The string under a field is its help text.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from glassformer.errors import InputError
from glassformer.schema import Config


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """The base: a value that does not fit is named as the flag that gave it."""

    def _name(self, field: str) -> str:
        return "--" + field.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Settings):
    """Train a small Transformer on the built-in dates for about a minute, score it, translate, draw its attention."""

    out: Path = Path("runs/demo")
    """The run folder to write; an earlier demo in it is replaced."""
    steps: int = 1400
    """Updates of the weights."""
    seed: int = 0
    """Decides the data, the initial weights and the order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise self._refuse("steps", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
class DataSettings(Settings):
    """List the public data sets that there are recipes for, or bring one here, file by file, each with its checksum."""

    name: Positional[str | None] = None
    """The data set; without it, the list."""
    out: Path = Path("data")
    """The folder to write into: the files stand in a folder of the data set's name, as the recipes expect them."""
    source: Annotated[Path | None, arg(name="from")] = None
    """Take the files from this folder, in which they stand as they are or in a folder of the data set's name, plain or
    gzipped; from the network if not given."""
    json: bool = False
    """Print the list, or the files that were brought, as JSON."""


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
    """A file with an input in each line, or a .csv or .jsonl with a column of texts; may be gzipped. Of images, also a
    folder or an idx file; of a series to forecast, a .csv with its dates."""
    text_columns: tuple[str, ...] = ()
    """The column of the text in --file, or the two of a pair; text, or sentence1 and sentence2, if not given."""
    json: bool = False
    """Print one JSON object per line, with the input and what was made of it."""
    device: str = "cpu"
    """Where to run, such as cpu or cuda."""
    revision: str | None = None
    """Of a hub id, which branch, tag or commit; the newest if not given."""

    chat: bool = False
    """Give each text as a message, in the model's chat template, and print the answer."""
    source_language: str | None = None
    """The language of the texts, as the model names it (en_XX, en, eng_Latn)."""
    target_language: str | None = None
    """The language to translate into, as the model names it."""
    question: str | None = None
    """The question that a question-answering model finds the answer to, in each text."""
    out: Path | None = None
    """Where to write a forecast; to standard output if not given."""
    picture: Path | None = None
    """Draw the forecast behind its past, to this .png, .svg or .pdf."""
    fill: Literal["previous", "interpolate"] | None = None
    """What to put where a series to forecast has no value or no row; without it, that is an error."""
    batch_size: int | None = None
    """Inputs that are computed together; 32 if not given, less where they are large."""
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
    def options(self) -> dict[str, Any]:
        """What the model is told: the flags that were given."""
        if self.do_sample and self.greedy:
            raise InputError("--do-sample and --greedy were both given: choose one")
        about_the_call = (
            "run",
            "texts",
            "file",
            "text_columns",
            "json",
            "out",
            "picture",
            "device",
            "revision",
            "greedy",
        )
        values = {name: value for name, value in self.to_dict().items() if name not in about_the_call}
        values["chat"] = self.chat or None
        values["do_sample"] = self.do_sample if self.do_sample or self.greedy else None
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class EvalSettings(Settings):
    """Score a run again, on what it held out or on files of yours, beside what simple methods reach on its own data.

    A model that was not trained here is scored, too, if its task is named and files are given.
    """

    run: Positional[Path]
    """The run folder; with --task, any model folder or a hub id owner/name."""
    data: tuple[Path, ...] = ()
    """Files to score, in the format that the run was trained on; if not given, what the run held out."""
    split: Literal["valid", "test"] | None = None
    """Which of the run's own examples; the test set if it has one, and else the validation set, if not given."""
    task: Literal["translate", "classify", "lm", "mlm", "images", "forecast"] | None = None
    """What the model is for, if its folder does not say."""
    json: bool = False
    """Print the scores as one JSON object."""
    device: str | None = None
    """Where to run, such as cpu or cuda; the cpu if not given."""

    num_beams: int | None = None
    """Search with as many beams; as the model says, if not given."""
    source_column: str | None = None
    """The column of the source; as in training, if not given (so for all that follow)."""
    target_column: str | None = None
    """The column of the target."""
    text_columns: tuple[str, ...] = ()
    """The column of the text, or the two of a pair."""
    text_column: str | None = None
    """The column of the text, of a language model."""
    label_column: str | None = None
    """The column of the label."""
    max_len: int | None = None
    """The longest text, in tokens."""
    context: int | None = None
    """Tokens that a language model sees at a time."""
    truncate: bool = False
    """Cut longer texts; without it, they are an error."""

    @property
    def changes(self) -> dict[str, Any]:
        """What is to be otherwise than in the training: the flags that were given, by the names of its settings."""
        about_the_call = ("run", "data", "split", "task", "json", "device", "num_beams")
        return {name: value for name, value in self.to_dict().items() if name not in about_the_call and value}


@dataclass(frozen=True, kw_only=True)
class InspectSettings(Settings):
    """Look inside a model: its parameters, or pictures of its positions and its attention."""

    run: Positional[Path]
    """The run or model folder."""
    positions: bool = False
    """Draw the positional encoding: a heat map, and single dimensions as waves."""
    attention: str | None = None
    """Draw what the model attends to while it translates this text."""
    part: Literal["cross", "encoder", "decoder"] | None = None
    """Whose attention: from target to source (cross), or within the source (encoder) or the target (decoder). If not
    given, cross where there are two stacks, and else the one there is."""
    layer: int | None = None
    """Which layer, counted from 0; the last if not given."""
    head: int | None = None
    """Only this head, counted from 0; all of them if not given."""
    picture: Path | None = None
    """Where to write the picture; a name in the run folder if not given."""
    json: bool = False
    """Print the numbers as JSON."""


@dataclass(frozen=True, kw_only=True)
class VerifySettings(Settings):
    """Check that a model computes on this machine what it should: against itself, against what was stored when it was
    saved, and against transformers if that is installed. Exit code 0 if nothing differs, 1 if something does."""

    model: Positional[str]
    """The run or model folder, or a hub id owner/name."""
    out: Path | None = None
    """Where to write the certificate; certificate.json in the folder if not given."""
    revision: str | None = None
    """Of a hub id, which branch, tag or commit; the newest if not given."""
    json: bool = False
    """Print the certificate as JSON instead of a table."""


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(Settings):
    """Write a model anew: as safetensors, under present names, with a tokenizer.json, in a dtype of your choice."""

    source: Positional[str]
    """The run or model folder to read, or a hub id owner/name."""
    target: Positional[Path]
    """The folder to write."""
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    """The weights' new dtype; as they are if not given."""
    max_shard_size: str = "50GB"
    """Weights of more bytes are written as several files; a number, or one such as 5GB."""
    overwrite: bool = False
    """Replace the model in a folder that is not empty; other files in it stay."""
    revision: str | None = None
    """Of a hub id, which branch, tag or commit; the newest if not given."""
    json: bool = False
    """Print what was done as JSON."""
