"""A model as a function: `predict = gf.pipeline("runs/demo"); predict("Nov 15 2026")`.

The stacks and the head of the model determine what it does with an input. Long jobs run on the engine
(`generation/choose_engine.py`), with the same answers.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch

from glassformer.checkpoints.load import load_model, usable_device
from glassformer.checkpoints.run import NO_RULES, TextRules
from glassformer.config import GenerationOptions
from glassformer.core.pair import Pair
from glassformer.errors import InputError, join_choices
from glassformer.generation.choose_engine import EngineChoice, Use
from glassformer.generation.encode import check_length
from glassformer.hub import find_folder
from glassformer.predict import captions, judging, writing
from glassformer.predict.calls import check_characters, check_parts, limit_of
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.embed import embed, read_recipe
from glassformer.predict.images import IMAGE_ABILITIES, ImagePreparer, Picture, classify_images
from glassformer.predict.match import PairPreparer, match
from glassformer.predict.prepare import Preparer, ability_of, pair_preparer_of, preparer_of
from glassformer.predict.series import SCALE_FILE, SeriesPreparer, classify_series, forecast
from glassformer.predict.texts import TextPreparer
from glassformer.predict.work import work_of
from glassformer.text import Encoded, Tokenizer
from glassformer.text.unknown import Unknown, UnknownTally

PAIR_ABILITIES = ("classify", "ask")  # abilities that read pairs
BATCHES = ("batch_tokens", "batch_size")
GENERATION_OPTIONS = tuple(entry.name for entry in fields(GenerationOptions))


class Ability(NamedTuple):
    """What a model does, the function that does it, its options, and the name of an input."""

    does: str
    runs: Callable[..., Any]
    takes: tuple[str, ...] = ()
    reads: tuple[str, str] | None = ("a text", "texts")  # singular and plural; None: the function checks its input
    writes: bool = False  # generates text, with the engine if there is one


ABILITIES = {
    "translate": Ability(
        "translates texts",
        writing.translate,
        ("source_language", "target_language", "truncate", *GENERATION_OPTIONS),
        writes=True,
    ),
    "lm": Ability("continues texts", writing.complete, ("chat", *GENERATION_OPTIONS), writes=True),
    "mlm": Ability("fills in masked words", judging.fill_masks, ("guesses",)),
    "classify": Ability(
        "classifies texts",
        judging.classify,
        ("truncate",),
        reads=("a text, or a pair of texts", "texts, or of pairs of texts"),
    ),
    "tokens": Ability("classifies tokens", judging.label_tokens),
    "answer": Ability("answers questions from a text", judging.find_answers, ("question",)),
    "embed": Ability("computes sentence vectors", embed, ("normalise",)),
    "images": Ability("classifies images", classify_images, reads=("the path of an image as text", "image files")),
    "caption": Ability(
        "captions images",
        captions.write_about,
        GENERATION_OPTIONS,
        reads=("the path of an image as text", "image files"),
        writes=True,
    ),
    "ask": Ability(
        "answers questions about images",
        captions.write_about,
        ("question", *GENERATION_OPTIONS),
        reads=("the path of an image as text, or a pair of image and question", "image files, or of pairs"),
        writes=True,
    ),
    "match": Ability(
        "matches images with texts",
        match,
        ("labels", "truncate"),
        reads=("the path of an image, or a text", "image files and texts"),
    ),
    "forecast": Ability("forecasts series", forecast, ("fill", "date_format", "decimal"), reads=None),
    "series": Ability("classifies series", classify_series, reads=None),
}


@dataclass(frozen=True)
class Pipeline:
    """A function from a list of inputs to their answers in the same order, and from one input to its answer. Inputs are
    texts, image files, or rows of numbers, depending on the model.

    A model that generates returns texts. Other models return a `Label`, `Labels`, `Answer`, or lists of `Guess` and
    `TokenLabel` (`answers.py`), or a tensor of vectors (texts, width). A pair of models returns the best of the
    `labels` of the call for each image, or without labels a tensor of vectors of images and texts. A model that
    forecasts takes a single series (a file, a `Series`, or values) and returns an array (horizon, channels).
    """

    task: str
    model: Any  # a Transformer, or a Pair for the ability `match`
    tokenizer: Tokenizer | None
    beside: Any  # second argument of the ability's function: a tokenizer, an image preparation, the scale of a series
    folder: Path
    preparer: Preparer | PairPreparer
    choice: EngineChoice
    settled: Mapping[str, Any] = field(default_factory=dict)  # options set by the model folder
    note: str = ""  # an assumption that the user should know of

    def __call__(self, inputs: Any, *, generation: GenerationOptions | None = None, **options: Any) -> Any:
        """The answer to one text or image, or the answers to a list. `options` are those of the ability; options of
        generation can also be given as one `generation` value.

        A batch has at most `batch_tokens` tokens, padding included, and `batch_size` inputs. Unknown tokens are
        reported on standard error.
        """
        is_one = isinstance(inputs, str | Picture) or (self.task == "ask" and isinstance(inputs, tuple))
        if is_one and self.task not in ("forecast", "series"):
            return self([inputs], generation=generation, **options)[0]
        outputs, unknown = self.answer(inputs, generation=generation, **options)
        if said := UnknownTally(unknown).sentence():
            print(said, file=sys.stderr)
        return outputs

    def answer(
        self, inputs: Any, *, generation: GenerationOptions | None = None, **options: Any
    ) -> tuple[Any, list[Unknown]]:
        """The answers, and the unknown tokens of each input, for a caller that reports them itself."""
        options = self.gathered(generation, options)
        check_inputs(inputs, self.task)
        unknown: list[Unknown] = []
        if isinstance(self.preparer, TextPreparer):
            check_like_training(inputs, self.task, self.rules)
            if self.task == "classify":  # often many short texts: tokenised only once
                options["seen"] = lambda *some: unknown.extend(self.unknown_in(*some))
            else:
                unknown = self.preparer.unknown(inputs)
        elif isinstance(self.preparer, PairPreparer):
            unknown = self.preparer.unknown(inputs, options.get("labels"))
        elif isinstance(self.preparer, CaptionPreparer) and self.task == "ask":
            unknown = self.preparer.unknown(inputs, options.get("question"))
        ability = ABILITIES[self.task]
        if "truncate" in ability.takes:
            reader = self.model.text if isinstance(self.model, Pair) else self.model
            options["limit"] = limit_of(reader, self.rules, truncate=options.pop("truncate", False))
        with self.choice.running(work_of(self.task, self.model, inputs, options)) as (model, engine):
            options |= {**self.settled, **({"engine": engine} if ability.writes else {})}
            return ability.runs(model, self.beside, inputs, **options), unknown

    def unknown_in(self, encoded: Encoded, some: Sequence[Any], start: int) -> list[Unknown]:
        assert isinstance(self.preparer, TextPreparer)
        return self.preparer.unknown_in(encoded, some, start)

    @property
    def rules(self) -> TextRules:
        """How texts were treated in training."""
        return self.preparer.rules if isinstance(self.preparer, TextPreparer) else NO_RULES

    def gathered(self, generation: GenerationOptions | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """The checked options, with those of generation combined into one value."""
        options = {**(generation.given() if generation else {}), **options}
        self.check_options(options)
        if told := {name: options.pop(name) for name in GENERATION_OPTIONS if name in options}:
            options["generation"] = GenerationOptions.from_dict(told)
        return options

    def settle_engine(
        self, sample: Sequence[Any], times: float, *, generation: GenerationOptions | None = None, **options: Any
    ) -> Use:
        """Decides whether to use the engine for a job that is `times` as much work as this sample."""
        work = work_of(self.task, self.model, sample, self.gathered(generation, options))
        return self.choice.settle(replace(work, reads=int(work.reads * times), writes=int(work.writes * times)))

    @property
    def engine(self) -> str | None:
        """How the engine ran the model, such as "compiled (float32)"; None if it has not run."""
        return self.choice.used

    @property
    def writes(self) -> bool:
        """Whether the model generates its answers token by token."""
        return ABILITIES[self.task].writes

    @property
    def does(self) -> str:
        return ABILITIES[self.task].does

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuses options that this model does not have."""
        ability = ABILITIES[self.task]
        for name in options:
            if name not in (*ability.takes, *(() if self.task == "forecast" else BATCHES)):
                able = [other.does for other in ABILITIES.values() if name in other.takes]
                use = f"needs a model that {join_choices(able)}" if able else "is not a known option"
                said = f"--{name.replace('_', '-')}" if able else name  # as typed
                raise InputError(f"{said} {use}; this model {ability.does}. Leave it out")
        for name, said in zip(BATCHES, ("--batch-tokens", "batch_size"), strict=True):
            check_length(said, options.get(name, 1))


