"""How a model is laid out in files: the values of its `config.json`, and a rule for each of its tensors.

`layout_of` reads it from a `config.json`; `layout_for` finds one for a model that is to be saved. Either way a layout
belongs to a family of `families/`, or to nobody, and then the files use our own names.
"""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints.labels import KEYS as LABELS
from glassformer.checkpoints.labels import labels_in, unnamed
from glassformer.config import GenerationConfig, LayerKind, StackConfig, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError, nearest
from glassformer.families import FAMILIES, Family
from glassformer.families.keys import TOKENS, Keys, token_ids
from glassformer.families.table import Place, Rule, Table, expand, known
from glassformer.version import __version__

OWN = "glassformer"
LAST_LAYER = ("head.out.", "head.second.")  # what depends on the number of classes
OWN_KEYS = ("model_type", "glassformer_version", "architectures", *LABELS)


@dataclass(frozen=True)
class Layout:
    """The files of one model: its family, the head it has, and what stands in its config.json."""

    values: dict[str, Any]  # of config.json
    config: TransformerConfig
    generation: dict[str, Any] = field(default_factory=dict)  # of generation_config.json
    family: Family | None = None
    head: str = "none"
    is_new_head: bool = False  # asked for by name, and not the file's own
    file_head: str | None = None  # the kind of head in the file, where it says
    reason: str = ""  # why no family expresses it

    def rules(self, model: Transformer, file_names: Iterable[str] | None = None) -> list[Rule]:
        """A rule for every tensor. Given the names in a file, the base model's prefix is taken as it is found there."""
        if self.family is None:
            return [
                Rule(name, (name,), (tuple(parameter.shape),), Place(name))
                for name, parameter in model.named_parameters()
            ]
        return expand(self._table(self._prefix(file_names)), model)

    @property
    def matrix_name(self) -> str:
        """What the file calls the language head's matrix."""
        assert self.family is not None
        table = self.family.head(self.head).table(self.config.replace(tie_embeddings=False))
        for name, place in table.items():
            if place in ("head.out.weight", "head.out.*"):
                return name.replace("*", "weight")
        return ""

    def head_in(self, file_names: Iterable[str]) -> str | None:
        """The kind of head that a file has by the names in it; None if they are those of no head."""
        assert self.family is not None
        names, prefix = list(file_names), self._prefix(file_names)
        for kind, head in self.family.heads.items():
            own = {name: place for name, place in head.table(self.config).items() if not name.startswith("^")}
            tensors = known(_prefixed(own, prefix))
            if own and any(tensors.fullmatch(name) for name in names):
                return kind
        return None

    def lacks_pooler(self, file_names: Iterable[str]) -> bool:
        """Whether this is a base model that pools, and the file is of one that does not."""
        if self.family is None or self.head != "pool":
            return False
        pooler = known(_prefixed(self.family.head("pool").table(self.config), self._prefix(file_names)))
        return not any(pooler.fullmatch(name) for name in file_names)

    def ignores(self, name: str, file_names: Iterable[str]) -> bool:
        """Whether a tensor of a file is left out on purpose: another head's, or one that says nothing new."""
        if self.family is None:
            return self.is_new_head and name.startswith("head.")
        prefix = self._prefix(file_names)
        bare = name.removeprefix(prefix)
        if any(fnmatch.fnmatchcase(bare, pattern) for pattern in self.family.ignored):
            return True
        if self.is_new_head and known(self.family.table(self.config)).fullmatch(bare):
            return True  # a stack that this head does without
        return any(
            known(_prefixed(head.table(self.config), prefix)).fullmatch(name) is not None
            for head in self.family.heads.values()
        )

    def last_layer(self, rules: Iterable[Rule], file_names: Iterable[str]) -> set[str]:
        """What the file calls the last layer of its own head, where a new one of another kind has the same name."""
        if self.file_head is None or self.file_head == self.head:
            return set()
        last = {rule.file for rule in rules if rule.names[0].startswith(LAST_LAYER)}
        if self.family is None:
            return last
        theirs = known(_prefixed(self.family.head(self.file_head).table(self.config), self._prefix(file_names)))
        return {name for name in last if theirs.fullmatch(name)}

    def _table(self, prefix: str) -> Table:
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


