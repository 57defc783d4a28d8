"""Questions about a scene with one right answer: colour, shape, count and relation, in English and Korean."""

from collections.abc import Iterator
from itertools import permutations
from typing import Literal, NamedTuple, get_args

from glassformer.data.scenes.make import HELD_OUT_PAIRS
from glassformer.data.scenes.scene import CLEAR, COLOURS, SHAPE_KINDS, Relation, Scene, Shape, relation_of
from glassformer.data.scenes.words import CAPTION_WORDS, Language, shape_name

Topic = Literal["colour", "shape", "count", "relation"]
TOPICS: tuple[Topic, ...] = get_args(Topic)


class Question(NamedTuple):
    """A question, its topic and answer, and whether it is about a held-out pair of colour and kind."""

    topic: Topic
    text: str
    answer: str
    held_out: bool


class Phrases(NamedTuple):
    """The question templates and answer words of one language."""

    colour: str
    shape: str
    all: str
    of_colour: str
    of_kind: str
    where: str
    plurals: dict[str, str]
    colours: dict[str, str]
    counts: tuple[str, ...]
    sides: dict[Relation, str]


PHRASES: dict[Language, Phrases] = {
    "en": Phrases(
        colour="what colour is the {kind}?",
        shape="what shape is {colour}?",
        all="how many shapes are there?",
        of_colour="how many {colour} shapes are there?",
        of_kind="how many {kind} are there?",
        where="on which side of the {b} is the {a}?",
        plurals={"circle": "circles", "square": "squares", "triangle": "triangles"},
        colours={"red": "red", "green": "green", "blue": "blue", "yellow": "yellow"},
        counts=("zero", "one", "two", "three"),
        sides={"left": "left", "right": "right", "above": "above", "below": "below"},
    ),
    "ko": Phrases(
        colour="{kind}은 무슨 색인가요?",
        shape="{colour} 도형은 무슨 모양인가요?",
        all="도형은 모두 몇 개인가요?",
        of_colour="{colour} 도형은 몇 개인가요?",
        of_kind="{kind}은 몇 개인가요?",
        where="{a}은 {b}의 어느 쪽에 있나요?",
        plurals={"circle": "원", "square": "사각형", "triangle": "삼각형"},
        colours={"red": "빨간색", "green": "초록색", "blue": "파란색", "yellow": "노란색"},
        counts=("0개", "1개", "2개", "3개"),
        sides={"left": "왼쪽", "right": "오른쪽", "above": "위쪽", "below": "아래쪽"},
    ),
}


def questions_of(scene: Scene, language: Language = "en") -> list[Question]:
    """Every question about a scene, by topic."""
    return [*colours(scene, language), *shapes(scene, language), *counts(scene, language), *relations(scene, language)]


def make(topic: Topic, text: str, answer: str, *about: Shape) -> Question:
    return Question(topic, text, answer, any((shape.colour, shape.kind) in HELD_OUT_PAIRS for shape in about))


def colours(scene: Scene, language: Language) -> Iterator[Question]:
    """Asks for the colour of each shape whose kind occurs once."""
    phrases, words = PHRASES[language], CAPTION_WORDS[language]
    for kind in SHAPE_KINDS:
        same = [shape for shape in scene.shapes if shape.kind == kind]
        if len(same) == 1:
            text = phrases.colour.format(kind=words.kinds[kind])
            yield make("colour", text, phrases.colours[same[0].colour], *same)


def shapes(scene: Scene, language: Language) -> Iterator[Question]:
    """Asks for the kind of each shape whose colour occurs once."""
    phrases, words = PHRASES[language], CAPTION_WORDS[language]
    for colour in COLOURS:
        same = [shape for shape in scene.shapes if shape.colour == colour]
        if len(same) == 1:
            yield make("shape", phrases.shape.format(colour=words.colours[colour]), words.kinds[same[0].kind], *same)


def counts(scene: Scene, language: Language) -> Iterator[Question]:
    """Asks for the number of shapes: all, of each colour, of each kind."""
    phrases, words = PHRASES[language], CAPTION_WORDS[language]
    yield make("count", phrases.all, phrases.counts[len(scene.shapes)], *scene.shapes)
    for colour in COLOURS:
        same = [shape for shape in scene.shapes if shape.colour == colour]
        text = phrases.of_colour.format(colour=words.colours[colour])
        yield make("count", text, phrases.counts[len(same)], *same)
    for kind in SHAPE_KINDS:
        same = [shape for shape in scene.shapes if shape.kind == kind]
        yield make("count", phrases.of_kind.format(kind=phrases.plurals[kind]), phrases.counts[len(same)], *same)


def relations(scene: Scene, language: Language) -> Iterator[Question]:
    """Asks on which side of another shape each shape is, if that is clear."""
    phrases = PHRASES[language]
    for a, b in permutations(scene.shapes, 2):
        if not is_clear(a, b):
            continue
        side = relation_of(a, b)
        names = {"a": shape_name(a, language), "b": shape_name(b, language)}
        yield make("relation", phrases.where.format(**names), phrases.sides[side], a, b)


def is_clear(a: Shape, b: Shape) -> bool:
    """Whether one direction clearly describes the relation of two shapes."""
    return abs(abs(a.x - b.x) - abs(a.y - b.y)) >= CLEAR
