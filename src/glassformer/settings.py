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
    """Look inside a model.

    Choose one look: --shapes, --params, --diff, --attention, --lens, --align,
    --align-file, --positions, --step or --ablate. Without any, where its
    parameters are.
    """

    run: Positional[str]
    """The run or model folder, or a hub id owner/name. For --shapes, --params and --diff a config.json is enough, or a
    name such as base."""

    shapes: bool = False
    """Every tensor from the input to the loss: its axes and sizes, parameters, FLOPs, bytes, and what a cache keeps."""
    fold: bool = False
    """With --shapes: layers that are alike on one line."""
    batch: int = 1
    """With --shapes: how many sequences."""
    length: int | None = None
    """With --shapes: how many tokens each has; 128 if not given, or as many as the model reads."""
    target_length: int | None = None
    """With --shapes: the same for the target of a model with two stacks."""
    html: Path | None = None
    """With --shapes: write it as a page to this file."""

    params: bool = False
    """Where the parameters are: by kind and by layer."""
    diff: str | None = None
    """The few fields of the config that turn this model into that one."""

    attention: str | None = None
    """Draw what the model attends to: a text, the path of an image or of a CSV file, or `example` for one of those."""
    part: Literal["cross", "encoder", "decoder"] | None = None
    """Of a model with two stacks, with --attention, --positions and --step: what looks from target to source (cross),
    or within the source (encoder) or the target (decoder). If not given, --attention draws cross, --positions both
    stacks, and --step follows the decoder."""
    layer: int | None = None
    """Which layer, counted from 0; the last for --attention, the first for --step if not given."""
    head: int | None = None
    """Only this head, counted from 0; for --attention all of them, for --step the first if not given."""
    average: bool = False
    """With --attention: the average over the heads."""
    rollout: bool = False
    """With --attention: through all layers at once (attention rollout)."""
    lens: str | None = None
    """Draw what the model would say after each of its layers (logit lens), for this text."""

    align: str | None = None
    """Which words of the translation come from which words of this text, by cross-attention: Pharaoh pairs i-j."""
    target: str | None = None
    """With --align and --step: the translation; the model's own if not given."""
    align_file: Path | None = None
    """The same for every line of a file: a text, or a text and its translation with a tab between."""

    positions: bool = False
    """Draw how the model knows order: a heat map, waves, and similarity by distance."""

    step: str | None = None
    """The forward pass of one head with the numbers of this text, equation by equation, each with its line of code."""
    token: int = -1
    """With --step: which token to follow, counted from 0; the last if not given."""

    ablate: tuple[str, ...] | None = None
    """Score the run without these heads, as decoder.blocks.0.cross.3; * stands for anything, so '*' tries them all."""
    examples: int = 200
    """With --ablate: how many examples to score with."""
    data: tuple[Path, ...] = ()
    """With --ablate: files to score on, as eval takes them; what the run held out if not given."""
    task: Literal["translate", "classify", "lm", "mlm", "images", "forecast"] | None = None
    """With --ablate and --data: what the model is for, if it was not trained here."""

    picture: Path | None = None
    """Where to write the picture; a name in the run folder if not given. --ablate draws one only if asked."""
    json: bool = False
    """Print the numbers as JSON, and of a picture where it is; with --align-file a line for each text."""


@dataclass(frozen=True, kw_only=True)
class ExploreSettings(Settings):
    """Open a model in the browser: what it does with your input, layer by layer, head by head. Or write that as one
    HTML file, which opens without a network."""

    run: Positional[str]
    """The run or model folder, or a hub id owner/name."""
    port: int = 8642
    """Where the page is served, on this machine alone; 0 for any that is free."""
    export: Path | None = None
    """Write the page to this .html with the data of one input inside, and serve nothing."""
    text: str | None = None
    """The input to export; the first example if not given."""
    open: bool = False
    """Open the page in the browser."""
    source_language: str | None = None
    """The language of the texts, as the model names it, of a model that reads several."""
    target_language: str | None = None
    """The language to translate into, as the model names it, of a model that writes several."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.port < 2**16:
            raise self._refuse("port", "expected a number from 0 to 65535")
        if self.text is not None and self.export is None:
            raise self._refuse("text", "it is the input to export. Give --export page.html, or type it on the page")


@dataclass(frozen=True, kw_only=True)
class StudyNormsSettings(Settings):
    """Train small language models with the norm before and after each branch, over depth and learning rate, with and
    without warm-up, and draw the curves and the gradients of each layer in one picture. Runs that are finished are kept
    and not repeated."""

    out: Path = Path("studies/norms")
    """The folder to write: norms.png, and the numbers as norms.json."""
    depths: tuple[int, ...] = (2, 6, 12)
    """Numbers of layers."""
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    """Learning rates."""
    steps: int = 400
    """Updates of each run."""
    warmup: int = 200
    """Steps over which the rate rises, in the runs that have a warm-up; it is constant then."""
    seed: int = 0
    """Decides the initial weights and the order of the data."""
    minutes: float = 10.0
    """What does not fit into this time is skipped, and said so; the same command goes on with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("depths", "rates"):
            values = getattr(self, name)
            if not values or min(values) <= 0 or len(set(values)) < len(values):
                raise self._refuse(name, "expected one or more different numbers above 0")
        for name in ("steps", "minutes"):
            if getattr(self, name) <= 0:
                raise self._refuse(name, "expected a number above 0")
        if not 2 <= self.warmup <= self.steps:
            raise self._refuse("warmup", f"expected 2 to --steps = {self.steps}")


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
