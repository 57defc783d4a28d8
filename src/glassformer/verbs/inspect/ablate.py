"""The verb `inspect ablate`: how much each attention head matters."""

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
    """Score a run with one head removed at a time."""

    heads: Positional[Annotated[tuple[str, ...], arg(metavar="HEAD [HEAD ...]")]] = ()
    """Names of heads, such as decoder.blocks.0.cross.3; * matches anything, so '*' selects them all."""
    examples: int = 200
    """Number of examples to score."""
    data: tuple[Path, ...] = ()
    """Files to score, as for eval (default: the run's held-out data)."""
    task: TaskName | None = None
    """With --data: task of a model that was not trained here."""
    picture: Path | None = None
    """Also draw the result to this .png, .svg or .pdf."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.heads:
            raise InputError(
                "no head given. Name one after the run, such as decoder.blocks.0.cross.3, or '*' for all of them"
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