def _prefixed(table: Table, prefix: str) -> Table:
    """A head's table, with the prefix before the names that belong to the base model: those marked `^`."""
    return {prefix + name[1:] if name.startswith("^") else name: place for name, place in table.items()}


def layout_of(
    values: Mapping[str, Any],
    generation: Mapping[str, Any] | None = None,
    *,
    name: str,
    head: str | None = None,
    num_classes: int | None = None,
) -> Layout:
    """The layout that a `config.json` describes, with another head if one is asked for.

    `generation` is what stands in `generation_config.json`; without one, older files say it in `config.json`.
    """
    if num_classes is not None and num_classes < 1:
        raise InputError(f"num_classes is {num_classes}: expected a whole number of at least 1")
    model_type = values.get("model_type")
    if model_type == OWN:
        return own_layout(values, name=name, head=head, num_classes=num_classes)
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise InputError(
            f"{name}: model_type is {model_type!r}, which is not known{nearest(str(model_type), [*FAMILIES, OWN])}"
        )
    if values.get("quantization_config"):
        raise InputError(f"{name}: these weights are quantised (quantization_config); load the full ones")
    family = FAMILIES[model_type]
    names = values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(entry, str) for entry in names):
        raise InputError(f"{name}: architectures is {names!r}: expected a list with the name of a class")
    written = names[0] if names else None
    own_head = family.kind_of(written) if written else family.base
    if head is not None and head not in family.kinds:
        raise InputError(f"head is {head!r}, and a {model_type!r} model has none such{nearest(head, family.kinds)}")
    wanted = head or own_head
    if wanted is None:
        raise InputError(
            f"{name}: architectures is {written!r}, which is not known. Load it with a head by name, one of "
            f"{', '.join(family.heads)}: gf.load(path, head={family.base!r})"
        )
    is_new_head = wanted != own_head
    chosen = dict(values)
    if num_classes is not None and num_classes != Keys(values, name=name).num_classes:
        chosen = {**chosen, **unnamed(num_classes)}
        for key in ("num_labels", "problem_type"):  # older files say the number twice; the problem was another
            chosen.pop(key, None)
        is_new_head = True
    if wanted == "span" and is_new_head:
        chosen = {**chosen, **unnamed(2)}  # where it begins, where it ends
        chosen.pop("num_labels", None)
    chosen["architectures"] = [family.head(wanted).architecture]
    config = family_config(family, chosen, wanted, name)
    if num_classes is not None and config.num_classes != num_classes:
        raise InputError(f"num_classes is {num_classes}, and a {wanted!r} head has no classes; ask for head='class'")
    if config.head == "language" and config.decoder is not None:
        config = with_generation(config, values, generation, name)
    return Layout(chosen, config, dict(generation or {}), family, wanted, is_new_head, own_head if written else None)


# What generates otherwise and is not known here, with the values that change nothing.
UNKNOWN_GENERATION: dict[str, tuple[Any, ...]] = {
    "typical_p": (1.0,), "epsilon_cutoff": (0.0,), "eta_cutoff": (0.0,), "top_h": (), "num_beam_groups": (1,),
    "diversity_penalty": (0.0,), "penalty_alpha": (0.0,), "encoder_repetition_penalty": (1.0,),
    "encoder_no_repeat_ngram_size": (0,), "begin_suppress_tokens": ([],), "exponential_decay_length_penalty": (),
    "sequence_bias": (), "guidance_scale": (1.0,), "watermarking_config": (), "stop_strings": (), "dola_layers": (),
    "force_words_ids": (), "constraints": (),
}  # fmt: skip


