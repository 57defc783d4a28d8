"""A model as a function: `predict = gf.pipeline("runs/demo"); predict("Nov 15 2026")`.

What it does with a text is known from the model: which stacks it has, and which head. Long work is done by the engine
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
from glassformer.errors import InputError
from glassformer.generation.choose_engine import EngineChoice, Use
from glassformer.generation.encode import check_size
from glassformer.hub import find_folder
from glassformer.predict import captions, judging, writing
from glassformer.predict.calls import check_characters, check_parts, limit_of
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.embed import embed, read_recipe
from glassformer.predict.images import PICTURES, ImagePreparer, Picture, classify_images
from glassformer.predict.match import PairPreparer, match
from glassformer.predict.prepare import Preparer, ability_of, pair_preparer_of, preparer_of
from glassformer.predict.series import SCALE, SeriesPreparer, classify_series, forecast
from glassformer.predict.texts import TextPreparer
from glassformer.predict.work import work_of
from glassformer.text import Encoded, Tokenizer
from glassformer.text.unknown import Tally, Unknown

PAIRS = ("classify", "ask")  # abilities that read two things together
BATCHES = ("batch_tokens", "batch_size")  # how much is computed at a time
GENERATION = tuple(entry.name for entry in fields(GenerationOptions))


class Ability(NamedTuple):
    """What a model does, the function that does it, what that can be told, and what an input is called."""

    does: str
    runs: Callable[..., Any]
    takes: tuple[str, ...] = ()
    reads: tuple[str, str] | None = ("a text", "texts")  # one and several; None: checked where it is read
    writes: bool = False  # with an engine, if it is given one


ABILITIES = {
    "translate": Ability(
        "writes a text for a text",
        writing.translate,
        ("source_language", "target_language", "truncate", *GENERATION),
        writes=True,
    ),
    "lm": Ability("continues a text", writing.complete, ("chat", *GENERATION), writes=True),
    "mlm": Ability("fills in masked words", judging.fill_masks, ("guesses",)),
    "classify": Ability(
        "names the class of a text",
        judging.classify,
        ("truncate",),
        reads=("a text, or a pair of texts", "texts, or of pairs of texts"),
    ),
    "tokens": Ability("names the class of each token", judging.label_tokens),
    "answer": Ability("finds the answer to a question in a text", judging.find_answers, ("question",)),
    "embed": Ability("makes sentence vectors", embed, ("normalise",)),
    "images": Ability(
        "names the class of an image", classify_images, reads=("the path of an image as text", "image files")
    ),
    "caption": Ability(
        "writes a caption for an image",
        captions.write_about,
        GENERATION,
        reads=("the path of an image as text", "image files"),
        writes=True,
    ),
    "ask": Ability(
        "answers a question about an image",
        captions.write_about,
        ("question", *GENERATION),
        reads=("the path of an image as text, or a pair of image and question", "image files, or of pairs"),
        writes=True,
    ),
    "match": Ability(
        "finds the text that fits an image, and makes vectors of images and texts",
        match,
        ("labels", "truncate"),
        reads=("the path of an image, or a text", "image files and texts"),
    ),
    "forecast": Ability("says how a series goes on", forecast, ("fill", "date_format", "decimal"), reads=None),
    "series": Ability("names the class of a series", classify_series, reads=None),
}


@dataclass(frozen=True)
class Pipeline:
    """A function from texts (of a model of images: files; of series: rows of numbers) to answers in the same order, and
    from one text alone to its answer.

    Texts for a model that writes, a `Label`, `Labels`, `Answer`, or lists of `Guess` and `TokenLabel` for one that
    judges (`answers.py`), and a tensor (texts, width) for one that embeds. A pair of models gives a `Label` among the
    `labels` of the call for each image, or without labels a tensor of vectors, of images and texts alike. One that
    forecasts takes a single series (a file, a `Series`, or values) and gives an array (horizon, channels).
    """

    task: str
    model: Any  # a Transformer; of the ability `match` a Pair
    tokenizer: Tokenizer | None
    beside: Any  # what the ability needs beside the model: a tokenizer, the preparation of images, a series' scale
    folder: Path
    preparer: Preparer | PairPreparer
    choice: EngineChoice
    settled: Mapping[str, Any] = field(default_factory=dict)  # options that the folder decides
    note: str = ""  # what was assumed, if anything

    def __call__(self, inputs: Any, *, generation: GenerationOptions | None = None, **options: Any) -> Any:
        """One answer for one text or picture, and a list for a list. `options` are what the ability takes; those of
        generation may come as one value instead.

        Inputs are computed in batches of at most `batch_tokens` tokens, padding included, and of `batch_size` inputs.
        Tokens that the vocabulary lacks are told on standard error.
        """
        is_one = isinstance(inputs, str | Picture) or (self.task == "ask" and isinstance(inputs, tuple))
        if is_one and self.task not in ("forecast", "series"):
            return self([inputs], generation=generation, **options)[0]
        outputs, unknown = self.answer(inputs, generation=generation, **options)
        if said := Tally(unknown).sentence():
            print(said, file=sys.stderr)
        return outputs

    def answer(
        self, inputs: Any, *, generation: GenerationOptions | None = None, **options: Any
    ) -> tuple[Any, list[Unknown]]:
        """The answers, and what the vocabulary lacks of each input: for a caller who tells it in another way."""
        options = self.gathered(generation, options)
        check_inputs(inputs, self.task)
        unknown: list[Unknown] = []
        if isinstance(self.preparer, TextPreparer):
            check_texts(inputs, self.task, self.rules)
            if self.task == "classify":  # often many short texts: cut into tokens once, not once more for this
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
        """How the training treated its texts."""
        return self.preparer.rules if isinstance(self.preparer, TextPreparer) else NO_RULES

    def gathered(self, generation: GenerationOptions | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, checked, and those of generation among them as one value."""
        options = {**(generation.given() if generation else {}), **options}
        self.check_options(options)
        if told := {name: options.pop(name) for name in GENERATION if name in options}:
            options["generation"] = GenerationOptions.from_dict(told)
        return options

    def settle_engine(
        self, sample: Sequence[Any], times: float, *, generation: GenerationOptions | None = None, **options: Any
    ) -> Use:
        """Decides whether the engine runs the model, for many calls that have `times` as much to do as this sample."""
        work = work_of(self.task, self.model, sample, self.gathered(generation, options))
        return self.choice.settle(replace(work, reads=int(work.reads * times), writes=int(work.writes * times)))

    @property
    def engine(self) -> str | None:
        """How the engine has run the model, such as "compiled (float32)"; None as long as it has not."""
        return self.choice.used

    @property
    def writes(self) -> bool:
        """Whether the answers are texts that the model writes, token by token."""
        return ABILITIES[self.task].writes

    @property
    def does(self) -> str:
        return ABILITIES[self.task].does

    def check_options(self, options: Mapping[str, Any]) -> None:
        """What this model has no use for is an error, never ignored."""
        ability = ABILITIES[self.task]
        for name in options:
            if name not in (*ability.takes, *(() if self.task == "forecast" else BATCHES)):
                able = [other.does for other in ABILITIES.values() if name in other.takes]
                use = f"is for a model that {' or '.join(able)}" if able else "is not known"
                said = f"--{name.replace('_', '-')}" if able else name  # as it is typed
                raise InputError(f"{said} {use}; this one {ability.does}: leave it out")
        for name, said in zip(BATCHES, ("--batch-tokens", "batch_size"), strict=True):
            check_size(said, options.get(name, 1))


