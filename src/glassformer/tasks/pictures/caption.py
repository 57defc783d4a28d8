"""Captions: an encoder reads an image, a decoder describes it (Vinyals et al., 2015; Xu et al., 2015)."""

from collections.abc import Sequence
from typing import ClassVar

from glassformer.data.scenes.make import ScenePart
from glassformer.data.scenes.scene import Scene
from glassformer.data.scenes.words import caption_of, share_of_facts
from glassformer.tasks.baselines import NO_TRAINING
from glassformer.tasks.metrics import translation_metrics
from glassformer.tasks.pictures.task import ImageSet, ImageText, NumberedText, PictureTask, nearest_images
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import CaptionSettings


class Caption(PictureTask):
    """Images with captions; exact match, and the share of correct facts (built-in scenes) or BLEU and chrF (files)."""

    name: ClassVar[str] = "caption"
    unit: ClassVar[str] = "captions"
    columns: ClassVar[dict[str, str]] = {"caption_column": "--caption-column"}
    rate_of_right: ClassVar[str] = "exact_match"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "exact_match")
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 1400

    settings: CaptionSettings

    def tell(self, scene: Scene, part: ScenePart, index: int) -> list[ImageText]:
        return [ImageText(None, caption_of(scene, self.settings.language))]

    def measure(self, guesses: Sequence[str], looked: Sequence[NumberedText]) -> tuple[dict[str, float], list[str]]:
        truths = self.truths(looked)
        right = sum(guess == truth for guess, truth in zip(guesses, truths, strict=True))
        exact = {"exact_match": right / len(looked)}
        if self.is_built_in:
            language = self.settings.language
            facts = [share_of_facts(guess, one.text, language) for guess, (_, one) in zip(guesses, looked, strict=True)]
            return exact | {"facts": sum(facts) / len(facts)}, []
        metrics, notes = translation_metrics(guesses, [one.text for _, one in looked], "13a")
        return metrics | exact, notes

    def baselines(
        self, part: ImageSet, looked: Sequence[NumberedText]
    ) -> tuple[dict[str, dict[str, float]], list[str]]:
        """The caption of the training image with the most similar pixels."""
        if not len(self.train):
            return {}, [NO_TRAINING]
        known = self.known()

        def nearest() -> dict[str, float]:
            pixels = (self.train.take([i for i, _ in known]), part.take([i for i, _ in looked]))
            guesses = [known[number][1].text for number in nearest_images(*pixels)]
            return self.measure(guesses, looked)[0]

        found, notes = self.compared({"caption of the nearest training image": nearest})
        more = self.is_built_in or len(known) < sum(map(len, self.train.told))
        return found, [*notes, *([f"the nearest image is among {len(known):,} training images"] if more else [])]
