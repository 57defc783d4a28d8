"""Base class of all settings. A field is a flag, a key of a TOML file, and an entry of the record saved beside the
weights; the string under a field is its help text (`verbs/help.py`). Each verb has its own settings in `verbs/`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from inspect import get_annotations
from typing import Any, TypeVar

from glassformer.schema import Config

SettingsType = TypeVar("SettingsType", bound=type)

# The largest value of each flag, in every verb that has it: more is a mistake, refused before any work.
STEPS, TOKENS = 99_999_999, 2**28
MAX_BY_NAME: dict[str, float] = {
    **dict.fromkeys(("steps", "warmup", "eval_every", "checkpoint_every", "patience", "keep", "average"), STEPS),
    **dict.fromkeys(("batch_tokens", "max_new_tokens", "sample"), TOKENS),
    **dict.fromkeys(("prompt_tokens", "new_tokens", "mean_tokens", "texts"), 2**17),  # of `bench`
    **dict.fromkeys(("context", "max_len", "length", "horizon", "period", "batch"), 2**31 - 1),
    **dict.fromkeys(("batch_size", "accumulate", "patch"), 2**20),
    **dict.fromkeys(("num_beams", "guesses", "rounds"), 10_000),
    "batch_sizes": 4096,
    "size": 2**14,
    "minutes": 10 * 366 * 24 * 60,
    "examples": 10**8,
    "depths": 1024,
    "length_penalty": 100,
    "threads": 4096,
}
MAX_INT = 2**63 - 1  # of all other whole numbers


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """Errors name the flag that has the wrong value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in vars(self).items():
            for number in value if isinstance(value, tuple) else (value,):
                most = MAX_BY_NAME.get(name, MAX_INT if isinstance(number, int) else math.inf)
                if isinstance(number, int | float) and abs(number) > most:
                    raise self._refuse(name, f"expected at most {most:,}")

    def _name(self, field: str) -> str:
        return "--" + field.replace("_", "-")


def defaults(**values: Any) -> Callable[[SettingsType], SettingsType]:
    """New defaults for inherited fields, which keep their type, help and order. Goes below `@dataclass`."""

    def change(kind: SettingsType) -> SettingsType:
        for name, value in values.items():
            types = [get_annotations(base)[name] for base in kind.__mro__ if name in get_annotations(base)]
            if not types:
                raise TypeError(f"{kind.__name__} inherits no field {name!r}")
            kind.__annotations__[name] = types[0]
            setattr(kind, name, value)
        return kind

    return change