def with_generation(
    config: TransformerConfig, values: Mapping[str, Any], generation: Mapping[str, Any] | None, name: str
) -> TransformerConfig:
    """A config that generates as its files say; what they say of special tokens there goes before `config.json`."""
    if generation is not None:
        name = name.replace("config.json", "generation_config.json")
    given = values if generation is None else generation
    for key, harmless in UNKNOWN_GENERATION.items():
        if given.get(key) is not None and given[key] not in harmless:
            raise InputError(f"{name}: {key} is {given[key]!r}, which is not known here. Remove it to go without")
    settings = {
        entry.name: given[entry.name] for entry in fields(GenerationConfig) if given.get(entry.name) is not None
    }
    tokens = {key: token_ids(given.get(key), values) for key in TOKENS}
    tokens = {key: value for key, value in tokens.items() if value is not None}
    try:
        return config.replace(generation=GenerationConfig.from_dict(settings), **tokens)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def generation_values(layout: Layout) -> dict[str, Any]:
    """What stands in `generation_config.json`: what it had, with the model's own settings."""
    default, config = GenerationConfig(), layout.config
    tokens = {key: getattr(config, key) for key in TOKENS if getattr(config, key) is not None}
    settings = {
        key: value
        for key, value in config.generation.to_dict().items()
        if key in layout.generation or value != default.to_dict()[key]
    }
    return {**layout.generation, **settings, **{key: _plain(value) for key, value in tokens.items()}}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def family_config(family: Family, values: Mapping[str, Any], head: str, name: str) -> TransformerConfig:
    """A family's reading of a config.json, in which no key may be left over."""
    kind = head.partition("_")[0]  # the core has one class head, whatever a family makes of it
    hf = Keys(values, name=name, head=kind, choices=family.head(head).choices)
    for key in ("is_decoder", "add_cross_attention"):
        hf.expect(key, False)
    hf.expect("pruned_heads", {})
    try:
        config = family.config(hf)
    except InputError as error:
        raise error if str(error).startswith(name) else InputError(f"{name}: {error}") from None
    hf.finish()
    return config


def own_layout(values: Mapping[str, Any], *, name: str, head: str | None, num_classes: int | None) -> Layout:
    plain = {key: value for key, value in values.items() if key not in OWN_KEYS}
    try:
        config = chosen = TransformerConfig.from_dict(plain)
        if head not in (None, config.head):  # what only the old head was told, the new one is not
            chosen = config.replace(head=head, num_classes=num_classes, head_bias=None, two_classifiers=False)
        elif num_classes is not None:
            chosen = config.replace(num_classes=num_classes)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    is_new = chosen != config
    written = own_values(chosen, {} if is_new else labels_in(values))
    return Layout(written, chosen, head=chosen.head, is_new_head=is_new, file_head=config.head)


def own_values(config: TransformerConfig, labels: Mapping[str, Any]) -> dict[str, Any]:
    header = {"model_type": OWN, "glassformer_version": __version__, "architectures": ["Transformer"]}
    return {**header, **config.to_dict(), **labels}


def layout_for(model: Transformer) -> Layout:
    """How to save a model: as the family it came from or is built like, or under our own names."""
    ours, files = model.config, model.origin
    if not files:
        files = {"config.json": described(ours), "generation_config.json": {}}
        ours = marian_form(ours) if nearest_type(ours) == "marian" else ours
    values = {**files["config.json"], **model.labels}
    try:
        layout = layout_of(values, files.get("generation_config.json"), name="its config.json")
    except InputError as error:
        if model.origin:
            raise
        return own_form(model, str(error))
    if (layout.head, ours.head) == ("pool", "none"):  # of the same class, without its pooler
        layout = layout_of(values, name="its config.json", head="none")
    layout = replace(layout, config=with_same_freedom(layout.config, ours, is_new=not model.origin))
    difference = first_difference(layout.config.to_dict(), ours.to_dict())
    if difference is None:
        return layout
    name, theirs, value = difference
    is_so = f"{name} is given" if isinstance(value, dict) else f"{name} is {value!r}"
    has = "one" if isinstance(theirs, dict) else repr(theirs)
    return own_form(model, f"{is_so}, where a {layout.values['model_type']} model has {has}")


def nearest_type(config: TransformerConfig) -> str:
    """The family that a model made here is built like, by its shape."""
    stack = config.last_stack
    if config.decoder:
        if config.encoder:
            return "marian"
        if stack.positions != "rotary" and stack.norm == "layer":
            return "gpt2"
        return "qwen3" if stack.qk_norm else "llama"
    if config.patches:
        return "vit" if config.image else "patchtst"
    return "bert" if stack.norm_order == "post" else "modernbert"


