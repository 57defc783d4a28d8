"""Built-in data for classifiers: who arrived at which place, asked in words.

    Ada, Finn, Cleo and Ben came in one after the other: who was third?   ->   Cleo
    Dan, Eva and Ada finished one by one: who came right after Eva?       ->   Ada

Every answer needs two parts of the text at once: the question, and a name at the position it asks for. Attention joins
them. A bag of words sees the names but not their order, and a bag of word pairs sees neighbours but cannot relate them
to the question.

A list of names is either in training or held out, never both, so a model cannot score by remembering lists.
"""

import random
from itertools import permutations
from zlib import crc32

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn")
ORDINALS = ("first", "second", "third", "fourth")
STATEMENTS = (
    "{names} came in one after the other",
    "{names} crossed the line in this order",
    "{names} finished one by one",
)
COUNTS = {"training": 8000, "held out": 1000}


def arrival_examples(held_out: bool) -> list[tuple[str, str]]:
    """Texts and the names that answer them. The choice and the order are always the same."""
    side = "held out" if held_out else "training"
    rng = random.Random(f"arrivals {side}")
    lists = [names for count in (3, 4) for names in permutations(NAMES, count) if is_held_out(names) == held_out]
    examples = dict[str, str]()  # different texts, in the order in which they are drawn
    while len(examples) < COUNTS[side]:
        text, answer = make_example(rng.choice(lists), rng)
        examples[text] = answer
    return list(examples.items())


def is_held_out(names: tuple[str, ...]) -> bool:
    """One list in five, chosen by a hash of its names in their order."""
    return crc32(" ".join(names).encode()) % 5 == 0


def make_example(names: tuple[str, ...], rng: random.Random) -> tuple[str, str]:
    """A statement about these names, a question, and its answer."""
    kind = rng.choices(("ordinal", "last", "after"), weights=(3, 1, 1))[0]
    if kind == "ordinal":
        place = rng.randrange(len(names))
        asked = rng.choice((f"who came {ORDINALS[place]}?", f"who was {ORDINALS[place]}?"))
    elif kind == "last":
        place = len(names) - 1
        asked = rng.choice(("who came last?", "who was last?"))
    else:
        place = rng.randrange(1, len(names))
        asked = rng.choice((f"who came right after {names[place - 1]}?", f"who followed {names[place - 1]}?"))
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{rng.choice(STATEMENTS).format(names=listed)}: {asked}", names[place]
