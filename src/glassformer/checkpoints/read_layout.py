"""`config.json` -> the layout of its model, through the page of its family; no key may be left over."""

from collections.abc import Mapping
from typing import Any

from glassformer.checkpoints.generation_file import with_generation
from glassformer.checkpoints.labels import unnamed
from glassformer.checkpoints.layout import Layout
from glassformer.checkpoints.own_format import OWN, own_layout
from glassformer.config import TransformerConfig
from glassformer.errors import InputError, nearest
from glassformer.families import FAMILIES, PAIRS, REFUSED, Family
from glassformer.families.keys import Keys


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
        chosen = with_classes(chosen, 2)  # where it begins, where it ends
    config = family_config(family, chosen, wanted, name)
    if num_classes is not None and config.num_classes != num_classes:
        raise InputError(f"num_classes is {num_classes}, and a {wanted!r} head has no classes; ask for head='class'")
    if config.head == "language" and config.decoder is not None:
        config = with_generation(config, values, generation, name, fixed=family.fixed_tokens)
    return Layout(
        chosen, config, dict(generation or {}), family, wanted, is_new_head,
        file_head=file_head if written else None, file_classes=file_classes,
    )  # fmt: skip


def family_of(values: Mapping[str, Any], name: str) -> Family:
    """The family of a `config.json`, if its weights can be read."""
    model_type = values.get("model_type")
    if isinstance(model_type, str) and model_type in PAIRS:
        raise InputError(
            f"{name}: model_type is {model_type!r}, a text and an image model together, and here a single model is "
            "needed. Save one side by itself: gf.save(gf.load(path).image, 'side'), or .text"
        )
    for key, value in (("model_type", model_type), ("architectures", architecture_in(values, name))):
        if isinstance(value, str) and value in REFUSED:
            raise InputError(f"{name}: {key} is {value!r}, which cannot be run here: {REFUSED[value]}")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        known = [*FAMILIES, *PAIRS, OWN]
        raise InputError(f"{name}: model_type is {model_type!r}, which is not known{nearest(str(model_type), known)}")
    if values.get("quantization_config"):
        raise InputError(f"{name}: these weights are quantised (quantization_config); load the full ones")
    return FAMILIES[model_type]


def architecture_in(values: Mapping[str, Any], name: str) -> str | None:
    """The class that transformers has for the model, where the file says."""
    names = values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(entry, str) for entry in names):
        raise InputError(f"{name}: architectures is {names!r}: expected a list with the name of a class")
    return names[0] if names else None


def wanted_head(family: Family, values: Mapping[str, Any], head: str | None, written: str | None, name: str) -> str:
    """The kind of head that was asked for, or else the file's, if the family has such a head."""
    if head is None:
        raise InputError(
            f"{name}: architectures is {written!r}, which is not known. Load it with a head by name, one of "
            f"{', '.join(family.heads)}: gf.load(path, head={family.base!r})"
        )
    if head not in family.kinds:
        raise InputError(
            f"head is {head!r}, and a {values['model_type']!r} model has none such{nearest(head, family.kinds)}"
        )
    return head


def with_classes(values: Mapping[str, Any], num_classes: int) -> dict[str, Any]:
    """A `config.json` of so many classes without names: another problem. Older files say the number twice."""
    kept = {key: value for key, value in values.items() if key not in ("num_labels", "problem_type")}
    return {**kept, **unnamed(num_classes)}


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
