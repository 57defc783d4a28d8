"""What the classes of a model are called, and what kind of answer they are: `id2label`, `label2id`, `problem_type`.

They stand in `config.json`, whoever's it is, and in `Transformer.about` while the model is at hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from glassformer.core.model import Transformer
from glassformer.errors import InputError

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]
KEYS = ("id2label", "label2id", "problem_type")


def name_classes(model: Transformer, names: Sequence[str], problem: Problem = "single_label_classification") -> None:
    """Gives the classes of a model their names, in the order of its logits; `save` writes them, `load` reads them."""
    count = model.config.num_classes
    if count is None:
        raise InputError(f"classes were named for a model with head={model.config.head!r}, which has none")
    if problem not in get_args(Problem):
        raise InputError(f"problem is {problem!r}: expected one of {', '.join(get_args(Problem))}")
    if isinstance(names, str) or len(names) != count:
        given = f"the text {names!r}" if isinstance(names, str) else f"{len(names)} names"
        raise InputError(f"{given} for the {count} classes of the model: expected a list with a name for each")
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise InputError(f"two classes are called {twice[0]!r}: expected a name of its own for each")
    if (problem == "regression") != (count == 1) and model.config.head == "class":
        expected = "a regression has 1 class, the number" if problem == "regression" else "1 class is a regression"
        raise InputError(f"problem is {problem!r} and the model has num_classes = {count}: {expected}")
    model.about = replace(model.about, classes={**as_labels(names), "problem_type": problem})


def as_labels(names: Sequence[str]) -> dict[str, Any]:
    return {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }


def unnamed(num_classes: int) -> dict[str, Any]:
    """Names for classes that nobody has named."""
    return as_labels([f"LABEL_{i}" for i in range(num_classes)])


def labels_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a config.json says of classes."""
    return {key: values[key] for key in KEYS if values.get(key) is not None}


def class_names(model: Transformer) -> list[str]:
    """What the classes are called; where nobody says, their numbers."""
    named = {str(i): str(name) for i, name in model.about.classes.get("id2label", {}).items()}
    return [named.get(str(i), str(i)) for i in range(model.config.num_classes or 0)]


def problem_of(model: Transformer) -> str | None:
    """What kind of answer its classes are, one of `Problem`; None where nobody says."""
    return model.about.classes.get("problem_type")
