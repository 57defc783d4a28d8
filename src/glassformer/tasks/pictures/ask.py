"""Questions about an image: the question is the decoder's prompt, and the decoder continues with the answer.

Training answers several questions about an image in one pass: they share its encoder output and do not attend to each
other (`documents` in `core/model.py`).
"""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import ClassVar

from glassformer.data.scenes.make import ScenePart
from glassformer.data.scenes.questions import Question, questions_of
from glassformer.data.scenes.scene import Scene
from glassformer.data.scenes.words import Language, caption_of
from glassformer.tasks.baselines import NO_TRAINING
from glassformer.tasks.pictures.task import ImageSet, ImageText, NumberedText, PictureTask
from glassformer.tasks.registry import TASKS
from glassformer.tasks.settings import AskSettings

SCORED = 2  # questions per built-in image in validation and test
RELATION = 4  # training samples relations this many times as often as other topics: they are learned last
# In training, the first question about a scene asks for a full description: the answer needs every shape and their
# relation.
CAPTION_QUESTION: dict[Language, str] = {"en": "what does the picture show?", "ko": "그림에 무엇이 있나요?"}


class Ask(PictureTask):
    """Images with questions and answers; accuracy, overall and by topic."""

    name: ClassVar[str] = "ask"
    unit: ClassVar[str] = "questions"
    columns: ClassVar[dict[str, str]] = {"question_column": "--question-column", "answer_column": "--answer-column"}
    rate_of_right: ClassVar[str] = "accuracy"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    metric: ClassVar[str] = TASKS[name].metric
    steps: ClassVar[int] = 1000

    settings: AskSettings

    @property
    def most_texts(self) -> int:
        return self.settings.questions

    def tell(self, scene: Scene, part: ScenePart, index: int) -> list[ImageText]:
        """Questions on random topics, a function of (seed, part, index). Training prefers relations; otherwise all
        topics are equally likely. Scenes with held-out pairs get only questions about those pairs."""
        count = self.settings.questions if part == "train" else SCORED
        asked = questions_of(scene, self.settings.language)
        if part == "pairs":
            asked = [question for question in asked if question.held_out]
        topics: dict[str, list[Question]] = defaultdict(list)
        for question in asked:
            topics[question.topic].append(question)
        rng = random.Random(f"questions {self.settings.seed} {part} {index}")
        chosen: list[Question] = []
        while len(chosen) < count and topics:
            weights = [RELATION if part == "train" and topic == "relation" else 1 for topic in topics]
            topic = rng.choices(list(topics), weights)[0]
            chosen.append(topics[topic].pop(rng.randrange(len(topics[topic]))))
            if not topics[topic]:
                del topics[topic]
        told = [ImageText(question.text, question.answer, question.topic) for question in chosen]
        if part == "train":
            told[0] = ImageText(
                CAPTION_QUESTION[self.settings.language], caption_of(scene, self.settings.language), "whole"
            )
        return told

    def measure(self, guesses: Sequence[str], looked: Sequence[NumberedText]) -> tuple[dict[str, float], list[str]]:
        right: dict[str, list[bool]] = defaultdict(list)
        for guess, truth, (_, one) in zip(guesses, self.truths(looked), looked, strict=True):
            right[one.topic].append(guess == truth)
        every = [is_right for some in right.values() for is_right in some]
        topics = {f"accuracy_of_{topic}": sum(some) / len(some) for topic, some in sorted(right.items()) if topic}
        return {"accuracy": sum(every) / len(every), **topics}, []

    def baselines(
        self, part: ImageSet, looked: Sequence[NumberedText]
    ) -> tuple[dict[str, dict[str, float]], list[str]]:
        """The most frequent training answer: to the same question, else in its topic, else overall."""
        if not len(self.train):
            return {}, [NO_TRAINING]
        to: dict[str, Counter[str]] = defaultdict(Counter)
        about: dict[str, Counter[str]] = defaultdict(Counter)
        for _, one in self.known():
            to[one.question or ""][one.text] += 1
            about[one.topic][one.text] += 1

        def most_frequent(topic: str) -> str:
            return (about.get(topic) or sum(about.values(), Counter())).most_common(1)[0][0]

        def by_question() -> dict[str, float]:
            found = (to.get(one.question or "") for _, one in looked)
            alone = [
                answers.most_common(1)[0][0] if answers else most_frequent(one.topic)
                for answers, (_, one) in zip(found, looked, strict=True)
            ]
            return self.measure(alone, looked)[0]

        def by_topic() -> dict[str, float]:
            return self.measure([most_frequent(one.topic) for _, one in looked], looked)[0]

        topic = "commonest answer of the topic" if self.is_built_in else "always the commonest answer"
        return self.compared({"the question alone": by_question, topic: by_topic})
