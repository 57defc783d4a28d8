"""What the verb `inspect` can be told."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from glassformer.settings import Settings


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
