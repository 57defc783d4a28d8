"""The contents of a family's page, as typed objects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from glassformer.config import TransformerConfig
from glassformer.families.keys import Keys
from glassformer.families.table import NameTable


@dataclass(frozen=True)
class TransformersHead:
    """A head in transformers: its class, its table of weight names, and our settings for it."""

    architecture: str
    weights: NameTable | Callable[[TransformerConfig], NameTable] = field(default_factory=dict)
    choices: Mapping[str, Any] = field(default_factory=dict)
    prefix: str | None = None  # prefix of the headless model's names; None: the family's prefix

    def table(self, config: TransformerConfig) -> NameTable:
        return self.weights(config) if callable(self.weights) else self.weights


@dataclass(frozen=True)
class Sides:
    """The `config.json` of each side of a pair, and the initial scale."""

    text: dict[str, Any]
    image: dict[str, Any]
    scale: float


@dataclass(frozen=True)
class PairFamily:
    """The page of a pair; each side also has a page of its own."""

    model_type: str
    architecture: str
    scale: str  # the scale's name in files
    sides: Callable[[Keys], Sides]
    describe: Callable[[Sides], dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """The page of one family."""

    name: str
    config: Callable[[Keys], TransformerConfig]
    weights: NameTable | Callable[[TransformerConfig], NameTable]
    heads: Mapping[str, TransformersHead]
    prefix: str = ""
    ignored: tuple[str, ...] = ()
    reads: Mapping[str, str] = field(default_factory=dict)
    translates: bool = False
    fixed_tokens: tuple[str, ...] = ()
    resembles: Callable[[TransformerConfig], bool] = lambda config: False
    describe: Callable[[TransformerConfig], dict[str, Any]] | None = None
    saved_form: Callable[[TransformerConfig], TransformerConfig] = lambda config: config
    saved_weights: Callable[[TransformerConfig, dict[str, Tensor]], dict[str, Tensor]] = lambda config, weights: weights

    def table(self, config: TransformerConfig) -> NameTable:
        """The table of the model without a head; in some families it depends on the config."""
        return self.weights(config) if callable(self.weights) else self.weights

    def kind_of(self, architecture: str | None) -> str | None:
        """The kind of head of a transformers class."""
        for kind, head in self.heads.items():
            if head.architecture == architecture:
                return kind
        return self.reads.get(architecture or "")

    def head(self, kind: str) -> TransformersHead:
        """The head of a kind; "none" works for every family."""
        return self.heads.get(kind) or TransformersHead(
            (self.heads.get(self.base) or next(iter(self.heads.values()))).architecture
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.heads, "none"]))

    @property
    def base(self) -> str:
        """The kind of the model without a head."""
        return "pool" if "pool" in self.heads else "none"

    def prefix_of(self, kind: str) -> str:
        """The prefix of the names in `weights` in a file with this head."""
        if kind in (self.base, "none"):
            return ""
        own = self.head(kind).prefix
        return self.prefix if own is None else own
