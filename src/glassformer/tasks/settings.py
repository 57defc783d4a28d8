"""The settings of each task: its data, its model, and its defaults for training (`training/settings.py`).

Nothing heavy is imported here. The string under a field is its help text.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from glassformer.checkpoints.run import is_run, read_record
from glassformer.data.files import with_training_flags
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
    *("tokenizer", "tokenizer_from", "vocab_size", "patch", "stem", "stride", "fold", "instance_norm"),
)


@dataclass(frozen=True, kw_only=True)
class TaskSettings(TrainSettings):
    """The model of any task: new from a preset, or loaded."""

    preset: Preset = "tiny"
    """Size of the model; the flags under model change single values."""
    init: str | None = None
    """Fine-tune this model instead of training a new one: a run, a Hugging Face folder, or a hub id owner/name."""
    head: str | None = None
    """With --init: replace the head with a new, untrained one, such as class."""
    d_model: int | None = None
    """Width of the model (default: set by --preset)."""
    num_layers: int | None = None
    """Number of layers in each stack (default: set by --preset)."""
    num_heads: int | None = None
    """Number of attention heads (default: set by --preset)."""
    d_ff: int | None = None
    """Width of the feed-forward layer (default: set by --preset)."""
    dropout: float | None = None
    """Dropout on residual branches and embeddings (default: chosen by the task)."""
    drop_path: float = 0.0
    """Stochastic depth: probability of dropping a residual branch in the last layer; lower in earlier layers."""
    qk_norm: bool = False
    """Normalise queries and keys (Henry et al., 2020). A language model is then saved as Qwen3 instead of LLaMA."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("d_model", "num_layers", "num_heads", "d_ff"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")
        for name in ("dropout", "drop_path"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise self._refuse(name, "expected at least 0 and below 1")
        if self.head is not None and self.init is None:
            raise InputError("--head names a new head for the model of --init: give both, or neither")
        if self.init is not None:
            for name in self.of_the_model():
                if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                    raise self._refuse(name, "the loaded model (--init) has its own. Leave it out")

    @classmethod
    def of_the_model(cls) -> list[str]:
        """The fields that describe a new model; a loaded model has its own."""
        return [name for name in MODEL if name in cls.__dataclass_fields__]

    @property
    def is_judged(self) -> bool:
        """Whether a finished run is being scored (`tasks/registry.py`), not fine-tuned."""
        return self.init is not None and Path(self.init) == self.out

    @cached_property
    def init_folder(self) -> Path | None:
        """The folder of `init`, looked up once: a hub id is downloaded."""
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
    """The format of tables (default: detected)."""

    header: bool | None = None
    """Whether the first row of a table holds the column names (default: detected)."""
    delimiter: Delimiter | None = None
    """Delimiter between the cells of a table (default: detected)."""
    quotes: bool | None = None
    """Whether quotes enclose cells or are part of the text (default: detected)."""
    encoding: str | None = None
    """Encoding of text files, such as cp949 (default: detected)."""
    sheet: str | None = None
    """Sheet of an .xlsx file (default: the first)."""
    max_line_mb: int | None = None
    """Maximum size of a line or cell in megabytes; a longer one is an error (default: 16)."""

    @property
    def tables(self) -> TableOptions:
        """These settings as the readers take them. Files that a run is scored on are read like its training files,
        where possible."""
        options = TableOptions.of(self)
        if self.init_folder is None or not self.is_judged or not is_run(self.init_folder):
            return options
        return with_training_flags(options, read_record(self.init_folder)["settings"])


@dataclass(frozen=True, kw_only=True)
class TokenSettings(TableSettings):
    """Tokens of a task that reads or writes text."""

    tokenizer: Literal["bpe", "unigram", "wordpiece", "characters", "bytes"] = "bpe"
    """Kind of tokenizer to train on the training text; bytes is BPE over bytes, which is lossless."""
    tokenizer_from: str | None = None
    """Use the tokenizer of this folder or hub id instead of training one. With --init, the model's own is used."""
    vocab_size: int = 8000
    """Maximum size of the vocabulary."""
    label_smoothing: float = 0.0
    """Fraction of the target probability spread over all classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vocab_size < 64:
            raise self._refuse("vocab_size", "expected at least 64, to hold the characters of the text")
        if not 0 <= self.label_smoothing < 1:
            raise self._refuse("label_smoothing", "expected at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class TextSettings(TokenSettings):
    """Tokens and batches of a task that reads text."""

    batch_tokens: int = 4096
    """Tokens per batch, padding included; for pairs, on the longer side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_tokens < 1:
            raise self._refuse("batch_tokens", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
class ExampleSettings(TextSettings):
    """Settings of tasks whose examples are separate texts."""

    subword_dropout: float = 0.0
    """Subword regularisation: tokenise words differently each time (bpe: Provilkov et al., 2020; unigram: Kudo,
    2018)."""
    max_len: int = 512
    """Maximum length of a text in tokens."""
    truncate: bool = False
    """Truncate texts longer than --max-len; without this flag they are an error."""
    skip_empty: bool = False
    """Skip examples with an empty text and report their number; without this flag they are an error."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_len < 1:
            raise self._refuse("max_len", "expected at least 1")
        if not 0 <= self.subword_dropout < 1:
            raise self._refuse("subword_dropout", "expected at least 0 and below 1")
        if self.subword_dropout and self.tokenizer not in ("bpe", "unigram", "bytes"):
            raise self._refuse("subword_dropout", f"a {self.tokenizer} tokenizer has only one way to split a word")


@dataclass(frozen=True, kw_only=True)
@defaults(
    out=Path("runs/translate"),
    optimizer="muon",
    schedule="linear",
    final_rate=0.0,
    warmup=50,
    weight_decay=0.05,
    label_smoothing=0.1,
    batch_tokens=2048,
)
class TranslateSettings(ExampleSettings):
    """Train an encoder-decoder on pairs of texts: translations, summaries, answers. Without --data, it learns to
    translate built-in English dates to Korean."""

    task: ClassVar[str] = "translate"

    data: tuple[Path, ...] = ()
    """Pairs to train on: a file with source<TAB>target in each line, a table with columns (.csv, .tsv, .jsonl, .json,
    .parquet, .xlsx), or two files aligned line by line. Text formats may be gzipped."""
    valid: tuple[Path, ...] = ()
    """Validation pairs, in the same format; they select the best weights (default: a fraction of --data)."""
    test: tuple[Path, ...] = ()
    """Test pairs for the final score (default: the validation pairs)."""
    source_column: str | None = None
    """Column of the source text, in a table (default: detected, such as source)."""
    target_column: str | None = None
    """Column of the target text, in a table (default: detected, such as target)."""
    valid_fraction: float = 0.05
    """Fraction of your pairs held out for validation, if there is no --valid."""
    examples: int = 40_000
    """Number of built-in training pairs, if there is no --data."""

    norm_order: Literal["post", "pre", "sandwich"] = "post"
    """Position of the norms in a block; post is the original paper's."""
    num_beams: int = 1
    """Number of beams for the final score, saved as the model's own setting."""
    length_penalty: float = 1.0
    """Length penalty of beam search: a text's score is divided by its length to this power."""
    bleu_tokenize: Literal["13a", "intl", "char", "none", "zh"] = "13a"
    """Tokenisation used by sacrebleu; none for text that is already tokenised."""
    lowercase: bool = False
    """Ignore case in BLEU and chrF."""
    vocab_size: int = 1000
    """Maximum size of the vocabulary that source and target share."""
    rate: float | None = OPEN
    """Peak learning rate (default: 0.004, or 0.001 without Muon, or 0.0002 with --init; for the inverse-sqrt schedule
    without Muon the paper's, (d_model warmup)^-0.5, which needs a --warmup of several hundred steps)."""

    def __post_init__(self) -> None:
        if self.schedule != "inverse-sqrt" or self.optimizer == "muon":
            new = 4e-3 if self.optimizer == "muon" else 1e-3
            self._settle(rate=new if self.init is None else 2e-4)
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if self.examples < 1:
            raise self._refuse("examples", "expected at least 1")
        if self.num_beams < 1:
            raise self._refuse("num_beams", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/classify"), vocab_size=2000, optimizer="muon", warmup=50, weight_decay=0.05)
class ClassifySettings(ExampleSettings):
    """Train an encoder to classify texts, text pairs or series. Without --data, it uses built-in questions about who
    arrived when."""

    task: ClassVar[str] = "classify"

    data: Path | None = None
    """A table (.csv, .tsv, .jsonl, .json, .parquet, .xlsx) with a text and a label in each row; text formats may be
    gzipped."""
    valid: Path | None = None
    """Validation rows, which select the best weights (default: a stratified fraction of --data)."""
    test: Path | None = None
    """Test rows for the final score (default: the validation rows)."""
    examples: Literal["arrivals", "documentation"] = "arrivals"
    """Built-in examples used without --data. arrivals: questions about the order in which people arrived.
    documentation: the missing word in a sentence from Python's documentation."""
    reads: Literal["text", "series"] = "text"
    """Kind of input. series: each row holds the label and the values of a series."""
    text_columns: tuple[str, ...] = ()
    """Column of the text, or the two columns of a text pair (default: text, or sentence1 and sentence2)."""
    label_column: str = "label"
    """Column of the label."""
    label_separator: str | None = None
    """Separator between labels, for data where several labels apply at once."""
    class_weights: Literal["none", "balanced"] = "none"
    """Class weights in the loss. balanced: inversely proportional to the number of examples."""
    valid_fraction: float = 0.1
    """Fraction of your rows held out for validation, if there is no --valid."""
    pooling: Literal["first", "mean", "max", "attention"] = "mean"
    """How token vectors are pooled into one."""
    patch: int | None = None
    """For series: values per token (default: about a twentieth of the length)."""
    batch_size: int = 64
    """Maximum number of examples per batch; --batch-tokens may limit it further."""
    rate: float | None = OPEN
    """Peak learning rate (default: 0.003, or 0.00005 with --init)."""

    def __post_init__(self) -> None:
        self._settle(rate=3e-3 if self.init is None else 5e-5)
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if len(self.text_columns) > 2:
            raise self._refuse("text_columns", "expected one column, or the two of a pair")
        if self.label_separator == "":
            raise self._refuse("label_separator", "expected the text between two labels, such as a comma")
        if self.batch_size < 1 or (self.patch is not None and self.patch < 1):
            raise self._refuse("batch_size" if self.batch_size < 1 else "patch", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
@defaults(tokenizer="bytes", vocab_size=1000, optimizer="muon", warmup=50, weight_decay=0.1)
class LanguageSettings(TextSettings):
    """Settings of both kinds of language modelling."""

    data: tuple[Path, ...] = ()
    """Text files, folders of them (.txt, .md), or tables with a column of texts (.csv, .tsv, .jsonl, .json, .parquet,
    .xlsx); text formats may be gzipped. They may be larger than memory."""
    valid: tuple[Path, ...] = ()
    """Validation text, which selects the best weights (default: the last part of --data)."""
    test: tuple[Path, ...] = ()
    """Test text for the final score (default: the validation text)."""
    text_column: str = "text"
    """Column of the text, in a table."""
    documents: Literal["file", "line", "blank-line"] = "file"
    """What counts as a document in a plain text file. Tokens do not attend across documents."""
    valid_fraction: float = 0.1
    """Fraction of the text, at its end, held out for validation, if there is no --valid."""
    context: int = 128
    """Context length in tokens."""
    rate: float | None = OPEN
    """Peak learning rate (default: 0.005, or 0.0001 with --init)."""
    batch_tokens: int = 2048
    """Tokens per batch, in windows of --context tokens."""

    def __post_init__(self) -> None:
        self._settle(rate=5e-3 if self.init is None else 1e-4)
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if self.context < 2:
            raise self._refuse("context", "expected at least 2 tokens: one to read and one to predict")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/lm"))
class LmSettings(LanguageSettings):
    """Train a decoder to continue text. Without --data, it uses Python's documentation."""

    task: ClassVar[str] = "lm"

    sample: int = 200
    """Length in tokens of the sample text in the report, at most the context; 0 for none."""
    overlap: float = 0.5
    """Overlap of windows in the final score, as a fraction: the repeated part is context only. Most papers use 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.overlap < 1:
            raise self._refuse("overlap", "expected at least 0 and below 1")
        if self.sample < 0:
            raise self._refuse("sample", "expected 0 or more")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/mlm"), tokenizer="wordpiece")
class MlmSettings(LanguageSettings):
    """Train an encoder to fill in masked words. Without --data, it uses Python's documentation."""

    task: ClassVar[str] = "mlm"

    mask_fraction: float = 0.15
    """Fraction of tokens to predict: of ten, eight are masked, one is replaced by a random token, one is unchanged."""
    whole_words: bool = False
    """Mask all tokens of a word together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_fraction("mask_fraction")
        self._check_seed()


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/images"), weight_decay=0.05)
class ImagesSettings(TableSettings):
    """Train an encoder on patches of images to classify them. Without --data, it uses scikit-learn's digits."""

    task: ClassVar[str] = "images"

    data: Path | None = None
    """A folder with a folder of images for each class (also inside train, valid and test), a folder with idx files
    (MNIST's format), or a .csv with columns image and label."""
    valid: Path | None = None
    """Validation images, which select the best weights (default: a stratified fraction of --data)."""
    test: Path | None = None
    """Test images for the final score (default: the test images in --data, otherwise the validation images)."""
    image_column: str = "image"
    """Column of the image path, in a .csv."""
    label_column: str = "label"
    """Column of the label."""
    valid_fraction: float = 0.1
    """Fraction of your images held out for validation, if there is no --valid."""
    skip_corrupt: bool = False
    """Skip files that cannot be read as images and list them; without this flag they are an error."""
    size: int | None = None
    """Image size in pixels per side (default: unchanged if all are equal squares, otherwise chosen, at most 64)."""
    patch: int | None = None
    """Patch size in pixels per side (default: a quarter of a small image, about an eighth of a larger one)."""
    stem: int = 0
    """Number of convolutions with max pooling before the patches, each of which halves the image; --patch must be
    divisible by 2 that many times. Helps with little data (Hassani et al., 2021), but then other libraries cannot load
    the model."""
    pooling: Literal["first", "mean", "attention"] = "first"
    """How token vectors are pooled into one. first: the class token, as in ViT; other libraries cannot load the
    others."""
    mode: Literal["grey", "rgb"] | None = None
    """Read all images in grey or in colour (default: colour, unless all are grey)."""
    grey: bool = False
    """The same as --mode grey."""
    class_weights: Literal["none", "balanced"] = "none"
    """Class weights in the loss. balanced: inversely proportional to the number of examples."""
    augment: Literal["none", "shift", "mirror", "flip", "affine"] = "none"
    """Random augmentation of training images. shift: by up to an eighth of the side; flip: also mirrors left and
    right; mirror: like flip, but shifts by up to a sixteenth, for subjects that are always in the middle; affine:
    rotates by up to 10 degrees, scales by up to a tenth and shifts by up to a sixteenth."""
    erase: float = 0.0
    """Probability that a random rectangle of a training image is replaced by noise: about 2 to 33 % of its area (Zhong
    et al., 2020). Meant for long trainings."""
    label_smoothing: float = 0.1
    """Fraction of the target probability spread over all classes."""
    batch_size: int = 64
    """Images per batch."""
    rate: float | None = 1e-3
    """Peak learning rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_fraction("valid_fraction")
        if self.grey and self.mode == "rgb":
            raise self._refuse("mode", "--grey contradicts it. Leave one of them out")
        if self.mode == "rgb" and self.data is None:
            raise self._refuse("mode", "the built-in digits are grey. Leave it out, or give images with --data")
        self._check_seed()
        for name in ("size", "patch", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")
        if self.stem < 0:
            raise self._refuse("stem", "expected 0 or more")
        if self.stem > 31:
            raise self._refuse("stem", "no image can be halved so often. Use 1 to 3")
        if not 0 <= self.erase <= 1:
            raise self._refuse("erase", "expected 0 to 1")
        if not 0 <= self.label_smoothing < 1:
            raise self._refuse("label_smoothing", "expected at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
@defaults(optimizer="muon", schedule="linear", final_rate=0.02, beta2=0.98, vocab_size=2000)
class ImageTextSettings(TokenSettings):
    """Settings of tasks with images and texts: captions, questions and matching."""

    data: Path | None = None
    """A table (.csv, .tsv, .jsonl, .json, .parquet, .xlsx) with an image path and its caption, or its question and
    answer, in each row; paths are relative to the table's folder."""
    valid: Path | None = None
    """Validation rows, which select the best weights (default: the rows of a fraction of the images)."""
    test: Path | None = None
    """Test rows for the final score (default: the validation rows)."""
    image_column: str = "image"
    """Column of the image path."""
    valid_fraction: float = 0.1
    """Fraction of your images held out for validation, if there is no --valid."""
    skip_corrupt: bool = False
    """Skip files that cannot be read as images and list them; without this flag they are an error."""
    skip_empty: bool = False
    """Skip rows with an empty text and report their number; without this flag they are an error."""
    size: int | None = None
    """Image size in pixels per side (default: unchanged if all are equal squares, otherwise chosen, at most 64)."""
    patch: int | None = None
    """Patch size in pixels per side (default: about an eighth of the image)."""
    mode: Literal["grey", "rgb"] | None = None
    """Read all images in grey or in colour (default: colour, unless all are grey)."""
    language: Literal["en", "ko"] = "en"
    """Language of the built-in texts."""
    examples: int = 40_000
    """Number of built-in images per epoch; each epoch has new ones."""
    max_len: int = 64
    """Maximum length of a text in tokens."""
    truncate: bool = False
    """Truncate texts longer than --max-len; without this flag they are an error."""
    batch_size: int = 64
    """Images per batch."""
    rate: float | None = OPEN
    """Peak learning rate (default: 0.003, or 0.0002 with --init)."""

    def __post_init__(self) -> None:
        self._settle(rate=3e-3 if self.init is None else 2e-4)
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
            raise self._refuse("language", "it is for the built-in texts, not for --data. Leave it out")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/caption"))
class CaptionSettings(ImageTextSettings):
    """Train a model to caption images: an encoder reads the image, a decoder writes the caption. Without --data, it
    uses built-in scenes of coloured shapes."""

    task: ClassVar[str] = "caption"

    caption_column: str = "caption"
    """Column of the caption."""


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/match"), batch_size=128)
class MatchSettings(ImageTextSettings):
    """Train an image encoder and a text encoder to match images and captions (CLIP). Without --data, it uses built-in
    scenes of coloured shapes."""

    task: ClassVar[str] = "match"

    caption_column: str = "caption"
    """Column of the caption."""
    patch: int | None = None
    """Patch size in pixels per side (default: a quarter of a small image, about an eighth of a larger one)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("label_smoothing", "r_drop"):
            if getattr(self, name):
                raise self._refuse(name, "it needs a loss over classes or tokens; match's is contrastive. Leave it out")
        if self.batch_size < 2:
            raise self._refuse("batch_size", "expected at least 2: match compares the images of a batch")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/ask"))
class AskSettings(ImageTextSettings):
    """Train a model to answer questions about images. Without --data, it uses built-in scenes of coloured shapes."""

    task: ClassVar[str] = "ask"

    question_column: str = "question"
    """Column of the question."""
    answer_column: str = "answer"
    """Column of the answer."""
    questions: int = 8
    """Maximum number of questions per image in a training batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.questions < 1:
            raise self._refuse("questions", "expected at least 1")


@dataclass(frozen=True, kw_only=True)
@defaults(out=Path("runs/forecast"))
class ForecastSettings(TableSettings):
    """Train an encoder on patches of a series to forecast it, each channel separately. Without --data, it uses a
    synthetic series with several seasons."""

    task: ClassVar[str] = "forecast"

    data: Path | None = None
    """A .csv with a date column and a column per channel, or a long table with unique_id, ds and y; may be gzipped."""
    columns: tuple[str, ...] = ()
    """Columns to use as channels (default: all but the dates)."""
    splits: tuple[int, ...] = ()
    """Number of training, validation and test rows (default: 70, 10 and 20 %)."""
    fill: Literal["none", "previous", "interpolate"] = "none"
    """How to fill missing values or dates; none: they are an error."""
    date_format: str | None = None
    """Date format as for Python's strptime, such as %d/%m/%Y (default: detected)."""
    decimal: Literal["point", "comma"] | None = None
    """Decimal mark: point for 1,234.5 or comma for 1.234,5 (default: detected)."""
    calendar: Literal["auto", "every-day", "weekdays"] = "auto"
    """Days of a daily series. auto: detects trading days without weekends; every-day: missing weekends are gaps."""
    cut: bool = False
    """Trim series with different time spans to the common span; without this flag they are an error."""
    length: int = 168
    """Input length: past values that the model reads."""
    horizon: int = 24
    """Number of values to forecast."""
    patch: int = 16
    """Values per token."""
    stride: int = 8
    """Distance between the starts of two patches, in values."""
    fold: int = 1
    """Split each channel into this many rows, each with every fold-th value: 24, for hourly values, makes a row of each
    hour of the day (SparseTSF: Lin et al., 2024). Few weights, good for long horizons; `explore` does not show such a
    model. --length, --horizon, --patch and --stride must be multiples of it."""
    period: int = 24
    """Season length of the seasonal-naive baseline, in values; at most --length."""
    instance_norm: bool = True
    """Reversible instance norm (Kim et al., 2022): normalise each window, and its forecast back. --no-instance-norm
    turns it off."""
    loss: Literal["mse", "mae", "huber"] = "mse"
    """Training loss."""
    batch_size: int = 64
    """Windows per batch, each with all its channels."""
    rate: float | None = 2e-3
    """Peak learning rate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("length", "horizon", "patch", "stride", "fold", "period", "batch_size"):
            if getattr(self, name) < 1:
                raise self._refuse(name, "expected at least 1")
        if self.date_format is not None and not is_date_format(self.date_format):
            raise self._refuse("date_format", "expected a format with a year, such as %d/%m/%Y or %Y-%m-%d %H:%M")
        if self.splits and (len(self.splits) != 3 or min(self.splits) < 1):
            raise self._refuse("splits", "expected three numbers of rows: training, validation and test")
        fitting = {
            f"--{name}": -(-getattr(self, name) // self.fold) * self.fold
            for name in ("length", "horizon", "patch", "stride")
            if getattr(self, name) % self.fold
        }
        if fitting:
            use = " ".join(f"{flag} {value}" for flag, value in fitting.items())
            raise self._refuse("fold", f"{' and '.join(fitting)} must be multiples of it. Use {use}")
        for name in ("patch", "stride"):
            if getattr(self, name) > self.length:
                raise self._refuse(name, f"expected at most --length {self.length}")


def is_date_format(text: str) -> bool:
    """Whether `strptime` accepts this format and it contains a year: without one, all years would be 1900."""
    try:
        datetime.strptime(datetime(2024, 12, 31).strftime(text), text)
    except ValueError:
        return False
    return any(directive in text for directive in ("%Y", "%y", "%G", "%c", "%x"))
