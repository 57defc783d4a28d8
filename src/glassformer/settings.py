"""The base of what a verb or a training can be told. Fields are the flags, the keys of a TOML file, and the record
kept beside the weights; the string under a field is its help text. Each verb has its own in `verbs/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import get_annotations
from typing import Any, TypeVar

from glassformer.schema import Config

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """The base: a value that does not fit is named as the flag that gave it."""

    def _name(self, field: str) -> str:
        return "--" + field.replace("_", "-")


def defaults(**values: Any) -> Callable[[Kind], Kind]:
    """Other defaults for fields that a class inherits; their type, help and place stay. Stands below `@dataclass`."""

    def change(kind: Kind) -> Kind:
        for name, value in values.items():
            types = [get_annotations(base)[name] for base in kind.__mro__ if name in get_annotations(base)]
            if not types:
                raise TypeError(f"{kind.__name__} inherits no field {name!r}")
            kind.__annotations__[name] = types[0]
            setattr(kind, name, value)
        return kind

    return change
