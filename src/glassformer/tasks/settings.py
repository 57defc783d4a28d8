"""What each task can be told: its data, its model, and sensible values for its training (`training/settings.py`).

Nothing heavy is imported here. The string under a field is its help text.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from glassformer.checkpoints.run import is_run, read_record
from glassformer.data.files import as_trained
from glassformer.data.formats.delimiter import Delimiter
from glassformer.data.formats.table import TableOptions
from glassformer.errors import InputError
from glassformer.hub import find_folder
from glassformer.schema import OPEN
from glassformer.settings import defaults
from glassformer.training.settings import TrainSettings

Preset = Literal["tiny", "small", "base"]
MODEL = (
    *("preset", "d_model", "num_layers", "num_heads", "d_ff", "dropout", "drop_path", "qk_norm"),
    *("norm_order", "pooling"),
    *("tokenizer", "tokenizer_from", "vocab_size", "patch", "stride", "instance_norm"),
)


@dataclass(frozen=True, kw_only=True)
class TaskSettings(TrainSettings):
    """The model of any task: made from a preset, or loaded."""

    preset: Preset = "tiny"
    """How large the model is; the fields below change one thing of it."""
    init: str | None = None
    """Start from this model instead: a run, a Hugging Face folder, or a hub id owner/name."""
    head: str | None = None
    """With --init: replace the head by a new, untrained one of this name, such as class."""
    d_model: int | None = None
    """Width of the model."""
    num_layers: int | None = None
    """Blocks in each stack."""
    num_heads: int | None = None
    """Attention heads of a block."""
    d_ff: int | None = None
    """Width of the feed-forward layer."""
    dropout: float | None = None
    """Dropout on residual branches and embeddings, as in the paper."""
    drop_path: float = 0.0
    """How often a whole residual branch is left out in the last layer; less in those before."""
    qk_norm: bool = False
    """Norm the queries and keys of every head (Henry et al., 2020); an lm is then saved as Qwen3 instead of LLaMA."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("d_model", "num_layers", "num_heads", "d_ff"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")
        for name in ("dropout", "drop_path"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise self._refuse(name, "expected a fraction from 0 up to, not including, 1")
        if self.head is not None and self.init is None:
            raise InputError("--head names a new head for the model of --init: give both, or neither")
        if self.init is not None:
            for name in self.of_the_model():
                if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                    raise self._refuse(name, "a model that is loaded (--init) has its own; leave it out")

    @classmethod
    def of_the_model(cls) -> list[str]:
        """The fields that say what a new model is like: one that is loaded has its own."""
        return [name for name in MODEL if name in cls.__dataclass_fields__]

    @property
    def is_judged(self) -> bool:
        """Whether a finished run is to be scored (`tasks/registry.py`), not a new one to start from it."""
        return self.init is not None and Path(self.init) == self.out

    @cached_property
    def init_folder(self) -> Path | None:
        """The folder of `init`, found once: a hub id is looked up on the hub."""
        return None if self.init is None else find_folder(self.init)

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes that were given, by the names of `StackConfig`."""
        names = ("d_model", "num_layers", "num_heads", "d_ff", "dropout", "drop_path", "qk_norm")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _check_seed(self) -> None:
        """For a task that draws with numpy."""
        if self.seed < 0:
            raise self._refuse("seed", "expected 0 or more")

    def _check_fraction(self, name: str) -> None:
        if not 0 < getattr(self, name) < 1:
            raise self._refuse(name, "expected a fraction between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class TableSettings(TaskSettings):
    """How the files of a task are written that reads tables; each is found in the file if not given."""

    header: bool | None = None
    """--header: the first row of a table names its columns; --no-header: it is an example. Found if not given."""
    delimiter: Delimiter | None = None
    """What stands between the cells of a table; found if not given."""
    quotes: bool | None = None
    """--quotes: quotes stand around cells of a table; --no-quotes: they are part of the text. Found if not given."""
    encoding: str | None = None
    """Encoding of files of text, such as cp949; found if not given."""
    sheet: str | None = None
    """Which sheet of an .xlsx file; the first if not given."""
    max_line_mb: int | None = None
    """Longest line or cell of a file, in megabytes; 16 if not given. A longer one is an error."""

    @property
    def tables(self) -> TableOptions:
        """These, as the readers take them. Other files that a run is scored on are read as its own, where that fits."""
        options = TableOptions.of(self)
        if self.init_folder is None or not self.is_judged or not is_run(self.init_folder):
            return options
        return as_trained(options, read_record(self.init_folder)["settings"])


@dataclass(frozen=True, kw_only=True)
class TokenSettings(TableSettings):
    """Tokens of a task that reads or writes text."""

    tokenizer: Literal["bpe", "unigram", "wordpiece", "characters", "bytes"] = "bpe"
    """How a tokenizer is learned from the training text; bytes is BPE over bytes, which loses nothing."""
    tokenizer_from: str | None = None
    """Use the tokenizer of this folder or hub id instead; that of --init is used in any case."""
    vocab_size: int = 8000
    """Largest size of the vocabulary that is learned."""
    label_smoothing: float = 0.0
    """Part of the truth's probability that is spread over all answers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vocab_size < 64:
            raise self._refuse("vocab_size", "expected at least 64, room for the characters of the text")
        if not 0 <= self.label_smoothing < 1:
            raise self._refuse("label_smoothing", "expected a fraction from 0 up to, not including, 1")


@dataclass(frozen=True, kw_only=True)
class TextSettings(TokenSettings):
    """Tokens and batches of a task that reads text."""

    batch_tokens: int = 4096
    """Tokens in a batch, padding included, on the longer side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_tokens < 1:
            raise self._refuse("batch_tokens", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
class ExampleSettings(TextSettings):
    """What a task has whose examples are texts that stand alone, one as long as it is."""

    subword_dropout: float = 0.0
    """Cut words differently each time, for robustness (bpe: Provilkov et al., 2020; unigram: Kudo, 2018)."""
    max_len: int = 512
    """The longest text that the model takes, in tokens."""
    truncate: bool = False
    """Cut longer texts; without it, they are an error."""
    skip_empty: bool = False
    """Leave examples with an empty text out, and say how many; without it, they are an error."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_len < 1:
            raise self._refuse("max_len", "expected at least 1")
        if not 0 <= self.subword_dropout < 1:
            raise self._refuse("subword_dropout", "expected a fraction from 0 up to, not including, 1")
        if self.subword_dropout and self.tokenizer not in ("bpe", "unigram", "bytes"):
            raise self._refuse("subword_dropout", f"a {self.tokenizer} tokenizer has one way only to cut a word")


@dataclass(frozen=True, kw_only=True)
@defaults(
    out=Path("runs/translate"),
    optimizer="adam",
    schedule="inverse-sqrt",
    warmup=400,
    label_smoothing=0.1,
    batch_tokens=2048,
)
class TranslateSettings(ExampleSettings):
    """Train an encoder-decoder on pairs of texts: translations, summaries, answers. With no data given, on the
    built-in English dates to Korean."""

    task: ClassVar[str] = "translate"

    data: tuple[Path, ...] = ()
    """Pairs to train on: a file with source<TAB>target in each line, a table with columns (.csv, .tsv, .jsonl, .json,
    .parquet, .xlsx), or two files aligned line by line. Files of text may be gzipped."""
    valid: tuple[Path, ...] = ()
    """Pairs to choose the best weights by, in the same way; without any, a fraction of the data."""
    test: tuple[Path, ...] = ()
    """Pairs for the score at the end; without any, the validation pairs."""
    source_column: str | None = None
    """The column of the source, in files with columns."""
    target_column: str | None = None
    """The column of the target."""
    valid_fraction: float = 0.05
    """Fraction of your pairs kept from training, if there is no --valid."""
    examples: int = 40_000
    """How many built-in pairs to generate for training, when there is no data."""

    norm_order: Literal["post", "pre", "sandwich"] = "post"
    """Where the norms stand; post is the paper's."""
    num_beams: int = 1
    """Beams to search with at the end, and as the model's own setting."""
    length_penalty: float = 1.0
    """Of the search: a text's score is divided by its length to this power."""
    bleu_tokenize: Literal["13a", "intl", "char", "none", "zh"] = "13a"
    """How sacrebleu cuts words; none for text that is tokenised already."""
    lowercase: bool = False
    """Score BLEU and chrF without regard to case."""
    vocab_size: int = 1000
    """Largest size of the vocabulary, which source and target share."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if self.examples < 1:
            raise self._refuse("examples", "expected at least 1")
        if self.num_beams < 1:
            raise self._refuse("num_beams", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/classify"), vocab_size=2000, optimizer="muon", warmup=50, weight_decay=0.05)
class ClassifySettings(ExampleSettings):
    """Train an encoder to name the class of a text, of two texts together, or of a series. With no data given, on a
    task made from Python's documentation."""

    task: ClassVar[str] = "classify"

    data: Path | None = None
    """A table (.csv, .tsv, .jsonl, .json, .parquet, .xlsx) with a text and a label in each row; one of text may be
    gzipped."""
    valid: Path | None = None
    """Rows to choose the best weights by; without any, a fraction of the data, with each class in its proportion."""
    test: Path | None = None
    """Rows for the score at the end; without any, the validation rows."""
    reads: Literal["text", "series"] = "text"
    """What is classified; of a series, each row holds the label and its values."""
    text_columns: tuple[str, ...] = ()
    """The column of the text, or the two of a pair; text, or sentence1 and sentence2, if not given."""
    label_column: str = "label"
    """The column of the label."""
    label_separator: str | None = None
    """Several labels may apply at once, and this stands between them in their column."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: errors on rare classes count for more, in inverse proportion to their number."""
    valid_fraction: float = 0.1
    """Fraction of your rows kept from training, if there is no --valid."""
    pooling: Literal["first", "mean", "max", "attention"] = "mean"
    """How the tokens become one vector."""
    patch: int | None = None
    """Of a series, how many values become one token; about a twentieth of its length if not given."""
    batch_size: int = 64
    """Examples in a batch, at most; there are fewer where --batch-tokens are full."""
    rate: float | None = OPEN
    """The highest learning rate; 0.003 if not given, and for a model that has learned already (--init) 0.00005."""

    def __post_init__(self) -> None:
        self._settle(rate=3e-3 if self.init is None else 5e-5)
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if len(self.text_columns) > 2:
            raise self._refuse("text_columns", "expected one column, or the two of a pair")
        if self.label_separator == "":
            raise self._refuse("label_separator", "expected what stands between two labels, such as a comma")
        if self.batch_size < 1 or (self.patch is not None and self.patch < 1):
            raise self._refuse("batch_size" if self.batch_size < 1 else "patch", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
@defaults(tokenizer="bytes", vocab_size=1000, optimizer="muon", warmup=50, weight_decay=0.1)
class LanguageSettings(TextSettings):
    """What training on running text has, of both kinds."""

    data: tuple[Path, ...] = ()
    """Text files, folders of them (.txt, .md), or tables with a column of texts (.csv, .tsv, .jsonl, .json, .parquet,
    .xlsx); files of text may be gzipped. Larger than memory is fine."""
    valid: tuple[Path, ...] = ()
    """Text to choose the best weights by; without any, the last part of the data."""
    test: tuple[Path, ...] = ()
    """Text for the score at the end; without any, the validation text."""
    text_column: str = "text"
    """The column of the text, in files with columns."""
    documents: Literal["file", "line", "blank-line"] = "file"
    """What a document is in a plain text file. Nothing attends from one document to another."""
    valid_fraction: float = 0.1
    """Fraction of the text kept from training, if there is no --valid: its end."""
    context: int = 128
    """Tokens that the model sees at a time."""
    rate: float | None = OPEN
    """The highest learning rate; 0.005 if not given, and for a model that has learned already (--init) 0.0001."""
    batch_tokens: int = 2048
    """Tokens in a batch: so many windows of --context."""

    def __post_init__(self) -> None:
        self._settle(rate=5e-3 if self.init is None else 1e-4)
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if self.context < 2:
            raise self._refuse("context", "expected at least 2 tokens: one to read and one to predict")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/lm"))
class LmSettings(LanguageSettings):
    """Train a decoder to continue text. With no data given, on Python's documentation."""

    task: ClassVar[str] = "lm"

    sample: int = 200
    """Tokens of a text that the model writes for the report, as far as its context goes; 0 for none."""
    overlap: float = 0.5
    """Part of a window that the next one repeats, for its past, in the score at the end; 0 as most papers count."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.overlap < 1:
            raise self._refuse("overlap", "expected a fraction from 0 up to, not including, 1")
        if self.sample < 0:
            raise self._refuse("sample", "expected 0 or more")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/mlm"), tokenizer="wordpiece")
class MlmSettings(LanguageSettings):
    """Train an encoder to fill in masked words. With no data given, on Python's documentation."""

    task: ClassVar[str] = "mlm"

    mask_fraction: float = 0.15
    """How many tokens are to be guessed: of ten, eight are masked, one is replaced by another, one is left."""
    whole_words: bool = False
    """Mask all tokens of a word together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_fraction("mask_fraction")
        self._check_seed()


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/images"), weight_decay=0.05)
class ImagesSettings(TableSettings):
    """Train an encoder on patches of images to name their class. With no data given, on scikit-learn's digits."""

    task: ClassVar[str] = "images"

    data: Path | None = None
    """A folder with a folder of images for each class (also inside train, valid and test), a folder with idx files
    (MNIST's format), or a .csv with columns image and label."""
    valid: Path | None = None
    """Images to choose the best weights by; without any, a fraction of the data, with each class in its proportion."""
    test: Path | None = None
    """Images for the score at the end; without any, the test images in --data, or else the validation images."""
    image_column: str = "image"
    """The column of the file's path, in a .csv."""
    label_column: str = "label"
    """The column of the label."""
    valid_fraction: float = 0.1
    """Fraction of your images kept from training, if there is no --valid."""
    skip_corrupt: bool = False
    """Leave out files that cannot be read as images, and say which; without it, they are an error."""
    size: int | None = None
    """Pixels to a side that all images are brought to; as they are if all are alike, and else chosen, up to 64."""
    patch: int | None = None
    """Pixels to a side of a patch; a quarter of the image, if not given."""
    mode: Literal["grey", "rgb"] | None = None
    """Read all images as grey, or all in colour (rgb); in colour unless all are grey, if not given."""
    grey: bool = False
    """The same as --mode grey."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: errors on rare classes count for more, in inverse proportion to their number."""
    augment: Literal["none", "shift", "flip", "affine"] = "none"
    """Change training images at random: shift by up to an eighth of their side; flip also mirrors left and right;
    affine turns by up to 10 degrees, stretches by up to a tenth and shifts by up to a sixteenth."""
    label_smoothing: float = 0.1
    """Part of the truth's probability that is spread over all classes."""
    batch_size: int = 64
    """Images in a batch."""
    rate: float | None = 1e-3
    """The highest learning rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if self.grey and self.mode == "rgb":
            raise self._refuse("mode", "--grey says otherwise. Leave one of them out")
        if self.mode == "rgb" and self.data is None:
            raise self._refuse("mode", "the built-in digits are grey. Leave it out, or give images with --data")
        self._check_seed()
        for name in ("size", "patch", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")
        if not 0 <= self.label_smoothing < 1:
            raise self._refuse("label_smoothing", "expected a fraction from 0 up to, not including, 1")


@dataclass(frozen=True, kw_only=True)
@defaults(optimizer="muon", schedule="linear", final_rate=0.02, beta2=0.98, vocab_size=2000)
class PictureSettings(TokenSettings):
    """What the tasks have that write about pictures: a caption, or an answer."""

    data: Path | None = None
    """A table (.csv, .tsv, .jsonl, .json, .parquet, .xlsx) with the path of an image and its texts in each row; paths
    start at the table's own folder. Without one, built-in scenes of coloured shapes."""
    valid: Path | None = None
    """Rows to choose the best weights by; without any, those of a fraction of the images."""
    test: Path | None = None
    """Rows for the score at the end; without any, the validation rows."""
    image_column: str = "image"
    """The column of the image's path."""
    valid_fraction: float = 0.1
    """Fraction of your images kept from training, if there is no --valid."""
    skip_corrupt: bool = False
    """Leave out files that cannot be read as images, and say which; without it, they are an error."""
    skip_empty: bool = False
    """Leave rows with an empty text out, and say how many; without it, they are an error."""
    size: int | None = None
    """Pixels to a side that all images are brought to; as they are if all are alike, and else chosen, up to 64."""
    patch: int | None = None
    """Pixels to a side of a patch; about an eighth of the image, if not given."""
    mode: Literal["grey", "rgb"] | None = None
    """Read all images as grey, or all in colour (rgb); in colour unless all are grey, if not given."""
    language: Literal["en", "ko"] = "en"
    """The language of the built-in texts."""
    examples: int = 40_000
    """How many built-in pictures make an epoch; the next epoch has others."""
    max_len: int = 64
    """The longest text that the decoder takes, in tokens."""
    truncate: bool = False
    """Cut longer texts; without it, they are an error."""
    batch_size: int = 64
    """Images in a batch."""
    rate: float | None = OPEN
    """The highest learning rate; 0.002 if not given, and for a model that has learned already (--init) 0.0002."""

    def __post_init__(self) -> None:
        self._settle(rate=2e-3 if self.init is None else 2e-4)
        super().__post_init__()
        self._check_fraction("valid_fraction")
        self._check_seed()
        for name in ("size", "patch", "batch_size", "examples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")
        if self.max_len < 4:
            raise self._refuse("max_len", "expected at least 4 tokens")
        if self.language != "en" and self.data is not None:
            raise self._refuse("language", "your own texts (--data) have their language. Leave it out")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/caption"))
class CaptionSettings(PictureSettings):
    """Train a captioner: an encoder looks at a picture, a decoder writes what it shows. With no data given, on
    built-in scenes of coloured shapes."""

    task: ClassVar[str] = "caption"

    caption_column: str = "caption"
    """The column of the caption."""


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/match"), batch_size=128)
class MatchSettings(PictureSettings):
    """Train a pair of models on images and their captions, so that each finds the other (CLIP). With no data given, on
    built-in scenes of coloured shapes."""

    task: ClassVar[str] = "match"

    caption_column: str = "caption"
    """The column of the caption."""
    patch: int | None = None
    """Pixels to a side of a patch; a quarter of a small image and about an eighth of a larger one, if not given."""
    rate: float | None = OPEN
    """The highest learning rate; 0.003 if not given, and for a model that has learned already (--init) 0.0002."""

    def __post_init__(self) -> None:
        self._settle(rate=3e-3 if self.init is None else 2e-4)
        super().__post_init__()
        for name in ("label_smoothing", "r_drop"):
            if getattr(self, name):
                raise self._refuse(name, "it is for a loss over classes or tokens, and match compares. Leave it out")
        if self.batch_size < 2:
            raise self._refuse("batch_size", "each image is compared with those beside it: expected at least 2")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/ask"))
class AskSettings(PictureSettings):
    """Train a model to answer questions about a picture. With no data given, on built-in scenes of coloured shapes."""

    task: ClassVar[str] = "ask"

    question_column: str = "question"
    """The column of the question."""
    answer_column: str = "answer"
    """The column of the answer."""
    questions: int = 6
    """How many questions are asked at once about a picture of a batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.questions < 1:
            raise self._refuse("questions", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/forecast"))
class ForecastSettings(TableSettings):
    """Train an encoder on patches of a series to say how it goes on, each channel by itself. With no data given, on a
    made-up series of several seasons."""

    task: ClassVar[str] = "forecast"

    data: Path | None = None
    """A .csv with a date and a column for each channel, or a long one with unique_id, ds and y; may be gzipped."""
    columns: tuple[str, ...] = ()
    """The channels to use; all columns but that of the dates, if not given."""
    splits: tuple[int, ...] = ()
    """Rows to train on, to choose the best weights by, and to score at the end; 70, 10 and 20 % if not given."""
    fill: Literal["none", "previous", "interpolate"] = "none"
    """What to put where values or dates are missing; without it, they are an error."""
    date_format: str | None = None
    """How dates are written, as Python's strptime has it, such as %d/%m/%Y; found from the column, if not given."""
    decimal: Literal["point", "comma"] | None = None
    """Whether numbers are written 1,234.5 or 1.234,5; found from the table, if not given."""
    calendar: Literal["auto", "every-day", "weekdays"] = "auto"
    """Which days a daily series has: auto finds those of trading, without weekends; every-day takes them for gaps."""
    cut: bool = False
    """Cut series of different spans to the one they share; without it, they are an error."""
    length: int = 168
    """Values that the model looks back on."""
    horizon: int = 24
    """Values that it predicts."""
    patch: int = 16
    """Values that become one token."""
    stride: int = 8
    """Values from the beginning of one patch to that of the next."""
    period: int = 24
    """The season of the seasonal-naive baseline; --length if that is shorter."""
    instance_norm: bool = True
    """Bring each window to mean 0 and deviation 1, and its forecast back (Kim et al., 2022)."""
    loss: Literal["mse", "mae", "huber"] = "mse"
    """What training makes small."""
    batch_size: int = 64
    """Windows in a batch, each with all its channels."""
    rate: float | None = 2e-3
    """The highest learning rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("length", "horizon", "patch", "stride", "period", "batch_size"):
            if getattr(self, name) < 1:
                raise self._refuse(name, "expected at least 1")
        if self.date_format is not None and not is_date_format(self.date_format):
            raise self._refuse("date_format", "expected a format with a year, such as %d/%m/%Y or %Y-%m-%d %H:%M")
        if self.splits and (len(self.splits) != 3 or min(self.splits) < 1):
            raise self._refuse("splits", "expected three numbers of rows: to train, to validate, to test")
        for name in ("patch", "stride"):
            if getattr(self, name) > self.length:
                raise self._refuse(name, f"is longer than --length {self.length}")


def is_date_format(text: str) -> bool:
    """Whether `strptime` knows this format, and finds a year with it: without one, all years would be 1900."""
    try:
        datetime.strptime(datetime(2024, 12, 31).strftime(text), text)
    except ValueError:
        return False
    return any(directive in text for directive in ("%Y", "%y", "%G", "%c", "%x"))
