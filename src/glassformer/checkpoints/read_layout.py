"""Derives a model's layout from its `config.json`, with the rules of its family. Unknown keys are an error."""

from collections.abc import Mapping
from typing import Any

from glassformer.checkpoints.generation_file import with_generation
from glassformer.checkpoints.labels import unnamed
from glassformer.checkpoints.layout import Layout
from glassformer.checkpoints.own_format import OWN, own_layout
from glassformer.config import TransformerConfig
from glassformer.errors import InputError, did_you_mean
from glassformer.families import FAMILIES, PAIR_FAMILIES, REFUSED, Family
from glassformer.families.keys import Keys


def layout_of(
    values: Mapping[str, Any],
    generation: Mapping[str, Any] | None = None,
    *,
    name: str,
    head: str | None = None,
    num_classes: int | None = None,
) -> Layout:
    """The layout that a `config.json` describes, with another head if requested.

    `generation` is the content of `generation_config.json`; older models have these settings in `config.json`.
    """
    if num_classes is not None and num_classes < 1:
        raise InputError(f"num_classes is {num_classes}: expected a whole number of at least 1")
    if values.get("model_type") == OWN:
        return own_layout(values, name=name, head=head, num_classes=num_classes)
    family, written = family_of(values, name), architecture_in(values, name)
    file_head = family.kind_of(written) if written else family.base
    wanted = wanted_head(family, values, head or file_head, written, name)
    file_classes = None if num_classes is None else Keys(values, name=name).num_classes
    is_new_head = wanted != file_head or num_classes != file_classes
    chosen = {**values, "architectures": [family.head(wanted).architecture]}
    if num_classes is not None and num_classes != file_classes:
        chosen = with_classes(chosen, num_classes)
    if wanted == "span" and is_new_head:
        chosen = with_classes(chosen, 2)  # start and end
    config = family_config(family, chosen, wanted, name)
    if num_classes is not None and config.num_classes != num_classes:
        raise InputError(f"num_classes is {num_classes}, but head {wanted!r} has no classes: give head='class'")
    if config.head == "language" and config.decoder is not None:
        config = with_generation(config, values, generation, name, fixed=family.fixed_tokens)
    return Layout(
        chosen, config, dict(generation or {}), family, wanted, is_new_head,
        file_head=file_head if written else None, file_classes=file_classes,
    )  # fmt: skip


def family_of(values: Mapping[str, Any], name: str) -> Family:
    """The family of a `config.json`; raises if it is not supported."""
    model_type = values.get("model_type")
    if isinstance(model_type, str) and model_type in PAIR_FAMILIES:
        raise InputError(
            f"{name}: model_type is {model_type!r}, a pair of a text and an image model: expected a single model. "
            "Save one of them: gf.save(gf.load(path).image, 'side'), or .text"
        )
    for key, value in (("model_type", model_type), ("architectures", architecture_in(values, name))):
        if isinstance(value, str) and value in REFUSED:
            raise InputError(f"{name}: {key} is {value!r}, which is not supported: {REFUSED[value]}")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        known = [*FAMILIES, *PAIR_FAMILIES, OWN]
        raise InputError(
            f"{name}: model_type is {model_type!r}, which is not known{did_you_mean(str(model_type), known)}"
        )
    if values.get("quantization_config"):
        raise InputError(f"{name}: these weights are quantised (quantization_config). Load the unquantised model")
    return FAMILIES[model_type]


def architecture_in(values: Mapping[str, Any], name: str) -> str | None:
    """The transformers class of the model, if the file names one."""
    names = values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(entry, str) for entry in names):
        raise InputError(f"{name}: architectures is {names!r}: expected a list with the name of a class")
    return names[0] if names else None


def wanted_head(family: Family, values: Mapping[str, Any], head: str | None, written: str | None, name: str) -> str:
    """The requested kind of head, or else the file's; raises if the family does not have it."""
    if head is None:
        raise InputError(
            f"{name}: architectures is {written!r}, which is not known. Name the head to load, one of "
            f"{', '.join(family.heads)}: gf.load(path, head={family.base!r})"
        )
    if head not in family.kinds:
        raise InputError(
            f"head is {head!r}, which a {values['model_type']!r} model does not have{did_you_mean(head, family.kinds)}"
        )
    return head


def with_classes(values: Mapping[str, Any], num_classes: int) -> dict[str, Any]:
    """A `config.json` with this many unnamed classes. Older files have the number in num_labels too."""
    kept = {key: value for key, value in values.items() if key not in ("num_labels", "problem_type")}
    return {**kept, **unnamed(num_classes)}


def family_config(family: Family, values: Mapping[str, Any], head: str, name: str) -> TransformerConfig:
    """The TransformerConfig of a family's config.json. Keys that the family does not know are an error."""
    kind = head.partition("_")[0]  # a family may have several class heads, the core has one
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
