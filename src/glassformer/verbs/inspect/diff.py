"""The verb `inspect diff`: compares the configs of two models."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ConfigSettings


@dataclass(frozen=True, kw_only=True)
class DiffSettings(ConfigSettings):
    """Compare two models: the config fields that differ."""

    other: Positional[Annotated[str, arg(metavar="OTHER")]]
    """The model to compare with, named in the same way."""


def main(settings: DiffSettings) -> None:
    from glassformer.checkpoints.config import config_and_dtype
    from glassformer.inspect.ledger.diff import diff

    before, after = (config_and_dtype(path)[0] for path in (settings.run, settings.other))
    found = diff(before, after)
    if settings.json:
        print(found.to_json())
    else:
        make_console().print(found.as_table(Path(settings.run).name, Path(settings.other).name))
