"""Chooses the layout to save a model in: that of its family or of the most similar one, or else our own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.checkpoints.generation_file import generation_json
from glassformer.checkpoints.labels import unnamed
from glassformer.checkpoints.layout import Layout
from glassformer.checkpoints.own_format import own_form
from glassformer.checkpoints.read_layout import layout_of
from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.families import FAMILIES, nearest_type
from glassformer.families.keys import TOKEN_ID_KEYS

NAME = "its config.json"


def layout_for(model: Transformer) -> Layout:
    """The layout to save a model in. Its config is the model's, or an equivalent one that the family's files use."""
    is_new = not model.about.settings
    settings = nearest_description(model.config) if is_new else model.about.settings
    values = {**settings, **model.about.classes}
    ours = FAMILIES[values["model_type"]].saved_form(model.config) if is_new else model.config
    try:
        layout = with_head_of(ours, values, model.about.generation or None)
    except InputError as error:
        if not is_new:
            raise
        return own_form(model, str(error))
    layout = replace(layout, config=with_free_fields_of(layout.config, ours, is_new=is_new))
    difference = first_difference(layout.config.to_dict(), ours.to_dict())
    if difference is None:
        return layout
    name, theirs, value = difference
    is_so = f"{name} is given" if isinstance(value, dict) else f"{name} is {value!r}"
    has = "one" if isinstance(theirs, dict) else repr(theirs)
    return own_form(model, f"{is_so}, where a {layout.values['model_type']} model has {has}")


def with_head_of(config: TransformerConfig, values: Mapping[str, Any], generation: Mapping[str, Any] | None) -> Layout:
    """The layout of these values, without the pooler of a pooling class if the model has none."""
    layout = layout_of(values, generation, name=NAME)
    return layout_of(values, name=NAME, head="none") if (layout.head, config.head) == ("pool", "none") else layout


def nearest_description(config: TransformerConfig) -> dict[str, Any]:
    """The most similar config.json for a model made here, from the family with the same architecture."""
    model_type = nearest_type(config)
    family = FAMILIES[model_type]
    assert family.describe is not None
    head = config.head if config.head in family.kinds else list(family.heads)[-1]
    tokens = {key: generation_json(getattr(config, key)) for key in TOKEN_ID_KEYS} if config.reads_tokens else {}
    return {
        "model_type": model_type,
        "architectures": [family.head(head).architecture],
        **tokens,
        "tie_word_embeddings": config.tie_embeddings,
        **(unnamed(config.num_classes) if config.num_classes else {}),
        **family.describe(config),
    }


TRAINING_FIELDS = ("dropout", "attention_dropout", "ffn_dropout", "embed_dropout", "drop_path")


def with_free_fields_of(theirs: TransformerConfig, ours: TransformerConfig, *, is_new: bool) -> TransformerConfig:
    """The family's config, with the fields that may differ taken from ours.

    Generation settings are in a separate file, and training settings (dropout, init) do not change what a model
    computes. Whether the head is tied shows in the weights, which then hold one matrix; only a new config.json states
    it too. A model that reads patches has one position per patch and no special tokens.
    """
    names = ["generation", "init", "head_dropout", *([] if is_new else ["tie_embeddings"])]
    names += [] if ours.reads_tokens else TOKEN_ID_KEYS
    free: dict[str, Any] = {name: getattr(ours, name) for name in names}
    for name in ("encoder", "decoder"):
        stack, other = getattr(ours, name), getattr(theirs, name)
        if stack and other:
            same = {field: getattr(stack, field) for field in TRAINING_FIELDS}
            if stack.every_kind == other.every_kind:  # different patterns may describe the same layers
                same["layer_kinds"] = stack.layer_kinds
            if ours.patches and name == "encoder":
                same["max_len"] = stack.max_len
            free[name] = other.replace(**same)
    return theirs.replace(**free)


def first_difference(theirs: Any, ours: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """The first field in which two configs differ: its name, and both values."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        both_nested = {key: isinstance(ours[key], dict) and isinstance(theirs.get(key), dict) for key in ours}
        # A missing stack or another head says more than a detail inside a stack, so nested configs come last.
        for key in sorted(ours, key=both_nested.__getitem__):
            found = first_difference(theirs.get(key), ours[key], f"{path}.{key}" if path else key)
            if found is not None:
                return found
        return None
    return None if theirs == ours else (path, theirs, ours)
