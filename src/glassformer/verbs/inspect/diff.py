"""The verb `inspect diff`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ConfigSettings


@dataclass(frozen=True, kw_only=True)
class DiffSettings(ConfigSettings):
    """The few fields of the config that turn one model into another."""

    other: Positional[Annotated[str, arg(metavar="OTHER")]]
    """The other model, named in the same way."""


def main(settings: DiffSettings) -> None:
    from glassformer.checkpoints.config import config_and_dtype
    from glassformer.inspect.ledger.diff import diff

    before, after = (config_and_dtype(path)[0] for path in (settings.run, settings.other))
    found = diff(before, after)
    if settings.json:
        print(found.to_json())
    else:
        make_console().print(found.as_table(Path(settings.run).name, Path(settings.other).name))
