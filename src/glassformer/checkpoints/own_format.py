"""Our own format, `model_type: glassformer`, for models that no published family can express.

Its config.json is a TransformerConfig, and its tensors have the names of the parameters.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.checkpoints.labels import LABEL_KEYS as LABELS
from glassformer.checkpoints.labels import labels_in
from glassformer.checkpoints.layout import Layout
from glassformer.config import TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.version import __version__

OWN = "glassformer"
OWN_KEYS = ("model_type", "glassformer_version", "architectures", *LABELS)


def own_layout(values: Mapping[str, Any], *, name: str, head: str | None, num_classes: int | None) -> Layout:
    """The layout that a `config.json` in our format describes, with another head if requested."""
    plain = {key: value for key, value in values.items() if key not in OWN_KEYS}
    try:
        config = chosen = TransformerConfig.from_dict(plain)
        if head not in (None, config.head):  # settings of the old head do not apply
            chosen = config.replace(head=head, num_classes=num_classes, head_bias=None, two_classifiers=False)
        elif num_classes is not None:
            chosen = config.replace(num_classes=num_classes)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    is_new = chosen != config
    written = own_values(chosen, {} if is_new else labels_in(values))
    return Layout(
        written, chosen, head=chosen.head, is_new_head=is_new, file_head=config.head, file_classes=config.num_classes
    )


def own_values(config: TransformerConfig, labels: Mapping[str, Any]) -> dict[str, Any]:
    header = {"model_type": OWN, "glassformer_version": __version__, "architectures": ["Transformer"]}
    return {**header, **config.to_dict(), **labels}


def own_form(model: Transformer, reason: str) -> Layout:
    """The layout of a model that no family can express, with the reason."""
    config = model.config
    return Layout(own_values(config, model.about.classes), config, head=config.head, reason=reason)
