"""The tasks, a row each. Nothing heavy is imported before a task is made, so that `--help` answers at once."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.tasks import settings as tasks
from glassformer.tasks.settings import TaskSettings
from glassformer.training.settings import TrainSettings

if TYPE_CHECKING:
    from glassformer.training.task import Task

TASKS = {
    "translate": "glassformer.tasks.translate:Translate",
    "classify": "glassformer.tasks.classify:Classify",
    "lm": "glassformer.tasks.lm:LanguageModel",
    "mlm": "glassformer.tasks.mlm:MaskedLanguageModel",
    "images": "glassformer.tasks.images:ImageClasses",
    "forecast": "glassformer.tasks.forecast:Forecast",
}

SETTINGS: tuple[type[TaskSettings], ...] = (
    tasks.TranslateSettings,
    tasks.ClassifySettings,
    tasks.LmSettings,
    tasks.MlmSettings,
    tasks.ImagesSettings,
    tasks.ForecastSettings,
)


def make_task(settings: TrainSettings, files: Sequence[Path] = ()) -> "Task":
    """The task of these settings, with its data and its model; with `files`, to score what is in them."""
    module, name = TASKS[settings.task].split(":")
    task: Task = getattr(import_module(module), name)(settings, files)
    return task


def settings_to_judge(task: str, values: Mapping[str, Any], model: str) -> TaskSettings:
    """The settings of a training as they are for its finished model: loaded, so of no other size than its own."""
    kinds = {kind.task: kind for kind in SETTINGS}
    loaded = {"init": model, "out": model, "head": None, "resume": False, "overwrite": False}
    of_the_model = kinds[task].of_the_model()
    return kinds[task].from_dict({**{k: v for k, v in values.items() if k not in of_the_model}, **loaded})
