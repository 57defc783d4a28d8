"""A character n-gram model with modified Kneser-Ney smoothing: what a language model must beat.

Interpolated (Kneser and Ney, 1995; Chen and Goodman, 1999, section 3). For a context h and the character w after it,

    p(w | h) = (c(hw) - D(c(hw))) / c(h)  +  g(h) p(w | h without its first character)

where D takes a little from every count, less than 1 from a count of 1 and more from larger ones, and g(h) hands on
just what was taken. The longest contexts are counted as they come. For the shorter ones, c(hw) is the number of
different characters seen before hw: "Francisco" is frequent, but follows only "San". Below the shortest stands the
uniform distribution over the alphabet of training and one place for all other characters, so nothing is impossible.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from math import log2

from glassformer.errors import InputError

TOLD = 10_000  # characters between two calls of `tell`
UNKNOWN = ""  # any character that training does not have
CODE_POINTS = 0x110000 - 0x800  # of Unicode, without the surrogates


class CharacterNgram:
    """Counts of a training text, for contexts of 0 to order - 1 characters."""

    def __init__(self, text: str, order: int = 5, tell: Callable[[int], None] | None = None) -> None:
        if order < 1:
            raise InputError(f"order {order}: expected at least 1, the characters of the longest count")
        if len(text) < order:
            raise InputError(f"a training text of {len(text)} characters is too short for {order}-grams")
        self.order = order
        self.alphabet = sorted(set(text))
        counts = Counter(text[start : start + order] for start in range(len(text) - order + 1))
        self.levels: list[dict[str, BackoffEntry]] = []
        for _ in range(order):
            self.levels.insert(0, contexts(counts))
            counts = Counter(gram[1:] for gram in counts)  # how many different characters stood before the rest
            if tell is not None:
                tell(len(text) // order)

    def probability(self, context: str, character: str) -> float:
        """Of this character, or of UNKNOWN, after the last order - 1 characters of this context."""
        probability = 1 / (len(self.alphabet) + 1)
        context = context[max(0, len(context) - self.order + 1) :]
        for length in range(min(len(context), self.order - 1) + 1):
            seen = self.levels[length].get(context[len(context) - length :])
            if seen is None:  # nor was any longer one
                break
            probability = seen.kept.get(character, 0.0) + seen.handed_on * probability
        return probability

    def bits_per_byte(self, text: str, tell: Callable[[int], None] | None = None) -> float:
        """Cross-entropy of a text, divided by its length in UTF-8. An unknown character may be any other of Unicode.

        `tell` is called now and then with how many characters were read since.
        """
        if not text:
            raise InputError("an empty text has no bits per byte: give the model something to predict")
        known, others = set(self.alphabet), CODE_POINTS - len(self.alphabet)
        bits = 0.0
        for place, character in enumerate(text):
            context = text[max(0, place - self.order + 1) : place]
            if tell is not None and place % TOLD == TOLD - 1:
                tell(TOLD)
            if character in known:
                bits -= log2(self.probability(context, character))
            else:
                bits -= log2(self.probability(context, UNKNOWN) / others)
        return bits / len(text.encode())


class BackoffEntry:
    """What followed one context: the part of the probability each character keeps, and the part that is handed on."""

    __slots__ = ("handed_on", "kept")

    def __init__(self, followers: dict[str, int], discounts: tuple[float, float, float]) -> None:
        total = sum(followers.values())
        taken = {character: discounts[min(count, 3) - 1] for character, count in followers.items()}
        self.kept = {character: (count - taken[character]) / total for character, count in followers.items()}
        self.handed_on = sum(taken.values()) / total


def contexts(counts: Counter[str]) -> dict[str, BackoffEntry]:
    followers: dict[str, dict[str, int]] = defaultdict(dict)
    for gram, count in counts.items():
        followers[gram[:-1]][gram[-1]] = count
    discounts = find_discounts(counts)
    return {context: BackoffEntry(seen, discounts) for context, seen in followers.items()}


def find_discounts(counts: Counter[str]) -> tuple[float, float, float]:
    """What is taken from counts of 1, 2 and more (Chen and Goodman's equation 26), from how many counts are that small.

    At least 0.1 is taken, so that no probability is 0. A text too short for this rule has 0.5 taken from all.
    """
    frequency = Counter(counts.values())
    ones, twos, threes, fours = (frequency[count] for count in (1, 2, 3, 4))
    if not (ones and twos and threes and fours):
        return 0.5, 0.5, 0.5
    share = ones / (ones + 2 * twos)
    found = (1 - 2 * share * twos / ones, 2 - 3 * share * threes / twos, 3 - 4 * share * fours / threes)
    one, two, three = (min(max(value, 0.1), most) for value, most in zip(found, (1.0, 2.0, 3.0), strict=True))
    return one, two, three


def character_ngram(
    train_text: str, test_text: str, order: int = 5, tell: Callable[[int], None] | None = None
) -> float:
    """Bits per byte on a test text, by the n-grams of a training text. `tell` is called with how many characters of
    both were read since it was called last: where they take too long, it may raise an exception."""
    model = CharacterNgram(train_text, order, tell)
    return model.bits_per_byte(test_text, tell)