def described(config: TransformerConfig) -> dict[str, Any]:
    """The config.json of that family which comes nearest to a model."""
    model_type = nearest_type(config)
    family = FAMILIES[model_type]
    assert family.describe is not None
    head = config.head if config.head in family.kinds else list(family.heads)[-1]
    tokens = {key: _plain(getattr(config, key)) for key in TOKENS} if config.reads_tokens else {}
    return {
        "model_type": model_type,
        "architectures": [family.head(head).architecture],
        **tokens,
        "tie_word_embeddings": config.tie_embeddings,
        **(unnamed(config.num_classes) if config.num_classes else {}),
        **family.describe(config),
    }


TRAINING = ("dropout", "attention_dropout", "ffn_dropout", "embed_dropout", "drop_path")


def with_same_freedom(theirs: TransformerConfig, ours: TransformerConfig, *, is_new: bool) -> TransformerConfig:
    """A family's config with what may differ as it is in ours.

    How a model generates is written beside the config; how it was trained says nothing about what it computes. Whether
    the head is tied is seen in the file, which stores a matrix of its own; only a file that is newly described says it
    too. What reads patches has as many positions as there are patches, and no special tokens.
    """
    names = ["generation", "init", "head_dropout", *([] if is_new else ["tie_embeddings"])]
    names += [] if ours.reads_tokens else TOKENS
    free: dict[str, Any] = {name: getattr(ours, name) for name in names}
    for name in ("encoder", "decoder"):
        stack, other = getattr(ours, name), getattr(theirs, name)
        if stack and other:
            same = {field: getattr(stack, field) for field in TRAINING}
            if every_kind(stack) == every_kind(other):
                same["layer_kinds"] = stack.layer_kinds
            if ours.patches and name == "encoder":
                same["max_len"] = stack.max_len
            free[name] = other.replace(**same)
    return theirs.replace(**free)


def every_kind(stack: StackConfig) -> list[LayerKind]:
    """The kind of each layer: a pattern may be written in more than one way."""
    return [stack.layer_kinds[layer % len(stack.layer_kinds)] for layer in range(stack.num_layers)]


def own_form(model: Transformer, reason: str) -> Layout:
    config = model.config
    return Layout(own_values(config, model.labels), config, head=config.head, reason=reason)


def marian_form(config: TransformerConfig) -> TransformerConfig:
    """An original Transformer as Marian's files express it: sinusoids in halves, a bias (of zeros) on the logits."""
    if config.head != "language":
        return config
    halves = {
        name: stack.replace(sinusoids="halves") if stack.sinusoids == "interleaved" else stack
        for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))
        if stack is not None
    }
    return config.replace(**halves, head_bias=True)


def stored_values(model: Transformer, layout: Layout) -> dict[str, Tensor]:
    """The parameters of a model by name, as its layout stores them.

    Where that means halves for a model of interleaved sinusoids, every axis of width d_model is permuted alike, so
    what is stored computes the same.
    """
    values = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if layout.family is None or layout.family.name != "marian" or model.origin:
        return values
    width = model.config.last_stack.d_model
    if model.config.last_stack.sinusoids == "interleaved":
        order = torch.tensor([*range(0, width, 2), *range(1, width, 2)])
        values = {name: _permuted(name, value, order) for name, value in values.items()}
    first = next(iter(values.values()))
    return {"head.out.bias": first.new_zeros(model.config.output_vocab_size), **values}


def _permuted(name: str, value: Tensor, order: Tensor) -> Tensor:
    """Permutes the axis that reads or writes the stream: columns of what reads it, rows of what writes it."""
    module, leaf = name.split(".")[-2:]
    if module in ("tokens", "q", "k", "v", "up") or name == "head.out.weight":
        return value[:, order] if leaf == "weight" and value.ndim == 2 else value
    return value if name == "head.out.bias" else value[order]


def first_difference(theirs: Any, ours: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """The first field in which two configs differ: its name, and both values."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        both_nested = {key: isinstance(ours[key], dict) and isinstance(theirs.get(key), dict) for key in ours}
        for key in sorted(
            ours, key=both_nested.__getitem__
        ):  # a head or a stack too many says more than a detail of one
            found = first_difference(theirs.get(key), ours[key], f"{path}.{key}" if path else key)
            if found is not None:
                return found
        return None
    return None if theirs == ours else (path, theirs, ours)
