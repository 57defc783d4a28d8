"""The layout of a pair of models in files: the layouts of both models, and the scale.

A pair is saved as the family it came from, or as CLIP. If CLIP cannot express it, the error names the field.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from glassformer.checkpoints.choose_layout import layout_for
from glassformer.checkpoints.layout import Layout
from glassformer.checkpoints.read_layout import layout_of
from glassformer.config import PairConfig
from glassformer.core.pair import Pair
from glassformer.errors import InputError
from glassformer.families import PAIR_FAMILIES, PairFamily
from glassformer.families.keys import Keys
from glassformer.families.page import Sides
from glassformer.families.table import Rule, TensorTarget


@dataclass(frozen=True)
class PairLayout:
    """The files of a pair. Its parameter names begin with `text.` and `image.`."""

    values: dict[str, Any]  # of config.json
    config: PairConfig
    family: PairFamily
    text: Layout
    image: Layout

    def rules(self, pair: Pair, file_names: Iterable[str] | None = None) -> list[Rule]:
        names = None if file_names is None else list(file_names)
        sides = (("text", self.text, pair.text), ("image", self.image, pair.image))
        rules = [
            replace(rule, names=tuple(f"{side}.{name}" for name in rule.names))
            for side, layout, model in sides
            for rule in layout.rules(model, names)
        ]
        return [*rules, Rule(self.family.scale, ("logit_scale",), ((),), TensorTarget("logit_scale"))]

    def ignored(self, file_names: Iterable[str]) -> set[str]:
        names = list(file_names)
        return self.text.ignored(names) | self.image.ignored(names)


def is_pair(values: Mapping[str, Any]) -> bool:
    """Whether a `config.json` describes a pair of models."""
    model_type = values.get("model_type")
    return isinstance(model_type, str) and model_type in PAIR_FAMILIES


def pair_layout_of(values: Mapping[str, Any], *, name: str) -> PairLayout:
    """The layout that the `config.json` of a pair describes."""
    family = PAIR_FAMILIES[values["model_type"]]
    hf = Keys(values, name=name)
    sides = family.sides(hf)
    hf.ignore("pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings")  # both models have their own
    hf.finish()
    text, image = (
        layout_of(part, name=f"{name}, {which}")
        for part, which in ((sides.text, "text_config"), (sides.image, "vision_config"))
    )
    config = PairConfig(text=text.config, image=image.config, logit_scale=sides.scale)
    return PairLayout({**values, "architectures": [family.architecture]}, config, family, text, image)


def pair_layout_for(pair: Pair) -> PairLayout:
    """The layout to save a pair in."""
    text, image = layout_for(pair.text), layout_for(pair.image)
    family = PAIR_FAMILIES["clip"]
    for side, layout, expected in (("text", text, "clip_text"), ("image", image, "clip_vision")):
        if layout.family is None or layout.family.name != expected:
            reason = layout.reason or f"it is built like {layout.values['model_type']}"
            raise InputError(f"a pair is saved as CLIP, which cannot express its {side} model: {reason}")
    values = dict(pair.about.settings)
    if not values:
        values = family.describe(Sides(text.values, image.values, pair.config.logit_scale))
    return PairLayout(values, pair.config, family, text, image)