def pipeline(
    path: str | PathLike[str],
    *,
    device: str | torch.device | None = None,
    revision: str | None = None,
    token: str | None = None,
    engine: Use = "auto",
) -> Pipeline:
    """Loads a model as a function from inputs to answers. `path` is a run folder, the result of `gf.train`, a Hugging
    Face folder or a hub id.

    `engine` says whether to compile the model: "on", "off", or "auto", which compiles if that saves time overall.
    """
    folder = find_folder(path, revision=revision, token=token)
    recipe = read_recipe(folder)
    device = usable_device(device)
    # On a CPU without fast half precision, float16 and bfloat16 products are a hundred times slower than float32.
    dtype = torch.float32 if device.type == "cpu" else None
    # Sentence vectors need no head, and many such checkpoints have none.
    model: Any = load_model(folder, head="none" if recipe else None, dtype=dtype, device=device, finite=True)
    task = ability_of(model, folder)
    preparer = pair_preparer_of(model, folder) if isinstance(model, Pair) else preparer_of(model, folder)
    choice, note = EngineChoice(model, engine), ""
    if isinstance(preparer, ImagePreparer):
        return Pipeline(task, model, None, preparer.preparation, folder, preparer, choice)
    if isinstance(preparer, CaptionPreparer | PairPreparer):
        return Pipeline(task, model, preparer.tokenizer, preparer, folder, preparer, choice)
    if isinstance(preparer, SeriesPreparer):
        is_raw = preparer.scale is None and model.config.series is not None and not model.config.series.instance_norm
        note = f"{folder} has no {SCALE_FILE}: the values are not scaled" if is_raw else ""
        return Pipeline(task, model, None, preparer.scale, folder, preparer, choice, note=note)
    settled = {}
    if task == "embed":
        settled = {"recipe": preparer.recipe}
        says = recipe or model.config.pooled_dim
        note = "" if says else f"{folder} does not say how to pool: using the mean over the tokens"
    return Pipeline(task, model, preparer.tokenizer, preparer.tokenizer, folder, preparer, choice, settled, note)


