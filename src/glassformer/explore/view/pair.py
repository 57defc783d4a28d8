"""A pair of models on the page: the similarity of images and texts, and each tower as a model of its own.

{"tower": "image", "example": 2}                            the third image, with the texts of the examples
{"tower": "text", "example": 0, "text": "a cat\\na dog"}     the first of these texts
{"tower": "image", "image": "data:image/png;base64,..."}    the user's image, before the example images
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from glassformer.core.pair import Pair
from glassformer.errors import InputError
from glassformer.explore.view import examples
from glassformer.explore.view.answers import six, sixes
from glassformer.explore.view.bounds import GoneError, time_limit
from glassformer.explore.view.inputs import check_keys, example_in, text_in
from glassformer.explore.view.session import ANSWER_TIMEOUT, MAX_VIEWS, Session, View, check_languages, id_of
from glassformer.explore.view.uploads import open_data_url
from glassformer.figures.png import as_data_url
from glassformer.generation.choose_engine import EngineChoice
from glassformer.predict.images import Picture
from glassformer.predict.match import PairPreparer, image_vectors, text_vectors
from glassformer.predict.pipeline import Pipeline, pipeline

Tower = Literal["image", "text"]
TOWERS: tuple[Tower, ...] = get_args(Tower)
MAX_TEXTS = 32  # columns of the table


class PairSession:
    """The two towers of a pair, one session each, and the similarity of their inputs."""

    def __init__(self, loaded: Pipeline, *, seconds: float = ANSWER_TIMEOUT) -> None:
        assert isinstance(loaded.preparer, PairPreparer)
        self.pair: Pair = loaded.model.eval()
        self.preparer, self.folder, self.seconds, self.task = loaded.preparer, loaded.folder, seconds, loaded.task
        self.towers = {tower: self.tower_of(tower, loaded) for tower in TOWERS}
        self.pictures = examples.picture_examples(self.folder, self.pair.image.config)
        self.texts = [name for name, _ in self.pictures]
        self.examples = [
            examples.as_listed(name, {"tower": "image", "example": i}, as_data_url(pixels))
            for i, (name, pixels) in enumerate(self.pictures)
        ]
        self.views: OrderedDict[str, tuple[Tower, View]] = OrderedDict()

    def tower_of(self, tower: Tower, loaded: Pipeline) -> Session:
        model = getattr(self.pair, tower)
        preparer = self.preparer.pictures if tower == "image" else self.preparer.words
        tokenizer = None if tower == "image" else loaded.tokenizer
        choice = EngineChoice(model, "off")
        alone = replace(loaded, model=model, tokenizer=tokenizer, preparer=preparer, choice=choice)
        return Session(alone, seconds=self.seconds)

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        return {f"{tower} {name}": step for tower in TOWERS for name, step in self.towers[tower].steps.items()}

    def describe(self, tower: str = "image") -> dict[str, Any]:
        """The description of one tower, with the examples of the pair."""
        if tower not in self.towers:
            raise InputError(f"tower is {tower[:20]!r}: expected {' or '.join(TOWERS)}")
        parameters = sum(parameter.numel() for parameter in self.pair.parameters())
        told = self.towers[tower].describe()
        own = {"name": self.folder.resolve().name, "parameters": parameters, "examples": self.examples}
        return {**told, **own, "tower": tower, "texts": self.texts}

    def of(self, view: View) -> Session:
        return self.towers[self.kept(view.id)[0]]

    def find(self, name: str) -> View:
        return self.kept(name)[1]

    def kept(self, name: str) -> tuple[Tower, View]:
        if name not in self.views:
            raise GoneError("this view is no longer in memory: send the input again")
        return self.views[name]

    def view(self, given: Any) -> View:
        """The view of one tower's input, and the table of similarities."""
        given = check_keys(given, "match")
        name = id_of(given)
        if name not in self.views:
            with time_limit(self.seconds):
                self.views[name] = self.compute(name, given)
            while len(self.views) > MAX_VIEWS:
                self.views.popitem(last=False)
        self.views.move_to_end(name)
        return self.views[name][1]

    def compute(self, name: str, given: dict[str, Any]) -> tuple[Tower, View]:
        tower: Tower = given.get("tower", "image")
        if tower not in TOWERS:
            raise InputError(f"tower is {tower!r:.20}: expected {' or '.join(TOWERS)}")
        pictures, texts = self.pictures_of(given), self.texts_of(given)
        count = len(pictures) if tower == "image" else len(texts)
        chosen = example_in(given, count) if "example" in given else 0
        asked: dict[str, Any] = {"text": texts[chosen]} if tower == "text" else {"example": chosen}
        if tower == "image" and "image" in given:  # the user's image comes before the examples
            asked = {"image": given["image"]} if chosen == 0 else {"example": chosen - 1}
        without = {"without": given["without"]} if "without" in given else {}
        view = self.towers[tower].view({**asked, **without})
        pair = {
            "tower": tower,
            "chosen": chosen,
            "pictures": [{"label": picture.name, "png": as_data_url(picture.pixels)} for picture in pictures],
            "texts": texts,
            "similarity": [sixes(row) for row in self.table(pictures, texts)],
            "scale": six(float(self.pair.logit_scale.detach().exp())),
        }
        shown = {**view.shown, "id": name, "input": given, "pair": pair}
        return tower, replace(view, id=name, shown=shown)

    def pictures_of(self, given: Mapping[str, Any]) -> list[Picture]:
        """The rows: the user's image, if any, then the examples."""
        known = [Picture(label, pixels) for label, pixels in self.pictures]
        if "image" not in given:
            return known
        return [Picture("your image", open_data_url(given["image"], self.preparer.preparation)), *known]

    def texts_of(self, given: Mapping[str, Any]) -> list[str]:
        """The columns: the user's lines, or the texts of the examples."""
        if "text" not in given:
            return self.texts
        lines = [line.strip() for line in text_in(given, "text").splitlines() if line.strip()]
        if len(lines) > MAX_TEXTS:
            raise InputError(f"{len(lines)} texts given: expected at most {MAX_TEXTS}, one per line")
        return list(dict.fromkeys(lines))

    def table(self, pictures: list[Picture], texts: list[str]) -> Tensor:
        """The cosine similarity of each image (rows) and text (columns), computed as in `predict`."""
        with torch.no_grad():
            return image_vectors(self.pair, self.preparer, pictures) @ text_vectors(self.pair, self.preparer, texts).T


def open_session(
    path: str | Path, *, source_language: str | None = None, target_language: str | None = None
) -> Session | PairSession:
    """Opens a model of any kind for the page."""
    loaded = pipeline(path, device="cpu")
    languages = {"source_language": source_language, "target_language": target_language}
    if isinstance(loaded.preparer, PairPreparer):
        check_languages(loaded.task, loaded.tokenizer, languages)
        return PairSession(loaded)
    return Session(loaded, source_language=source_language, target_language=target_language)
