"""What each verb can be told: one dataclass per verb. Its fields are the flags, the keys of a TOML file, and the
record kept beside the weights. Nothing heavy is imported here, so that `--help` answers at once.

The string under a field is its help text.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from glassformer.errors import InputError
from glassformer.schema import Config


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """The base: a value that does not fit is named as the flag that gave it."""

    def _name(self, field: str) -> str:
        return "--" + field.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """What every training has, whatever the task."""

    out: Path
    """The run folder to write."""
    overwrite: bool = False
    """Replace a finished run in that folder."""
    steps: int = 1000
    """Updates of the weights."""
    batch_tokens: int = 4096
    """Tokens in a batch, padding included, on the longer side."""
    warmup: int = 400
    """Steps over which the rate rises; after them it falls with the square root of the step."""
    rate_scale: float = 1.0
    """Factor on the paper's rate, d_model^-0.5 min(step^-0.5, step warmup^-1.5)."""
    clip: float = 1.0
    """Largest norm of the gradient; larger ones are scaled down to it."""
    seed: int = 0
    """Decides the initial weights, the order of the data and dropout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "batch_tokens", "warmup", "rate_scale", "clip"):
            if getattr(self, name) <= 0:
                raise self._refuse(name, "expected a number above 0")


@dataclass(frozen=True, kw_only=True)
class TranslateSettings(TrainSettings):
    """Train an encoder-decoder on pairs of texts. With no data given, on the built-in English dates to Korean."""

    out: Path = Path("runs/translate")
    """The run folder to write."""
    data: Path | None = None
    """A text file with a pair in each line, source<TAB>target."""
    source: Path | None = None
    """The source lines, aligned with those of --target (instead of --data)."""
    target: Path | None = None
    """The target lines, aligned with those of --source."""
    held_out: float = 0.05
    """Fraction of your pairs kept from training and scored at the end."""
    examples: int = 40_000
    """How many built-in pairs to generate for training, when there is no data."""
    vocab_size: int = 1000
    """Largest size of the vocabulary shared by source and target."""
    d_model: int = 128
    """Width of the model."""
    num_layers: int = 2
    """Blocks in the encoder, and in the decoder."""
    num_heads: int = 4
    """Attention heads of a block."""
    d_ff: int | None = None
    """Width of the feed-forward layer; 4 d_model if not given."""
    norm_order: Literal["post", "pre", "sandwich"] = "post"
    """Where the norms stand; post is the paper's."""
    dropout: float = 0.1
    """Dropout on residual branches, attention weights, feed-forward and embeddings."""
    label_smoothing: float = 0.1
    """Part of the target's probability that is spread over all tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.source is None) != (self.target is None):
            raise InputError("--source and --target are two aligned files: give both")
        if self.data is not None and self.source is not None:
            raise InputError("--data and --source/--target are two ways to give the pairs: choose one")
        if not 0 < self.held_out < 1:
            raise self._refuse("held_out", "expected a fraction between 0 and 1")
        if not 0 <= self.label_smoothing < 1:
            raise self._refuse("label_smoothing", "expected a fraction from 0 up to, not including, 1")
        if self.examples < 1:
            raise self._refuse("examples", "expected at least 1")
        if self.vocab_size < 64:
            raise self._refuse("vocab_size", "expected at least 64, room for the characters of the text")


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
class PredictSettings(Settings):
    """Run a model on texts: translate or continue them, fill in masks, classify, answer a question, make vectors.

    What it does is known from the model. Texts are arguments, lines of a file, or lines of standard input.
    """

    run: Positional[Path]
    """The run or model folder, or a hub id owner/name."""
    texts: Positional[tuple[str, ...]] = ()
    """The texts, or the image files; without any, the lines of --file or of standard input."""
    file: Path | None = None
    """A text file with an input in each line."""
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
        about_the_call = ("run", "texts", "file", "json", "device", "revision", "greedy")
        values = {name: value for name, value in self.to_dict().items() if name not in about_the_call}
        values["chat"] = self.chat or None
        values["do_sample"] = self.do_sample if self.do_sample or self.greedy else None
        return {name: value for name, value in values.items() if value is not None}


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