def pipeline(
    path: str | PathLike[str],
    *,
    device: str | torch.device | None = None,
    revision: str | None = None,
    token: str | None = None,
    engine: Use = "auto",
) -> Pipeline:
    """What the model of a run, a Hugging Face folder or a hub id is for, as a function; a run is its folder, or what
    `gf.train` returned.

    `engine` says whether to compile the model: "on", "off", or "auto", which compiles it once that saves time overall.
    """
    folder = find_folder(path, revision=revision, token=token)
    recipe = read_recipe(folder)
    device = usable_device(device)
    # A CPU without fast half precision multiplies float16 and bfloat16 a hundred times slower than float32.
    dtype = torch.float32 if device.type == "cpu" else None
    # Sentence vectors need no head, whatever the model was made from, and many such files have none.
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
        note = f"{folder} has no {SCALE}: the model reads the values as they are" if is_raw else ""
        return Pipeline(task, model, None, preparer.scale, folder, preparer, choice, note=note)
    settled = {}
    if task == "embed":
        settled = {"recipe": preparer.recipe}
        note = "" if recipe else f"{folder} does not say how to pool: the vectors are means over the tokens"
    return Pipeline(task, model, preparer.tokenizer, preparer.tokenizer, folder, preparer, choice, settled, note)


def check_inputs(inputs: Any, task: str) -> None:
    """A list of what the model reads; of a series, that is checked where it is read."""
    reads = ABILITIES[task].reads
    if reads is None:
        return
    one, several = reads
    if not isinstance(inputs, Sequence):
        raise InputError(f"the inputs are {inputs!r:.60}: expected a list of {several}")
    for i, given in enumerate(inputs):
        is_pair = isinstance(given, tuple) and len(given) == 2
        parts = given if task in PAIRS and is_pair else (given,)
        kinds = (str, Picture) if task in PICTURES else str
        fits = isinstance(parts[0], kinds) and all(isinstance(part, str) for part in parts[1:])
        if not fits:
            raise InputError(f"input {i} is {given!r:.60}: expected {one}")


def check_texts(inputs: Sequence[str | tuple[str, str]], task: str, rules: TextRules) -> None:
    """What the training refuses: an empty text, a pair where it had single texts. A decoder may begin with nothing."""
    for number, given in enumerate(inputs):
        parts = (given,) if isinstance(given, str) else given
        for part in parts:
            check_characters(part, f"input {number}")
        if task != "lm" and not all(part.strip() for part in parts):
            raise InputError(f"input {number} is empty: expected at least a word. Leave it out")
        if task == "classify":
            check_parts(len(parts), f"input {number}", rules)
