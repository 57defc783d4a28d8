"""The verb `inspect ablate`: what heads are worth."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from glassformer.errors import InputError
from glassformer.tasks.registry import TaskName
from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ModelSettings


@dataclass(frozen=True, kw_only=True)
class AblateSettings(ModelSettings):
    """Score a run without some of its heads, one at a time."""

    heads: Positional[Annotated[tuple[str, ...], arg(metavar="HEAD [HEAD ...]")]] = ()
    """Names of heads, as decoder.blocks.0.cross.3; * stands for anything, so '*' tries them all."""
    examples: int = 200
    """How many examples to score with."""
    data: tuple[Path, ...] = ()
    """Files to score on, as eval takes them; what the run held out if not given."""
    task: TaskName | None = None
    """With --data: what the model is for, if it was not trained here."""
    picture: Path | None = None
    """Also draw it, to this .png, .svg or .pdf."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.heads:
            raise InputError(
                "no head given. Name one after the run, as decoder.blocks.0.cross.3, or '*' for all of them"
            )


def main(settings: AblateSettings) -> None:
    from glassformer.inspect.looks.importance import head_importance, picture_importance, show_importance

    console = make_console()
    found = head_importance(
        settings.run, settings.heads, data=settings.data, examples=settings.examples, task=settings.task,
        console=None if settings.json else console,
    )  # fmt: skip
    if settings.picture is not None:
        picture_importance(found, settings.picture)
    if settings.json:
        print(json.dumps(asdict(found)))
    else:
        show_importance(found, console)
