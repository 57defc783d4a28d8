"""The names of a model's classes and the type of its problem: `id2label`, `label2id`, `problem_type`.

They are stored in `config.json`, and in `Transformer.about` while the model is loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from glassformer.core.model import Transformer
from glassformer.errors import InputError

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]
LABEL_KEYS = ("id2label", "label2id", "problem_type")


def name_classes(model: Transformer, names: Sequence[str], problem: Problem = "single_label_classification") -> None:
    """Names the classes of a model, in the order of its logits; `save` writes the names, `load` reads them."""
    count = model.config.num_classes
    if count is None:
        raise InputError(f"a model with head={model.config.head!r} has no classes to name: expected 'class' or 'token'")
    if problem not in get_args(Problem):
        raise InputError(f"problem is {problem!r}: expected one of {', '.join(get_args(Problem))}")
    if isinstance(names, str) or len(names) != count:
        given = repr(names) if isinstance(names, str) else f"a list of length {len(names)}"
        raise InputError(f"names is {given}: expected a list with one name per class, {count} in all")
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise InputError(f"two classes are called {twice[0]!r}: expected different names")
    if (problem == "regression") != (count == 1) and model.config.head == "class":
        expected = "a regression has 1 class" if problem == "regression" else "a model with 1 class is a regression"
        raise InputError(f"problem is {problem!r} and the model has num_classes = {count}: {expected}")
    model.about = replace(model.about, classes={**label_names(names), "problem_type": problem})


def label_names(names: Sequence[str]) -> dict[str, Any]:
    return {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }


def unnamed(num_classes: int) -> dict[str, Any]:
    """Default names for unnamed classes: LABEL_0, LABEL_1, ..."""
    return label_names([f"LABEL_{i}" for i in range(num_classes)])


def labels_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a config.json about classes."""
    return {key: values[key] for key in LABEL_KEYS if values.get(key) is not None}


def class_names(model: Transformer) -> list[str]:
    """The names of the classes; their numbers if they have none."""
    named = {str(i): str(name) for i, name in model.about.classes.get("id2label", {}).items()}
    return [named.get(str(i), str(i)) for i in range(model.config.num_classes or 0)]


def problem_of(model: Transformer) -> str | None:
    """The type of the problem, one of `Problem`; None if unknown."""
    return model.about.classes.get("problem_type")
