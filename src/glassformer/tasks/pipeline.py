"""A trained model as a function: `predict = gf.pipeline("runs/demo"); predict(["Nov 15 2026"])`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from glassformer.checkpoints.files import load
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.tasks.translate import translate
from glassformer.text import load_tokenizer
from glassformer.train.run import RUN, read_record

TASKS = {"translate": translate}


def task_of(model: Transformer) -> str:
    """What a model that no run tells about can be used for."""
    if model.encoder is not None and model.decoder is not None and model.config.head == "language":
        return "translate"
    raise InputError(f"a model folder without {RUN} can be used if it translates; this model does not")


def pipeline(path: str | Path) -> Callable[..., list[str]]:
    """What the run at `path` was trained for, as a function from texts to texts."""
    model, tokenizer = load(path), load_tokenizer(path)
    is_a_run = (Path(path) / RUN).is_file()
    task = read_record(path)["task"] if is_a_run else task_of(model)
    if task not in TASKS:
        raise InputError(f"{path} was trained for {task!r}; known tasks are {', '.join(TASKS)}")
    return partial(TASKS[task], model, tokenizer)
