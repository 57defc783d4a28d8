"""Weight tables: a family's weight names, used for both loading and saving.

    weights = {
        "wte.weight": "decoder.embed.tokens.weight",                      # renamed
        "h.{i}.ln_1.*": "decoder.blocks.{i}.attn_norm.*",                 # for every block, weight and bias
        "h.{i}.attn.c_attn.*": split("decoder.blocks.{i}.attn.{q,k,v}.*", transposed=True),
    }

On the left is the name in the file, on the right the parameter (or parameters) here. An entry is skipped only if the
model does not have its parameters, for example biases. Every parameter must appear in exactly one entry.
Read next: any page of `families/`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.core.model import Transformer
from glassformer.errors import InputError


@dataclass(frozen=True)
class TensorTarget:
    """The parameters that a file's tensor becomes, and how its layout differs."""

    names: str
    transposed: bool = False  # stored (in, out) instead of (out, in)
    by_group: bool = False  # rows stored per group of heads: q.. k v q.. k v, instead of all q, all k, all v
    leading: bool = False  # stored with a leading axis of size 1
    squeezed: bool = False  # stored without its axes of size 1
    zero_if_absent: bool = False
    fixed: bool = False  # written for other libraries, never read: computed, or a second name of a parameter
    zeros: bool = False  # fixed, and written as zeros in the parameter's shape: expected by others, but unused


def split(names: str, *, transposed: bool = False, by_group: bool = False) -> TensorTarget:
    """One tensor of the file holds the rows of several parameters: `attn.{q,k,v}.*`."""
    return TensorTarget(names, transposed=transposed, by_group=by_group)


def transposed(name: str) -> TensorTarget:
    return TensorTarget(name, transposed=True)


def leading(name: str, *, zero_if_absent: bool = False) -> TensorTarget:
    return TensorTarget(name, leading=True, zero_if_absent=zero_if_absent)


def squeezed(name: str) -> TensorTarget:
    return TensorTarget(name, squeezed=True)


def fixed(name: str) -> TensorTarget:
    return TensorTarget(name, fixed=True)


def zeros(like: str) -> TensorTarget:
    return TensorTarget(like, fixed=True, zeros=True)


NameTable = Mapping[str, str | TensorTarget]


def prefixed(prefix: str, table: NameTable, *, stack: str | None = None) -> NameTable:
    """The table of a model inside another: `prefix` is added to its names in files. `stack` renames its only stack,
    where that is another one in the larger model."""

    def moved(names: str) -> str:
        return names if stack is None else re.sub("^(encoder|decoder)[.]", f"{stack}.", names)

    return {
        prefix + name.removeprefix("^"): (
            moved(place) if isinstance(place, str) else replace(place, names=moved(place.names))
        )
        for name, place in table.items()
    }


