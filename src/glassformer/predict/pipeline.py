"""A model as a function: `predict = gf.pipeline("runs/demo"); predict(["Nov 15 2026"])`.

What it does with a text is known from the model: which stacks it has, and which head.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from glassformer.checkpoints.load import load, usable_device
from glassformer.config import GenerationOptions
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.hub import find_folder
from glassformer.predict import predictors
from glassformer.predict.embed import MEAN, embed, read_recipe
from glassformer.predict.pictures import Picture, classify_images, read_preparation
from glassformer.predict.series import SCALE, forecast, judge_series, read_scale
from glassformer.text import Tokenizer, check_vocabulary, load_tokenizer

GENERATION = tuple(entry.name for entry in fields(GenerationOptions))


class Ability(NamedTuple):
    """What a model does, the function that does it, and what that can be told."""

    does: str
    runs: Callable[..., Any]
    takes: tuple[str, ...] = ()


ABILITIES = {
    "translate": Ability(
        "writes a text for a text", predictors.translate, ("source_language", "target_language", *GENERATION)
    ),
    "lm": Ability("continues a text", predictors.complete, ("chat", *GENERATION)),
    "mlm": Ability("fills in masked words", predictors.fill_masks, ("guesses",)),
    "classify": Ability("names the class of a text", predictors.classify),
    "tokens": Ability("names the class of each token", predictors.label_tokens),
    "answer": Ability("finds the answer to a question in a text", predictors.find_answers, ("question",)),
    "embed": Ability("makes sentence vectors", embed, ("normalise",)),
    "images": Ability("names the class of an image", classify_images),
    "forecast": Ability("says how a series goes on", forecast, ("fill",)),
    "series": Ability("names the class of a series", judge_series),
}

READS = {  # what an input is, and several of them; of a series, it is told where that is read
    **dict.fromkeys(("translate", "lm", "mlm", "tokens", "answer", "embed"), ("a text", "texts")),
    "classify": ("a text, or a pair of texts", "texts, or of pairs of texts"),
    "images": ("the path of an image as text", "image files"),
}


@dataclass(frozen=True)
class Pipeline:
    """A function from texts (of a model of images: files; of series: rows of numbers) to answers in the same order.

    Texts for a model that writes, a `Label`, `Labels`, `Answer`, or lists of `Guess` and `TokenLabel` for one that
    judges (`predictors.py`), and a tensor (texts, width) for one that embeds. One that forecasts takes a single series
    (a file, a `Series`, or values) and gives an array (horizon, channels).
    """

    task: str
    model: Transformer
    tokenizer: Tokenizer | None
    run: Callable[..., Any]
    folder: Path
    note: str = ""  # what was assumed, if anything

    def __call__(self, inputs: Any, *, generation: GenerationOptions | None = None, **options: Any) -> Any:
        """`options` are what the ability takes. Those of generation may come as one value instead."""
        options = {**(generation.given() if generation else {}), **options}
        self.check_options(options)
        if told := {name: options.pop(name) for name in GENERATION if name in options}:
            options["generation"] = GenerationOptions.from_dict(told)
        if self.task in READS and not isinstance(inputs, str):  # one text alone is told of where it is read
            check_inputs(inputs, self.task)
        return self.run(inputs, **options)

    @property
    def does(self) -> str:
        return ABILITIES[self.task].does

    def check_options(self, options: Mapping[str, Any]) -> None:
        """What this model has no use for is an error, never ignored."""
        ability = ABILITIES[self.task]
        for name in options:
            if name not in (*ability.takes, *(() if self.task == "forecast" else ("batch_size",))):
                able = [other.does for other in ABILITIES.values() if name in other.takes]
                use = f"is for a model that {' or '.join(able)}" if able else "is not known"
                raise InputError(f"{name} {use}; this one {ability.does}: leave it out")
        size = options.get("batch_size", 1)
        if type(size) is not int or size < 1:
            raise InputError(f"batch_size is {size!r}: expected a whole number of at least 1")


def pipeline(
    path: str | Path,
    *,
    device: str | torch.device | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Pipeline:
    """What the model of a run, a Hugging Face folder or a hub id is for, as a function."""
    folder = find_folder(path, revision=revision, token=token)
    recipe = read_recipe(folder)
    device = usable_device(device)
    # A CPU without fast half precision multiplies float16 and bfloat16 a hundred times slower than float32.
    dtype = torch.float32 if device.type == "cpu" else None
    # Sentence vectors need no head, whatever the model was made from, and many such files have none.
    model = load(folder, head="none" if recipe else None, dtype=dtype, device=device)
    task = task_of(model, folder)
    if task == "images":
        run = partial(classify_images, model, read_preparation(folder, model.config))
        return Pipeline(task, model, None, run, folder)
    if task in ("forecast", "series"):
        scale = read_scale(folder)
        is_raw = scale is None and model.config.series is not None and not model.config.series.instance_norm
        note = f"{folder} has no {SCALE}: the model reads the values as they are" if is_raw else ""
        return Pipeline(task, model, None, partial(ABILITIES[task].runs, model, scale), folder, note)
    tokenizer = load_tokenizer(folder)
    check_vocabulary(tokenizer, model.config.vocab_size or 0)
    run, note = partial(ABILITIES[task].runs, model, tokenizer), ""
    if task == "embed":
        run = partial(run, recipe=recipe or MEAN)
        note = "" if recipe else f"{folder} does not say how to pool: the vectors are means over the tokens"
    return Pipeline(task, model, tokenizer, run, folder, note)


def check_inputs(inputs: Any, task: str) -> None:
    one, several = READS[task]
    if not isinstance(inputs, Sequence):
        raise InputError(f"the inputs are {inputs!r:.60}: expected a list of {several}")
    for i, given in enumerate(inputs):
        is_pair = isinstance(given, tuple) and len(given) == 2 and all(isinstance(text, str) for text in given)
        fits = (
            isinstance(given, str)
            or (task == "classify" and is_pair)
            or (task == "images" and isinstance(given, Picture))
        )
        if not fits:
            raise InputError(f"input {i} is {given!r:.60}: expected {one}")


def task_of(model: Transformer, folder: Path) -> str:
    """What a model is for, by its stacks and its head."""
    head, config = model.config.head, model.config
    if config.image is not None and head == "class":
        return "images"
    if config.series is not None and head in ("forecast", "class"):
        return "forecast" if head == "forecast" else "series"
    if config.patches is not None:
        kind = "images" if config.image else "series"
        raise InputError(
            f"{folder} is a model of {kind} with head {head!r}: a pipeline reads texts, or images to classify, or "
            "series to forecast or classify. Load it with gf.load and call it with tensors"
        )
    if head == "language":
        if model.decoder is None:
            return "mlm"
        return "translate" if model.encoder is not None else "lm"
    return {"class": "classify", "token": "tokens", "span": "answer"}.get(head, "embed")
