"""The list of all tasks, one row each. The command line, `eval`, `inspect` and the explorer read it.

A row is plain data. It names heavy modules without importing them, so that `--help` is fast.
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


class TaskEntry(NamedTuple):
    """What the rest of the package needs to know about a task."""

    name: str  # in `train NAME`, in run.json, in TOML files
    help: str
    settings: type[TaskSettings]
    page: str  # module:class of its `Task`
    metric: str  # decides which weights are best
    abilities: tuple[str, ...]  # what its models can do in `predict/pipeline.py`
    view: str  # the explorer's kind of answer (`explore/view/answers.py`)
    example: str  # the built-in data, used without --data


TASK_ENTRIES = (
    TaskEntry(
        name="translate",
        help="train on pairs of texts: translations, summaries",
        settings=TranslateSettings,
        page="glassformer.tasks.translate:Translate",
        metric="loss",
        abilities=("translate",),
        view="next",
        example="dates",
    ),
    TaskEntry(
        name="classify",
        help="train to classify texts, text pairs or series",
        settings=ClassifySettings,
        page="glassformer.tasks.classify:Classify",
        metric="macro_f1",
        abilities=("classify", "series"),
        view="classes",
        example="arrivals",
    ),
    TaskEntry(
        name="lm",
        help="train to continue text",
        settings=LmSettings,
        page="glassformer.tasks.lm:LanguageModel",
        metric="loss",
        abilities=("lm",),
        view="next",
        example="documentation",
    ),
    TaskEntry(
        name="mlm",
        help="train to fill in masked words",
        settings=MlmSettings,
        page="glassformer.tasks.mlm:MaskedLanguageModel",
        metric="loss",
        abilities=("mlm",),
        view="masks",
        example="documentation",
    ),
    TaskEntry(
        name="images",
        help="train to classify images",
        settings=ImagesSettings,
        page="glassformer.tasks.images:ImageClasses",
        metric="accuracy",
        abilities=("images",),
        view="classes",
        example="digits",
    ),
    TaskEntry(
        name="caption",
        help="train to caption images",
        settings=CaptionSettings,
        page="glassformer.tasks.pictures.caption:Caption",
        metric="loss",
        abilities=("caption",),
        view="next",
        example="scenes",
    ),
    TaskEntry(
        name="ask",
        help="train to answer questions about images",
        settings=AskSettings,
        page="glassformer.tasks.pictures.ask:Ask",
        metric="accuracy",
        abilities=("ask",),
        view="next",
        example="scenes",
    ),
    TaskEntry(
        name="match",
        help="train to match images and captions",
        settings=MatchSettings,
        page="glassformer.tasks.pictures.match:Match",
        metric="recall",
        abilities=("match",),
        view="match",
        example="scenes",
    ),
    TaskEntry(
        name="forecast",
        help="train to forecast a series",
        settings=ForecastSettings,
        page="glassformer.tasks.forecast:Forecast",
        metric="mse",
        abilities=("forecast",),
        view="forecast",
        example="seasons",
    ),
)
TASKS = {row.name: row for row in TASK_ENTRIES}

if TYPE_CHECKING:
    TaskName = str
else:
    TaskName = Literal[tuple(TASKS)]  # the type of a flag for a task, so that its help lists them


def task_class(task: str) -> "type[Task]":
    """The class of a task; imports its module."""
    module, name = TASKS[task].page.split(":")
    page: type[Task] = getattr(import_module(module), name)
    return page


def make_task(settings: TrainSettings, files: Sequence[Path] = ()) -> "Task":
    """The task of these settings, with its data and model. With `files`, it scores those."""
    make: Any = task_class(settings.task)
    task: Task = make(settings, files)
    return task


def settings_for_scoring(task: str, values: Mapping[str, Any], model: str) -> TaskSettings:
    """The training settings, changed to load and score the finished model; its sizes come from its checkpoint."""
    kind = TASKS[task].settings
    loaded = {"init": model, "out": model, "head": None, "resume": False, "overwrite": False}
    of_the_model = kind.of_the_model()
    return kind.from_dict({**{k: v for k, v in values.items() if k not in of_the_model}, **loaded})
