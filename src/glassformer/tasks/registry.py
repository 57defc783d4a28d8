"""The tasks, one row each: the only list of them. The command line, `eval`, `inspect` and the explorer read it.

A row is plain data. What is heavy is only named in it, and imported when it is used, so that `--help` answers at once.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from glassformer.tasks.settings import (
    AskSettings,
    CaptionSettings,
    ClassifySettings,
    ForecastSettings,
    ImagesSettings,
    LmSettings,
    MatchSettings,
    MlmSettings,
    TaskSettings,
    TranslateSettings,
)
from glassformer.training.settings import TrainSettings

if TYPE_CHECKING:
    from glassformer.training.task import Task


class Row(NamedTuple):
    """What the other rooms need to know of a task."""

    name: str  # in `train NAME`, in run.json, in TOML files
    help: str
    settings: type[TaskSettings]
    page: str  # module:class of its `Task`
    metric: str  # decides which weights are best
    abilities: tuple[str, ...]  # what `predict/pipeline.py` does with its models
    view: str  # what the explorer answers with (`explore/view/answers.py`)
    example: str  # the built-in data that it is trained on without --data


ROWS = (
    Row(
        name="translate",
        help="train on pairs of texts: translations, summaries",
        settings=TranslateSettings,
        page="glassformer.tasks.translate:Translate",
        metric="loss",
        abilities=("translate",),
        view="next",
        example="dates",
    ),
    Row(
        name="classify",
        help="train to name the class of a text or a series",
        settings=ClassifySettings,
        page="glassformer.tasks.classify:Classify",
        metric="macro_f1",
        abilities=("classify", "series"),
        view="classes",
        example="arrivals",
    ),
    Row(
        name="lm",
        help="train to continue text",
        settings=LmSettings,
        page="glassformer.tasks.lm:LanguageModel",
        metric="loss",
        abilities=("lm",),
        view="next",
        example="documentation",
    ),
    Row(
        name="mlm",
        help="train to fill in masked words",
        settings=MlmSettings,
        page="glassformer.tasks.mlm:MaskedLanguageModel",
        metric="loss",
        abilities=("mlm",),
        view="masks",
        example="documentation",
    ),
    Row(
        name="images",
        help="train to name the class of an image",
        settings=ImagesSettings,
        page="glassformer.tasks.images:ImageClasses",
        metric="accuracy",
        abilities=("images",),
        view="classes",
        example="digits",
    ),
    Row(
        name="caption",
        help="train to write what an image shows",
        settings=CaptionSettings,
        page="glassformer.tasks.pictures.caption:Caption",
        metric="loss",
        abilities=("caption",),
        view="next",
        example="scenes",
    ),
    Row(
        name="ask",
        help="train to answer questions about an image",
        settings=AskSettings,
        page="glassformer.tasks.pictures.ask:Ask",
        metric="accuracy",
        abilities=("ask",),
        view="next",
        example="scenes",
    ),
    Row(
        name="match",
        help="train to find the caption of an image and the image of a caption",
        settings=MatchSettings,
        page="glassformer.tasks.pictures.match:Match",
        metric="recall",
        abilities=("match",),
        view="match",
        example="scenes",
    ),
    Row(
        name="forecast",
        help="train to say how a series goes on",
        settings=ForecastSettings,
        page="glassformer.tasks.forecast:Forecast",
        metric="mse",
        abilities=("forecast",),
        view="forecast",
        example="seasons",
    ),
)
TASKS = {row.name: row for row in ROWS}

if TYPE_CHECKING:
    TaskName = str
else:
    TaskName = Literal[tuple(TASKS)]  # the type of a flag that names a task: its help lists them


def page_of(task: str) -> "type[Task]":
    """The class of a task; imports its page."""
    module, name = TASKS[task].page.split(":")
    page: type[Task] = getattr(import_module(module), name)
    return page


def make_task(settings: TrainSettings, files: Sequence[Path] = ()) -> "Task":
    """The task of these settings, with its data and its model; with `files`, to score what is in them."""
    make: Any = page_of(settings.task)
    task: Task = make(settings, files)
    return task


def settings_to_judge(task: str, values: Mapping[str, Any], model: str) -> TaskSettings:
    """The settings of a training as they are for its finished model: loaded, so of no other size than its own."""
    kind = TASKS[task].settings
    loaded = {"init": model, "out": model, "head": None, "resume": False, "overwrite": False}
    of_the_model = kind.of_the_model()
    return kind.from_dict({**{k: v for k, v in values.items() if k not in of_the_model}, **loaded})
