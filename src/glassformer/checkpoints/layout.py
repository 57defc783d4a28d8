"""The layout of a model in files: the values of its `config.json`, and a rule for each of its tensors.

A layout belongs to a family of `families/`; without a family, the files use our own names (`own_format.py`).
`read_layout.py` derives it from a `config.json`; `choose_layout.py` chooses one to save a model in.
"""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.families import Family
from glassformer.families.table import NameTable, Rule, TensorTarget, expand, known

LAST_LAYER = ("head.out.", "head.second.")  # the parameters whose shape depends on the number of classes


@dataclass(frozen=True)
class Layout:
    """The files of one model: its family, its head, and the content of its config.json."""

    values: dict[str, Any]  # of config.json
    config: TransformerConfig
    generation: dict[str, Any] = field(default_factory=dict)  # of generation_config.json
    family: Family | None = None
    head: str = "none"
    is_new_head: bool = False  # requested by the caller, and different from the file's
    file_head: str | None = None  # the kind of head in the file, if known
    file_classes: int | None = None  # its number of classes, if another number was requested
    reason: str = ""  # why no family can express the model

    def rules(self, model: Transformer, file_names: Iterable[str] | None = None) -> list[Rule]:
        """A rule for every tensor. Given the names in a file, the prefix of the base model is the one used there."""
        if self.family is None:
            return [
                Rule(name, (name,), (tuple(parameter.shape),), TensorTarget(name))
                for name, parameter in model.named_parameters()
            ]
        return expand(self._table(self._prefix(file_names)), model)

    @property
    def matrix_name(self) -> str:
        """The file's name for the matrix of the language head."""
        assert self.family is not None
        table = self.family.head(self.head).table(self.config.replace(tie_embeddings=False))
        matrix = ("head.out.weight", "head.out.*")
        return next(name.replace("*", "weight") for name, place in table.items() if place in matrix)

    def head_in(self, file_names: Iterable[str]) -> str | None:
        """The kind of head in a file, judged by its tensor names; None if it has no head."""
        assert self.family is not None
        names, prefix = list(file_names), self._prefix(file_names)
        for kind, head in self.family.heads.items():
            own = {name: place for name, place in head.table(self.config).items() if not name.startswith("^")}
            tensors = known(_prefixed(own, prefix))
            if own and any(tensors.fullmatch(name) for name in names):
                return kind
        return None

    def lacks_pooler(self, file_names: Iterable[str]) -> bool:
        """Whether the layout has a pooler and the file does not."""
        if self.family is None:
            return False  # our own files contain what their config.json says
        own = self.family.head("pool").table(self.config)
        if not own:
            return False  # this pooling has no weights
        pooler = known(_prefixed(own, self._prefix(file_names)))
        return not any(pooler.fullmatch(name) for name in file_names)

    def ignored(self, file_names: Iterable[str]) -> set[str]:
        """The tensors of a file that are ignored on purpose: those of another head, and redundant ones."""
        names = list(file_names)
        if self.family is None:
            return {name for name in names if self.is_new_head and name.startswith("head.")}
        prefix = self._prefix(names)
        needless = re.compile("|".join(map(fnmatch.translate, self.family.ignored)) or "(?!)")
        # A new head may need one stack only: then the tensors of the other are ignored.
        own = known(self.family.table(self.config) if self.is_new_head else {})
        heads = [known(_prefixed(head.table(self.config), prefix)) for head in self.family.heads.values()]

        def says_nothing(name: str) -> bool:
            bare = name.removeprefix(prefix)
            is_head = any(pattern.fullmatch(name) for pattern in heads)
            return bool(needless.fullmatch(bare) or own.fullmatch(bare) or is_head)

        return set(filter(says_nothing, names))

    def last_layer(self, rules: Iterable[Rule], file_names: Iterable[str]) -> set[str]:
        """The file's tensors for the last layer of its own head, if a new head of another kind uses the same names."""
        if self.file_head is None or self.file_head == self.head:
            return set()
        last = {rule.file for rule in rules if rule.names[0].startswith(LAST_LAYER)}
        if self.family is None:
            return last
        theirs = known(_prefixed(self.family.head(self.file_head).table(self.config), self._prefix(file_names)))
        return {name for name in last if theirs.fullmatch(name)}

    def _table(self, prefix: str) -> NameTable:
        assert self.family is not None
        base = {prefix + name: place for name, place in self.family.table(self.config).items()}
        return {**base, **_prefixed(self.family.head(self.head).table(self.config), prefix)}

    def _prefix(self, file_names: Iterable[str] | None) -> str:
        assert self.family is not None
        own = self.family.prefix_of(self.head)
        if file_names is None:
            return own
        names, pattern = list(file_names), known(self.family.table(self.config))
        candidates = dict.fromkeys([own, *(self.family.prefix_of(head) for head in self.family.heads)])
        return max(
            candidates,
            key=lambda prefix: sum(
                name.startswith(prefix) and pattern.fullmatch(name.removeprefix(prefix)) is not None for name in names
            ),
        )


def _prefixed(table: NameTable, prefix: str) -> NameTable:
    """A head's table, with the prefix added to the names marked `^`, which belong to the base model."""
    return {prefix + name[1:] if name.startswith("^") else name: place for name, place in table.items()}