@dataclass(frozen=True)
class Rule:
    """A table entry applied to one tensor of a file: its name there, the parameters here, and the conversion."""

    file: str
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    place: TensorTarget
    groups: int = 1  # number of kv heads, where rows are stored per group

    @property
    def file_shape(self) -> tuple[int, ...]:
        """The expected shape of the file's tensor."""
        shape = self.shapes[0]
        if len(self.shapes) > 1:
            shape = (sum(rows for rows, *_ in self.shapes), *shape[1:])
        if self.place.transposed:
            shape = shape[::-1]
        if self.place.squeezed:
            return tuple(size for size in shape if size != 1)
        return (1, *shape) if self.place.leading else shape

    def read(self, tensor: Tensor) -> list[Tensor]:
        """Converts the file's tensor into our parameters, as views where possible."""
        tensor = tensor[0] if self.place.leading else tensor
        if self.place.transposed and tensor.ndim == 2:
            tensor = tensor.t()
        if len(self.names) == 1:
            return [tensor.reshape(self.shapes[0]) if self.place.squeezed else tensor]
        if not self.place.by_group:
            return list(tensor.split([shape[0] for shape in self.shapes]))
        grouped = tensor.unflatten(0, (self.groups, -1))
        parts = grouped.split([shape[0] // self.groups for shape in self.shapes], dim=1)
        return [part.flatten(0, 1) for part in parts]

    def write(self, tensors: list[Tensor]) -> Tensor:
        """The inverse of `read`."""
        if self.place.by_group:
            tensors = [tensor.unflatten(0, (self.groups, -1)) for tensor in tensors]
            tensor = torch.cat(tensors, dim=1).flatten(0, 1)
        else:
            tensor = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        if self.place.transposed and tensor.ndim == 2:
            tensor = tensor.t()
        tensor = tensor.reshape(self.file_shape) if self.place.squeezed else tensor
        tensor = (tensor[None] if self.place.leading else tensor).contiguous()
        if self.place.zeros:
            return torch.zeros_like(tensor)
        return tensor.clone() if self.place.fixed else tensor  # two names must not share memory in a file


def expand(table: NameTable, model: Transformer) -> list[Rule]:
    """The rules of a table for this model: one per tensor of the file, each parameter in exactly one rule."""
    parameters = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    rules = [rule for file, place in table.items() for rule in _rules(file, place, model, parameters)]
    named = [name for rule in rules for name in rule.names if not rule.place.fixed]
    lost = sorted(dict(model.named_parameters()).keys() - set(named))
    double = sorted({name for name in named if named.count(name) > 1}) if len(named) > len(set(named)) else []
    if lost or double:
        raise AssertionError(f"the family's table omits {lost} and lists more than once {double}")
    return rules


def _rules(file: str, place: str | TensorTarget, model: Transformer, parameters: Mapping[str, Tensor]) -> list[Rule]:
    place = TensorTarget(place) if isinstance(place, str) else place
    stack = model.config.encoder if place.names.startswith("encoder.") else model.config.decoder
    found = []
    for block in range(stack.num_blocks if stack and "{i}" in place.names else 1):
        for leaf in ("weight", "bias") if "*" in place.names else ("",):
            one_file, one_place = (text.replace("{i}", str(block)).replace("*", leaf) for text in (file, place.names))
            names = _alternatives(one_place)
            present = [name for name in names if name in parameters]
            if present and len(present) < len(names):
                raise AssertionError(f"{one_file} is split into {names}, but the model has only {present}")
            if present:
                shapes = tuple(tuple(parameters[name].shape) for name in names)
                groups = stack.num_kv_heads if stack and place.by_group else 1
                found.append(Rule(one_file, tuple(names), shapes, place, groups))
    return found


def _alternatives(text: str) -> list[str]:
    """`attn.{q,k}.weight` -> `attn.q.weight`, `attn.k.weight`."""
    braces = re.search(r"\{([^}]*)\}", text)
    if braces is None:
        return [text]
    return [text[: braces.start()] + choice + text[braces.end() :] for choice in braces[1].split(",")]


def known(table: NameTable) -> re.Pattern[str]:
    """Matches every file name in a table, whether or not this model has the parameter."""
    escaped = (re.escape(name).replace(r"\{i\}", r"\d+").replace(r"\*", "(weight|bias)") for name in table)
    return re.compile("|".join(escaped) or "(?!)")


def check(rules: list[Rule], shapes: Mapping[str, tuple[int, ...]], *, may_lack: set[str], origin: str) -> None:
    """Checks that every rule finds a tensor of the right shape. `shapes` lists the file's tensors, except ignored."""
    wrong = []
    used = set()
    for rule in rules:
        used.add(rule.file)
        if rule.file not in shapes:
            optional = rule.place.zero_if_absent or rule.place.fixed
            if not optional and not may_lack.issuperset(rule.names):
                wrong.append(f"missing     {rule.file} {rule.file_shape}, for {', '.join(rule.names)}")
        elif shapes[rule.file] != rule.file_shape:
            wrong.append(
                f"misshapen   {rule.file}: the file has {shapes[rule.file]}, the config asks for {rule.file_shape}"
            )
    wrong += [f"unexpected  {name} {shapes[name]}" for name in sorted(shapes.keys() - used)]
    if wrong:
        shown = wrong if len(wrong) <= 20 else [*wrong[:20], f"... and {len(wrong) - 20} more"]
        raise InputError(
            f"{origin} does not fit its config.json:\n  " + "\n  ".join(shown) + "\nIs this the right config.json? "
            "To add a new head to weights without one, name it: gf.load(path, head=...)"
        )


def assign(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Replaces parameters by tensors; a shared parameter is replaced everywhere."""
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for leaf, parameter in module.named_parameters(recurse=False):
            places.setdefault(id(parameter), []).append((module, leaf))
    for name, old in dict(model.named_parameters()).items():
        if name in values:
            new = nn.Parameter(values[name])
            for module, leaf in places[id(old)]:
                setattr(module, leaf, new)
