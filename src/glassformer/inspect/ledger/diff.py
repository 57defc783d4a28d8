"""The config fields in which two models differ: every architecture is a configuration of one core.

    diff(bert, llama)    stack: encoder -> decoder, decoder.norm: layer -> rms, decoder.positions: learned -> rotary

A field with a derived default, such as d_ff = 4 d_model, is listed only if one of the models overrides it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal, TypeVar

from rich.table import Table

from glassformer.config import LayerKind, RotaryScaling, StackConfig, TransformerConfig
from glassformer.errors import InputError
from glassformer.schema import OPEN, Config

Group = Literal["architecture", "sizes", "training", "tokens"]
AnyConfig = TypeVar("AnyConfig", bound=Config)

SIZE_FIELDS = {
    *("d_model", "num_layers", "num_blocks", "num_heads", "num_kv_heads", "head_dim", "d_ff", "max_len", "vocab_size"),
    *("target_vocab_size", "embed_dim", "num_classes", "num_segments", "relative_buckets", "relative_max_distance"),
    *("size", "patch", "channels", "length", "stride", "horizon", "fold", "stem"),
}
TRAINING_FIELDS = {
    *("dropout", "attention_dropout", "ffn_dropout", "embed_dropout", "head_dropout", "drop_path", "init"),
}
GROUP_TITLES: dict[Group, str] = {
    "architecture": "architecture",
    "sizes": "sizes",
    "training": "training",
    "tokens": "tokens and generation",
}


@dataclass(frozen=True)
class Change:
    """A field, given by its path in the config, and its two values."""

    path: str
    before: Any
    after: Any

    @property
    def group(self) -> Group:
        field = self.path.rpartition(".")[2]
        if self.path.startswith("generation.") or field.endswith("_token_id"):
            return "tokens"
        if field in TRAINING_FIELDS:
            return "training"
        return "sizes" if field in SIZE_FIELDS else "architecture"

    def __str__(self) -> str:
        return f"{self.path}: {readable_value(self.before)} -> {readable_value(self.after)}"


@dataclass(frozen=True)
class Diff:
    """The changes from one config to another, in the order of the fields."""

    changes: tuple[Change, ...]

    def apply(self, config: TransformerConfig) -> TransformerConfig:
        """The config with these changes. Fields derived from other fields are derived again."""
        changes = {change.path: change.after for change in self.changes}
        if "stack" in changes:
            config = other_stack(config, changes.pop("stack"))
        nested: dict[str, Any] = {}
        for path in [path for path in changes if "." in path]:
            part, field = path.split(".")
            nested.setdefault(part, {})[field] = changes.pop(path)
        for part, inside in nested.items():
            old = getattr(config, part)
            if old is None:
                raise InputError(f"cannot change {part}.{next(iter(inside))}: this config has no {part}")
            changes[part] = changed(old, inside)
        return changed(config, changes)

    def to_dict(self) -> list[dict[str, Any]]:
        return [
            {"path": c.path, "group": c.group, "before": config_json(c.before), "after": config_json(c.after)}
            for c in self.changes
        ]

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        return "\n".join(str(change) for change in self.changes) or "no difference"

    def as_table(self, before: str = "before", after: str = "after") -> Table:
        """A table for the terminal: architecture first, then sizes, then the rest."""
        table = Table("field", before, after, box=None, pad_edge=False)
        for group, title in GROUP_TITLES.items():
            found = [change for change in self.changes if change.group == group]
            if found:
                table.add_row(title, style="bold")
            for change in found:
                table.add_row(f"  {change.path}", readable_value(change.before), readable_value(change.after))
        if not self.changes:
            table.add_row("no difference")
        return table


def diff(a: TransformerConfig, b: TransformerConfig) -> Diff:
    """The fields that turn `a` into `b`: `diff(a, b).apply(a) == b`."""
    for config in (a, b):
        if not isinstance(config, TransformerConfig):
            kind = type(config).__name__
            raise InputError(f"a config has type {kind}: expected two TransformerConfigs, such as model.config")
    changes = []
    own, other = only_stack(a), only_stack(b)
    if own and other and own != other and not (a.patches or b.patches):  # a decoder cannot read patches
        changes.append(Change("stack", own, other))
        a = other_stack(a, other)
    return Diff((*changes, *differences(a, b)))


def differences(a: Config, b: Config, prefix: str = "") -> Iterator[Change]:
    """Yields the fields that differ. Configs inside a config are compared field by field."""
    for entry in fields(a):
        path, before, after = prefix + entry.name, getattr(a, entry.name), getattr(b, entry.name)
        if isinstance(before, Config) and isinstance(after, Config):
            yield from differences(before, after, f"{path}.")
        elif entry.name in derived_fields(a):
            if entry.name not in derived_fields(b):
                yield Change(path, before, after)
        elif before != after:
            yield Change(path, before, after)


def changed(config: AnyConfig, changes: dict[str, Any]) -> AnyConfig:
    """A copy with some fields changed. Fields that have their derived default are derived again."""
    return replace(config, **{**dict.fromkeys(derived_fields(config)), **changes})


@lru_cache(maxsize=256)
def derived_fields(config: Config) -> frozenset[str]:
    """The fields that have the default derived from other fields."""

    def follows(name: str) -> bool:
        try:
            return bool(getattr(replace(config, **{name: OPEN}), name) == getattr(config, name))
        except InputError:  # an explicit head_dim, where num_heads does not divide d_model
            return False

    # Where a field's type allows None, None is a value and not an open field.
    may_be_open = [e.name for e in fields(config) if e.default is OPEN and getattr(config, e.name) is not None]
    return frozenset(name for name in may_be_open if follows(name))


def only_stack(config: TransformerConfig) -> str | None:
    """The name of the stack if there is only one, else None."""
    if config.encoder and config.decoder:
        return None
    return "encoder" if config.encoder else "decoder"


def other_stack(config: TransformerConfig, stack: str) -> TransformerConfig:
    """Moves the only stack to the other place: a decoder is an encoder that does not look ahead."""
    if only_stack(config) in (None, stack):
        raise InputError(f"cannot turn the only stack into the {stack}: this config has {describe_stacks(config)}")
    return replace(config, encoder=config.decoder, decoder=config.encoder)


def describe_stacks(config: TransformerConfig) -> str:
    return " and ".join(name for name in ("encoder", "decoder") if getattr(config, name))


def config_json(value: Any) -> Any:
    """The value in a form that JSON can hold."""
    if isinstance(value, Config):
        return value.to_dict()
    return [config_json(item) for item in value] if isinstance(value, tuple) else value


def readable_value(value: Any) -> str:
    """A value in short form, on one line."""
    if isinstance(value, StackConfig):
        layers = "1 layer" if value.num_layers == 1 else f"{value.num_layers} layers"
        heads = "1 head" if value.num_heads == 1 else f"{value.num_heads} heads"
        return f"{layers}, d_model {value.d_model}, {heads}, d_ff {value.d_ff}"
    if isinstance(value, LayerKind | RotaryScaling):
        usual = LayerKind() if isinstance(value, LayerKind) else RotaryScaling(type=value.type)
        inside = [
            f"{entry.name} {readable_value(getattr(value, entry.name))}"
            for entry in fields(value)
            if entry.name == "type" or getattr(value, entry.name) != getattr(usual, entry.name)
        ]
        return ", ".join(inside) or "full"
    if isinstance(value, Config):
        return ", ".join(f"{entry.name} {readable_value(getattr(value, entry.name))}" for entry in fields(value))
    if isinstance(value, tuple):
        return pattern_in_words([readable_value(item) for item in value])
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def pattern_in_words(items: list[str]) -> str:
    """Joins the items: equal neighbours once with their count, long lists by their ends only."""
    runs: list[tuple[str, int]] = []
    for item in items:
        if runs and runs[-1][0] == item:
            runs[-1] = (item, runs[-1][1] + 1)
        else:
            runs.append((item, 1))
    said = [item if number == 1 else f"{number} x ({item})" for item, number in runs]
    return "; ".join(said if len(said) <= 8 else [*said[:3], "...", *said[-3:]])
