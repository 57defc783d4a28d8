"""An image or a series to look at: a file, or an example.

The example is one that the run held out, or a built-in one if there is no run.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from glassformer.checkpoints.run import is_run, read_record
from glassformer.data.digits import digit_images
from glassformer.data.pixels import Pixels
from glassformer.data.scenes.make import make_scene
from glassformer.data.scenes.words import caption_of
from glassformer.data.seasons import seasons
from glassformer.data.series import Series
from glassformer.errors import InputError
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.images import ImagePreparer, Picture
from glassformer.predict.inputs import as_numbers
from glassformer.predict.prepare import Preparer
from glassformer.predict.prepared import Prepared
from glassformer.predict.series import SeriesPreparer, of_training
from glassformer.tasks.classify import Classify
from glassformer.tasks.evaluate import task_to_score
from glassformer.tasks.forecast import Forecast
from glassformer.tasks.images import ImageClasses
from glassformer.tasks.pictures.task import PictureTask

EXAMPLE_WORD = "example"  # what a user types instead of a path


def image_or_example(preparer: Preparer, folder: Path, given: str) -> str | Picture:
    """The input as given; for a model that describes images, `example` is replaced by an example image."""
    if not isinstance(preparer, CaptionPreparer):
        return given
    if not given.strip():
        raise InputError("the input is empty. Give the path of an image, or 'example'")
    return example_caption_image(folder) if given == EXAMPLE_WORD else given


def example_caption_image(folder: Path) -> Picture:
    """An image that a run on the user's images held out, if its files still exist; else a built-in scene."""
    settings = read_record(folder)["settings"] if is_run(folder) else None
    if not isinstance(settings, Mapping) or not settings.get("data"):
        return example_scene()
    try:
        task = task_to_score(folder)
    except InputError:  # its training data no longer exist
        return example_scene()
    assert isinstance(task, PictureTask)
    number, told = task.judged.looked[0]
    return as_picture(f"held out: {told.text}", task.judged.take([number])[0])


def example_scene() -> Picture:
    """A built-in image of shapes from the test split."""
    pixels, scene = make_scene(0, 0, "test")  # (3, Y, X)
    return Picture(f"held out: {caption_of(scene)}", pixels.transpose(1, 2, 0).copy())


def prepare_patches(preparer: ImagePreparer | SeriesPreparer, folder: Path, given: str | Picture) -> Prepared:
    """Prepares the path of an image or a CSV file, the numbers of a series to classify, or `example`."""
    if isinstance(given, Picture):
        assert isinstance(preparer, ImagePreparer)
        return preparer.prepare(given)
    if not given.strip():
        kind = "an image" if isinstance(preparer, ImagePreparer) else "a CSV file"
        raise InputError(f"the input is empty. Give the path of {kind}, or 'example'")
    if isinstance(preparer, ImagePreparer):
        return preparer.prepare(example_image(folder) if given == EXAMPLE_WORD else given)
    if given == EXAMPLE_WORD:
        return example_window(preparer, folder)
    if preparer.model.config.head == "forecast":
        return preparer.prepare(given)
    return preparer.prepare(as_numbers(given, "the input"), name="the given series")


def example_image(folder: Path) -> Picture:
    """An image that the run held out, or a built-in digit if there is no run."""
    if not is_run(folder):
        pixels = np.rint(digit_images(held_out=True)[0][0, 0] * 255).astype(np.uint8)  # (8, 8)
        return Picture("a built-in digit", pixels)
    task = task_to_score(folder)
    assert isinstance(task, ImageClasses)
    return as_picture(f"held out: {task.names[int(task.judged.labels[0])]}", task.judged.take([0])[0])


def as_picture(name: str, pixels: Pixels) -> Picture:
    """A picture from the pixels (C, Y, X) of a task."""
    taken = pixels.transpose(1, 2, 0)  # (Y, X, C)
    return Picture(name, taken[:, :, 0] if taken.shape[2] == 1 else taken)


def example_window(preparer: SeriesPreparer, folder: Path) -> Prepared:
    """The end of the run's series, which it held out; for a classifier, a series that it held out."""
    if not is_run(folder):
        return preparer.prepare(built_in_for(preparer), name="built-in, simulated")
    task = task_to_score(folder)
    if isinstance(task, Forecast):
        return preparer.prepare(task.series, name=str(task.settings.data or "built-in, simulated"))
    assert isinstance(task, Classify)
    example = task.judged[0]
    return preparer.prepare(example.values, name=f"held out: {', '.join(example.labels)}")


def built_in_for(preparer: SeriesPreparer) -> Series:
    """The built-in series with as many channels as the model reads, or all if it reads any number."""
    config = preparer.model.config.series
    assert config is not None
    series, wanted = of_training(seasons(), preparer.scale), config.channels
    if wanted is not None and wanted > len(series.names):
        raise InputError(
            f"this model reads {wanted} channels, but the built-in series has {len(series.names)}. Give a CSV file"
        )
    return replace(series, names=series.names[:wanted], values=series.values[:, :wanted])
