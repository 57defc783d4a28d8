"""Captions of scenes in English and Korean, and the facts that a caption states.

    a red circle, a blue square right of it, a green triangle above both
    빨간 원이 파란 사각형 왼쪽에 있고, 초록 삼각형이 둘의 위에 있다

Shapes come before their relation, in the order of the scene. A scene has one caption in each language, which describes
everything but exact positions and sizes.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from glassformer.data.scenes.scene import Colour, Relation, Scene, Shape, ShapeKind, opposite

Language = Literal["en", "ko"]
CAPTION_LANGUAGES: tuple[Language, ...] = get_args(Language)
# A shape such as ("red circle",), or its relation to another or to both such as ("red circle", "blue square", "right").
Fact = tuple[str, ...]


class CaptionWords(NamedTuple):
    """The words of one language, and its sentence templates for one, two and three shapes."""

    colours: dict[Colour, str]
    kinds: dict[ShapeKind, str]
    relations: dict[Relation, str]
    shape: str
    sentences: tuple[str, str, str]
    pair: str  # the part of a sentence that states the first relation
    both: str  # the part that states the second
    of_first: bool  # whether the first relation places the first shape relative to the second, or the reverse


CAPTION_WORDS: dict[Language, CaptionWords] = {
    "en": CaptionWords(
        colours={"red": "red", "green": "green", "blue": "blue", "yellow": "yellow"},
        kinds={"circle": "circle", "square": "square", "triangle": "triangle"},
        relations={"left": "left of", "right": "right of", "above": "above", "below": "below"},
        shape="{colour} {kind}",
        sentences=("a {a}", "a {a}, a {b} {pair} it", "a {a}, a {b} {pair} it, a {c} {both} both"),
        pair="a {a}, a {b} {relation} it",
        both="a {a} {relation} both",
        of_first=False,
    ),
    "ko": CaptionWords(
        colours={"red": "빨간", "green": "초록", "blue": "파란", "yellow": "노란"},
        kinds={"circle": "원", "square": "사각형", "triangle": "삼각형"},
        relations={"left": "왼쪽에", "right": "오른쪽에", "above": "위에", "below": "아래에"},
        shape="{colour} {kind}",
        sentences=("{a}이 있다", "{a}이 {b} {pair} 있다", "{a}이 {b} {pair} 있고, {c}이 둘의 {both} 있다"),
        pair="{a}이 {b} {relation} 있",
        both="{a}이 둘의 {relation} 있",
        of_first=True,
    ),
}


def shape_name(shape: Shape, language: Language = "en") -> str:
    words = CAPTION_WORDS[language]
    return words.shape.format(colour=words.colours[shape.colour], kind=words.kinds[shape.kind])


def caption_of(scene: Scene, language: Language = "en") -> str:
    """The caption of a scene: every shape with its colour, and their relations."""
    words = CAPTION_WORDS[language]
    names = dict(zip("abc", (shape_name(shape, language) for shape in scene.shapes), strict=False))
    found = scene.relations
    if found and words.of_first:
        found = (opposite(found[0]), *found[1:])
    relations = dict(zip(("pair", "both"), (words.relations[one] for one in found), strict=False))
    return words.sentences[len(scene.shapes) - 1].format(**names, **relations)


def facts_of(caption: str, language: Language = "en") -> set[Fact]:
    """The facts stated in a text: shapes with their colours, and relations. Other words are ignored."""
    words = CAPTION_WORDS[language]
    meaning: dict[str, str] = {
        word: name for table in (words.colours, words.kinds, words.relations) for name, word in table.items()
    }

    def any_of(group: str, choices: Iterable[str]) -> str:
        return f"(?P<{group}>{'|'.join(choices)})"

    def shape(group: str) -> str:
        colour, kind = any_of(f"{group}_colour", words.colours.values()), any_of(f"{group}_kind", words.kinds.values())
        return words.shape.format(colour=colour, kind=kind)

    def read(found: re.Match[str], group: str) -> str:
        return f"{meaning[found[f'{group}_colour']]} {meaning[found[f'{group}_kind']]}"

    parts = {"a": shape("a"), "b": shape("b"), "relation": any_of("relation", words.relations.values())}
    facts: set[Fact] = {(read(found, "a"),) for found in re.finditer(parts["a"], caption)}
    for found in re.finditer(words.pair.format(**parts), caption):
        facts.add((read(found, "a"), read(found, "b"), meaning[found["relation"]]))
    for found in re.finditer(words.both.format(**parts), caption):
        facts.add((read(found, "a"), "both", meaning[found["relation"]]))
    return facts


def share_of_facts(guess: str, truth: str, language: Language = "en") -> float:
    """Correct facts, divided by the number of true or of stated facts, whichever is larger."""
    stated, true = facts_of(guess, language), facts_of(truth, language)
    return len(stated & true) / max(len(stated), len(true), 1)
