"""The configs of every family and head, as their config.json says them: no weights are made."""

from functools import cache

import transformers

import glassformer as gf
from glassformer.checkpoints.layout import layout_of
from helpers.samples import ARCHITECTURES, SAMPLES

transformers.logging.set_verbosity_error()


@cache
def family_configs(*, one_each: bool = False) -> dict[str, gf.TransformerConfig]:
    """By sample and head. `one_each`: of each family one, with another head than the family before it."""
    found = {}
    first = {sample.model_type: sample for sample in reversed(SAMPLES)}
    for i, sample in enumerate(first.values() if one_each else SAMPLES):
        heads = list(ARCHITECTURES[sample.model_type].items())
        for kind, architecture in [heads[i % len(heads)]] if one_each else heads:
            settings = dict(sample.config)
            if architecture.endswith("QuestionAnswering"):
                settings.pop("num_labels", None)  # a span has a start and an end
            values = transformers.CONFIG_MAPPING[sample.model_type](**settings).to_dict()
            layout = layout_of({**values, "architectures": [architecture]}, name=f"{sample}-{kind}")
            found[f"{sample}-{kind}"] = layout.config
    return found
