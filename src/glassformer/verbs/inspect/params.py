"""The verb `inspect params`: counts the parameters by kind and by layer."""

import json
from dataclasses import dataclass

from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ConfigSettings


@dataclass(frozen=True, kw_only=True)
class ParamsSettings(ConfigSettings):
    """Count the parameters by kind and by layer."""


def main(settings: ParamsSettings) -> None:
    from glassformer.checkpoints.config import config_and_dtype
    from glassformer.core.model import count
    from glassformer.inspect.ledger.params import parameter_tables, shares_by_kind, shares_by_layer
    from glassformer.inspect.ledger.sizes import meta_model

    config, _ = config_and_dtype(settings.run)
    model = meta_model(config)
    if settings.json:
        kinds, layers = shares_by_kind(model), shares_by_layer(model)
        parts = {"parts": {share.part: share.parameters for share in kinds}}
        parts["layers"] = {share.part: share.parameters for share in layers}
        print(json.dumps({"parameters": count(model), **parts, "config": config.to_dict()}))
        return
    console = make_console()
    for table in parameter_tables(model):
        console.print(table)
        console.print()
