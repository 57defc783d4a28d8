"""Settings and functions that the looks share: loading the model, and the path of the picture."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from tyro.conf import Positional, arg

from glassformer.errors import InputError
from glassformer.settings import Settings

if TYPE_CHECKING:
    from glassformer.core.pair import Pair
    from glassformer.predict.captions import CaptionPreparer
    from glassformer.predict.images import ImagePreparer, Picture
    from glassformer.predict.prepare import Preparer
    from glassformer.predict.texts import TextPreparer

RunArgument = Positional[Annotated[str, arg(metavar="RUN")]]
TextArgument = Positional[Annotated[str, arg(metavar="TEXT")]]


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Settings of a look that needs the weights."""

    run: RunArgument
    """The run or model folder, or a hub id owner/name."""
    json: bool = False
    """Print the numbers as JSON."""


@dataclass(frozen=True, kw_only=True)
class QuestionSettings(Settings):
    """Settings of a look at a model that may answer questions."""

    question: str | None = None
    """Question, for a model that answers questions about an image."""


@dataclass(frozen=True, kw_only=True)
class ConfigSettings(Settings):
    """Settings of a look that needs only the config."""

    run: RunArgument
    """The run or model folder, a hub id owner/name, a config.json, or the name of a preset such as base."""
    json: bool = False
    """Print the result as JSON."""


@dataclass(frozen=True, kw_only=True)
class FigureSettings(ModelSettings):
    """Settings of a look that draws a picture."""

    json: bool = False
    """Print the path of the picture as JSON."""
    picture: Path | None = None
    """File for the picture, a .png, .svg or .pdf (default: a .png in the run folder)."""

    def path(self, name: str) -> Path:
        """The path of the picture: --picture, a file in the run folder, or for a hub model in the current folder."""
        return self.picture or (Path(self.run) / name if Path(self.run).is_dir() else Path(name))

    def tell(self, what: str, path: Path) -> None:
        print(json.dumps({what: str(path)}, ensure_ascii=False) if self.json else f"{what}: {path}")


def load_reader(run: str, look: str) -> "TextPreparer":
    """Loads a model that reads texts, with its preparer."""
    from glassformer.predict.texts import TextPreparer

    preparer = load_preparer(run)
    return preparer if isinstance(preparer, TextPreparer) else refuse_model(preparer, run, look)


def load_words(run: str, look: str, given: str) -> "tuple[TextPreparer | CaptionPreparer, str | Picture]":
    """Loads a model that reads texts, the text model of a pair, or one that writes about images; returns its preparer
    and the input."""
    from glassformer.checkpoints.load import load_model
    from glassformer.core.pair import Pair
    from glassformer.hub import find_folder
    from glassformer.inspect.looks.examples import image_or_example
    from glassformer.predict.captions import CaptionPreparer
    from glassformer.predict.prepare import preparer_of
    from glassformer.predict.texts import TextPreparer

    folder = find_folder(run)
    model = load_model(folder, finite=True)
    if isinstance(model, Pair):
        side, _ = preparer_for(model, folder, given)
        return (side, given) if isinstance(side, TextPreparer) else refuse_model(side, run, look)
    preparer = preparer_of(model, folder)
    if not isinstance(preparer, TextPreparer | CaptionPreparer):
        refuse_model(preparer, run, look)
    return preparer, image_or_example(preparer, folder, given)


def preparer_for(pair: "Pair", folder: Path, given: str) -> "tuple[TextPreparer | ImagePreparer, str | Picture]":
    """The preparer of the model of a pair that reads this input: the image model for an image file or `example`, else
    the text model."""
    from glassformer.inspect.looks.examples import EXAMPLE_WORD, example_caption_image
    from glassformer.predict.match import is_image
    from glassformer.predict.prepare import pair_preparer_of

    preparer = pair_preparer_of(pair, folder)
    if given == EXAMPLE_WORD:
        return preparer.pictures, example_caption_image(folder)
    return (preparer.pictures if is_image(given) else preparer.words), given


def load_preparer(run: str) -> "Preparer":
    from glassformer.checkpoints.load import load_folder
    from glassformer.hub import find_folder
    from glassformer.predict.prepare import preparer_of

    folder = find_folder(run)
    return preparer_of(load_folder(folder, finite=True), folder)


def refuse_model(preparer: "Preparer", run: str, look: str) -> NoReturn:
    reads = "images" if preparer.model.config.image else "series"
    raise InputError(
        f"inspect {look} needs a model that reads texts, and this one reads {reads}. Try glassformer inspect attention "
        f"{run} example"
    )
