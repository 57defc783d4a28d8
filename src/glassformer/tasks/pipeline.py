"""A trained model as a function: `predict = gf.pipeline("runs/demo"); predict(["Nov 15 2026"])`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from glassformer.checkpoints import load
from glassformer.errors import InputError
from glassformer.tasks.translate import translate
from glassformer.text import load_tokenizer
from glassformer.train.run import read_record

TASKS = {"translate": translate}


def pipeline(path: str | Path) -> Callable[..., list[str]]:
    """What the run at `path` was trained for, as a function from texts to texts."""
    model, tokenizer, task = load(path), load_tokenizer(path), read_record(path)["task"]
    if task not in TASKS:
        raise InputError(f"{path} was trained for {task!r}; known tasks are {', '.join(TASKS)}")
    return partial(TASKS[task], model, tokenizer)
