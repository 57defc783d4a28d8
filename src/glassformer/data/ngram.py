"""A character n-gram model with modified Kneser-Ney smoothing: the baseline of language models.

Interpolated (Kneser and Ney, 1995; Chen and Goodman, 1999, section 3). For a context h and the character w after it,

    p(w | h) = (c(hw) - D(c(hw))) / c(h)  +  g(h) p(w | h without its first character)

where D is a discount, less than 1 for a count of 1 and larger for larger counts, and g(h) redistributes exactly what
was discounted. The longest contexts use plain counts. For the shorter ones, c(hw) is the number of
different characters seen before hw: "Francisco" is frequent, but follows only "San". Below the shortest context is the
uniform distribution over the training alphabet plus one symbol for all other characters, so nothing has probability 0.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from math import log2

from glassformer.errors import InputError

TELL_EVERY = 10_000  # characters between two calls of `tell`
UNSEEN_CHARACTER = ""  # any character that is not in the training text
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
            counts = Counter(gram[1:] for gram in counts)  # how many different characters precede the rest
            if tell is not None:
                tell(len(text) // order)

    def probability(self, context: str, character: str) -> float:
        """The probability of this character (or UNSEEN_CHARACTER) after the last order - 1 characters of a context."""
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

        `tell` is called regularly with the number of characters read since the last call.
        """
        if not text:
            raise InputError("an empty text has no bits per byte: give the model something to predict")
        known, others = set(self.alphabet), CODE_POINTS - len(self.alphabet)
        bits = 0.0
        for place, character in enumerate(text):
            context = text[max(0, place - self.order + 1) : place]
            if tell is not None and place % TELL_EVERY == TELL_EVERY - 1:
                tell(TELL_EVERY)
            if character in known:
                bits -= log2(self.probability(context, character))
            else:
                bits -= log2(self.probability(context, UNSEEN_CHARACTER) / others)
        return bits / len(text.encode())


class BackoffEntry:
    """The followers of one context: the discounted probability of each character, and the back-off weight."""

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
    """The discounts of counts of 1, 2 and more (Chen and Goodman's equation 26), from the number of such counts.

    A discount is at least 0.1, so that no probability is 0. For a text too short for this rule, all discounts are 0.5.
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
    """Bits per byte on a test text, by the n-grams of a training text. `tell` is called with the number of
    characters of both that were read since the last call; it may raise an exception to stop."""
    model = CharacterNgram(train_text, order, tell)
    return model.bits_per_byte(test_text, tell)
