"""Built-in data: Python's language reference, which comes with every Python in `pydoc_data.topics`.

It is what `help("for")` prints: some 80 topics of English prose, grammar rules, tables and code, about 450,000
characters. Nothing has to be downloaded. The text differs a little between Python versions, so scores are comparable
only within one version.

Topics overlap: "compound" holds all of "if" and "while" again. Each paragraph therefore stays only in the shortest
topic that contains it, so nothing held out occurs in training.

Two tasks are made of it. For language models, `documentation_split`: running text. For classifiers,
`documentation_examples`: a few words with a gap in them, and which of eight small words is missing (a cloze test:
Taylor, 1953). All kinds of sentences contain these eight words, so the other words of a passage say little, but their
order says much:

    The "if" statement is used ___ conditional execution:   ->   for
"""

import random
import re
from functools import cache
from pydoc_data.topics import topics
from zlib import crc32

BLANK = "___"
GAP_WORDS = ("a", "and", "for", "in", "is", "of", "the", "to")
AROUND = 5  # words on either side of a gap; fewer at the end of a sentence
MAX_EXAMPLES = {"training": 1500, "held out": 120}  # examples per word, so that the classes stay balanced

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"*])")
LIST_MARK = re.compile(r"^(?:\*|\d+\.|\[\d+\]|\(\d+\))\s+")
PLAIN_WORD = re.compile(r"[\"*(]*[A-Za-z’'-]+[\"*).,;:]*")


@cache
def documentation_texts() -> dict[str, str]:
    """Topic -> text as printed, without blank lines around it, and with a single `\\n` at the end."""
    return {name: topics[name].strip("\n") + "\n" for name in sorted(topics)}


def documentation_split() -> tuple[str, str]:
    """Training text and held-out text (about a tenth): whole topics, without repeated paragraphs."""
    sides: dict[bool, list[str]] = {False: [], True: []}
    for name, passages in paragraphs().items():
        sides[is_held_out(name)].extend(passages)
    return "\n\n".join(sides[False]) + "\n", "\n\n".join(sides[True]) + "\n"


def documentation_examples(held_out: bool) -> list[tuple[str, str]]:
    """Passages with one gap and the missing word. The choice and the order are always the same.

    No topic and no identical passage is on both sides.
    """
    side, gaps = "held out" if held_out else "training", cut_gaps(held_out)
    if not held_out:
        unseen = {text for texts in cut_gaps(True).values() for text in texts}
        gaps = {word: [text for text in texts if text not in unseen] for word, texts in gaps.items()}
    rng = random.Random(f"documentation {side}")
    chosen = []
    for word, texts in gaps.items():
        chosen += [(text, word) for text in rng.sample(texts, min(MAX_EXAMPLES[side], len(texts)))]
    rng.shuffle(chosen)
    return chosen


def cut_gaps(held_out: bool) -> dict[str, list[str]]:
    """Every occurrence of the words with its context: word -> different passages."""
    gaps: dict[str, dict[str, None]] = {word: {} for word in GAP_WORDS}  # a dict, as a set has no order
    for name, passages in paragraphs().items():
        if is_held_out(name) == held_out:
            for sentence in (sentence for passage in passages for sentence in sentences(passage)):
                words = sentence.split()
                for place, word in enumerate(words):
                    if word in gaps:
                        before, after = words[max(0, place - AROUND) : place], words[place + 1 : place + 1 + AROUND]
                        gaps[word][" ".join([*before, BLANK, *after])] = None
    return {word: list(texts) for word, texts in gaps.items()}


def is_held_out(topic: str) -> bool:
    """One topic in ten, chosen by a hash of its name, so that a new topic does not move others."""
    return crc32(f"topic {topic}".encode()) % 10 == 1


@cache
def paragraphs() -> dict[str, list[str]]:
    """Topic -> its paragraphs that are in no shorter topic."""
    texts, owner = documentation_texts(), dict[str, str]()
    for name in sorted(texts, key=lambda name: (len(texts[name]), name)):
        for passage in split_paragraphs(texts[name]):
            owner.setdefault(joined(passage), name)
    own: dict[str, list[str]] = {}
    for name, text in texts.items():
        once = {joined(passage): passage for passage in split_paragraphs(text)}
        own[name] = [passage for key, passage in once.items() if owner[key] == name]
    return own


def split_paragraphs(text: str) -> list[str]:
    return [passage for passage in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")) if passage.strip()]


def sentences(passage: str) -> list[str]:
    """The sentences of a paragraph of prose, each on one line. A table, grammar rule or piece of code has none."""
    text = LIST_MARK.sub("", joined(passage))
    return [sentence for sentence in SENTENCE_END.split(text) if is_prose(sentence)]


def is_prose(sentence: str) -> bool:
    """Whether it goes from a capital or a quoted name to a full stop, with 6 to 40 words, nearly all plain."""
    words = sentence.split()
    plain = sum(PLAIN_WORD.fullmatch(word) is not None for word in words)
    begins, ends = sentence[0].isupper() or sentence[0] in '"*', sentence[-1] in ".:!?"
    return begins and ends and 6 <= len(words) <= 40 and plain >= 0.8 * len(words)


def joined(passage: str) -> str:
    """A paragraph on one line, without its line ends and indents."""
    return " ".join(passage.split())