def check_inputs(inputs: Any, task: str) -> None:
    """Refuses anything but a list of inputs that the model reads. Series are checked when they are read."""
    reads = ABILITIES[task].reads
    if reads is None:
        return
    one, several = reads
    if not isinstance(inputs, Sequence):
        raise InputError(f"the inputs are {inputs!r:.60}: expected a list of {several}")
    for number, given in enumerate(inputs, start=1):
        is_pair = isinstance(given, tuple) and len(given) == 2
        parts = given if task in PAIR_ABILITIES and is_pair else (given,)
        kinds = (str, Picture) if task in IMAGE_ABILITIES else str
        fits = isinstance(parts[0], kinds) and all(isinstance(part, str) for part in parts[1:])
        if not fits:
            raise InputError(f"input {number} is {given!r:.60}: expected {one}")


def check_like_training(inputs: Sequence[str | tuple[str, str]], task: str, rules: TextRules) -> None:
    """Refuses what training refuses: empty texts, and pairs for a model of single texts. A decoder-only model accepts
    an empty text."""
    for number, given in enumerate(inputs, start=1):
        parts = (given,) if isinstance(given, str) else given
        for part in parts:
            check_characters(part, f"input {number}")
        if task != "lm" and not all(part.strip() for part in parts):
            raise InputError(f"input {number} is empty: expected at least a word. Leave it out")
        if task == "classify":
            check_parts(len(parts), f"input {number}", rules)
