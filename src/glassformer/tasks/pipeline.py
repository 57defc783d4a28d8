"""A model as a function: `predict = gf.pipeline("runs/demo"); predict(["Nov 15 2026"])`.

What it does with a text is known from the model: which stacks it has, and which head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from glassformer.checkpoints.hub import find_folder
from glassformer.checkpoints.load import load, usable_device
from glassformer.config import GenerationConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.tasks import predictors
from glassformer.tasks.embed import MEAN, embed, read_recipe
from glassformer.tasks.pictures import classify_images, read_preparation
from glassformer.text import Tokenizer, check_vocabulary, load_tokenizer

GENERATION = ("seed", *(entry.name for entry in fields(GenerationConfig)))


class Ability(NamedTuple):
    """What a model does, the function that does it, and what that can be told."""

    does: str
    runs: Callable[..., Any]
    takes: tuple[str, ...] = ()


ABILITIES = {
    "translate": Ability(
        "writes a text for a text", predictors.translate, ("source_language", "target_language", *GENERATION)
    ),
    "complete": Ability("continues a text", predictors.complete, ("chat", *GENERATION)),
    "fill": Ability("fills in masked words", predictors.fill_masks, ("guesses",)),
    "classify": Ability("names the class of a text", predictors.classify),
    "label": Ability("names the class of each token", predictors.label_tokens),
    "answer": Ability("finds the answer to a question in a text", predictors.find_answers, ("question",)),
    "embed": Ability("makes sentence vectors", embed, ("normalise",)),
    "see": Ability("names the class of an image", classify_images),
}


@dataclass(frozen=True)
class Pipeline:
    """A function from texts (of a model of images: files) to answers in the same order.

    Texts for a model that writes, a `Label`, `Answer`, or lists of `Guess` and `TokenLabel` for one that judges
    (`predictors.py`), and a tensor (texts, width) for one that embeds.
    """

    task: str
    model: Transformer
    tokenizer: Tokenizer | None
    run: Callable[..., Any]
    note: str = ""  # what was assumed, if anything

    def __call__(self, inputs: Sequence[str], **options: Any) -> Any:
        ability = ABILITIES[self.task]
        for name in options:
            if name not in (*ability.takes, "batch_size"):
                able = [other.does for other in ABILITIES.values() if name in other.takes]
                use = f"is for a model that {' or '.join(able)}" if able else "is not known"
                raise InputError(f"{name} {use}; this one {ability.does}: leave it out")
        size = options.get("batch_size", 1)
        if type(size) is not int or size < 1:
            raise InputError(f"batch_size is {size!r}: expected a whole number of at least 1")
        if not isinstance(inputs, str):  # one text alone is told of where it is read
            check_inputs(inputs)
        return self.run(inputs, **options)


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
    if task == "see":
        return Pipeline(task, model, None, partial(classify_images, model, read_preparation(folder, model.config)))
    tokenizer = load_tokenizer(folder)
    check_vocabulary(tokenizer, model.config.vocab_size or 0)
    run, note = partial(ABILITIES[task].runs, model, tokenizer), ""
    if task == "embed":
        run = partial(run, recipe=recipe or MEAN)
        note = "" if recipe else f"{folder} does not say how to pool: the vectors are means over the tokens"
    return Pipeline(task, model, tokenizer, run, note)


def check_inputs(inputs: Sequence[str]) -> None:
    if not isinstance(inputs, Sequence):
        raise InputError(f"the inputs are {inputs!r:.60}: expected a list of texts, or of image files")
    for i, given in enumerate(inputs):
        if not isinstance(given, str):
            raise InputError(f"input {i} is {given!r:.60}: expected a text, or the path of an image as text")


def task_of(model: Transformer, folder: Path) -> str:
    """What a model is for, by its stacks and its head."""
    head, config = model.config.head, model.config
    if config.image is not None and head == "class":
        return "see"
    if config.patches is not None:
        kind = "images" if config.image else "series"
        raise InputError(
            f"{folder} is a model of {kind} with head {head!r}: a pipeline reads texts, or images to classify. "
            "Load it with gf.load and call it with tensors"
        )
    if head == "language":
        if model.decoder is None:
            return "fill"
        return "translate" if model.encoder is not None else "complete"
    return {"class": "classify", "token": "label", "span": "answer"}.get(head, "embed")
