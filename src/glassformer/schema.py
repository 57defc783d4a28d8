"""A frozen record of settings that checks its types, converts to and from JSON, and refuses unknown keys.

The base of the model's configs (`config.py`) and of every verb's flags (`settings.py`).
"""

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from glassformer.errors import InputError, did_you_mean

OPEN: Any = None  # default of a field that is filled in on construction: None may be given, but a value is read


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base class: a subclass adds fields, and checks their combinations in `__post_init__`."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for entry in fields(self):
            value, kind = getattr(self, entry.name), hints[entry.name]
            if not _fits(value, kind) and not (value is None and entry.default is OPEN):
                raise self._refuse(entry.name, f"expected {_describe(kind)}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds the config, and the configs inside it, from plain JSON values."""
        hints, names = get_type_hints(cls), {entry.name for entry in fields(cls)}
        for key in values:
            if key not in names:
                raise InputError(f"{cls.__name__} has no field {key!r}{did_you_mean(key, names)}")
        for known in fields(cls):
            if known.default is MISSING and known.default_factory is MISSING and known.name not in values:
                raise InputError(f"{cls.__name__} needs a value for {known.name!r}")
        return cls(**{key: _revive(value, hints[key]) for key, value in values.items()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))

    def to_dict(self) -> dict[str, Any]:
        return {entry.name: _flatten(getattr(self, entry.name)) for entry in fields(self)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed. Fields that construction filled in are filled in again."""
        return replace(self, **{**dict.fromkeys(self.left_open), **changes})

    @property
    def left_open(self) -> frozenset[str]:
        """The fields that were not given and that construction filled in."""
        settled: frozenset[str] = self.__dict__.get("_settled", frozenset())
        return settled

    def _settle(self, **values: Any) -> None:
        """Fills in those of these fields that were not given; only called during construction."""
        left_open = {name: value for name, value in values.items() if getattr(self, name) is OPEN}
        for name, value in left_open.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_settled", frozenset(left_open))

    def _name(self, field: str) -> str:
        """The name of a field in an error."""
        return f"{type(self).__name__}.{field}"

    def _refuse(self, field: str, expected: str) -> InputError:
        return InputError(f"{self._name(field)} is {shown(getattr(self, field))}: {expected}")

    def _check_sizes(self, *names: str, most: int) -> None:
        """Refuses sizes outside 1 to `most`; None is allowed."""
        for name in names:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected a whole number of at least 1")
            if value is not None and value > most:
                raise self._refuse(name, f"expected at most {most:,}")


def shown(value: Any) -> str:
    """A value as shown in an error. An integer with thousands of digits cannot be converted to text."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of about {value.bit_length() * 3 // 10:,} digits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def is_finite(value: float) -> bool:
    """Whether a number is finite as a float; an integer of 400 digits is not."""
    return value.bit_length() <= 1023 if isinstance(value, int) else math.isfinite(value)


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, choice) for choice in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(kind)[0]) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, type(None) if kind is None else kind)


def _describe(kind: Any) -> str:
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_describe(choice) for choice in get_args(kind))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return f"a tuple, each item {_describe(get_args(kind)[0])}"
    text = {int: "a whole number", float: "a finite number", bool: "True or False", str: "a string", type(None): "None"}
    return text.get(kind) or f"a {kind.__name__}"


def _flatten(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    if isinstance(value, Path):
        return str(value)
    return [_flatten(item) for item in value] if isinstance(value, tuple) else value


def _revive(value: Any, kind: Any) -> Any:
    """The inverse of `_flatten`: turns a dict into a config where the type says so, and a list into a tuple."""
    choices = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for choice in choices:
        if isinstance(value, Mapping) and isinstance(choice, type) and issubclass(choice, Config):
            return choice.from_dict(value)
        if isinstance(value, list) and get_origin(choice) is tuple:
            return tuple(_revive(item, get_args(choice)[0]) for item in value)
        if isinstance(value, str) and choice is Path:
            return Path(value)
    return value
