"""Sub-word regularisation: the same text cut in another way each time, so that a model learns what tokens are made of.

BPE-dropout (Provilkov et al., 2020) forgets each merge with some probability while it cuts a word. For unigram models a
segmentation is drawn by its probability (Kudo, 2018): forwards the sums over all ways to cut up to each character, then
backwards the pieces one by one. The library can do the first, but not from a seed; here `rng` decides alone.
"""

import json
import re
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate, groupby
from math import exp, inf, log, log1p
from operator import itemgetter
from random import Random
from weakref import WeakKeyDictionary

from glassformer.errors import InputError
from glassformer.text.tokenizer import Tokenizer

ALPHA = 0.2  # how far the probabilities of unigram segmentations count: 0 not at all, 1 as they are
CACHE = 1 << 18  # texts, and as many words, of which the usual cut is kept
BYTE = re.compile(r"<0x[0-9A-F]{2}>")

Word = tuple[str, tuple[int, ...]]  # as the tokenizer spells it, and its usual ids
Sample = Callable[[list[Word], float, Random, float], list[int]]
samplers: WeakKeyDictionary[Tokenizer, tuple[Callable[[str], list[Word]], Sample]] = WeakKeyDictionary()


def sample_ids(tokenizer: Tokenizer, text: str, *, rate: float, rng: Random, alpha: float = ALPHA) -> list[int]:
    """Ids of the text, with the special tokens around it, that decode as `tokenizer.ids(text)` does.

    BPE: `rate` is the probability that a merge is forgotten (0.1 in the paper). Unigram: it is the probability that a
    word is drawn at all, 1 in the paper, from the probabilities to the power `alpha`. With a rate of 0 all is as usual.
    """
    if not 0 <= rate <= 1:
        raise InputError(f"rate {rate} of sub-word regularisation: expected a probability, 0 to 1")
    if tokenizer not in samplers:
        samplers[tokenizer] = word_reader(tokenizer), sampler_of(tokenizer)
    words_of, sample = samplers[tokenizer]
    words = words_of(text)
    if rate == 0:
        return [i for _, ids in words for i in ids]
    return sample(words, rate, rng, alpha)


def sampler_of(tokenizer: Tokenizer) -> Sample:
    model = json.loads(tokenizer.backend.to_str())["model"]
    if model["type"] == "Unigram":
        return unigram_sampler(model["vocab"])
    if model["type"] == "BPE" and not (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")):
        return bpe_sampler(
            model["vocab"], [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
        )
    raise InputError(
        f"sub-word regularisation of a {model['type']} tokenizer: expected BPE (without prefix or suffix) or unigram. "
        "Set its rate to 0, or train another tokenizer"
    )


def word_reader(tokenizer: Tokenizer) -> Callable[[str], list[Word]]:
    """Cuts a text into words, kept for the next epoch. What may not be cut anew has an empty spelling."""
    # Not the tokenizer itself: it is the key under which this reader is kept, and must be free to go.
    backend, lock = tokenizer.backend, tokenizer.lock
    whole = {tokenizer.unk_token_id, *backend.get_added_tokens_decoder()}
    whole |= {i for token, i in backend.get_vocab().items() if BYTE.fullmatch(token)}

    @lru_cache(maxsize=CACHE)
    def words_of(text: str) -> list[Word]:
        with lock:
            encoded = backend.encode(text)
        words: list[Word] = []
        for number, group in groupby(
            zip(encoded.word_ids, encoded.ids, encoded.tokens, strict=True), key=itemgetter(0)
        ):
            _, ids, spelled = zip(*group, strict=True)
            cuttable = number is not None and whole.isdisjoint(ids)
            words.append(("".join(spelled) if cuttable else "", ids))
        return words

    return words_of


def bpe_sampler(vocabulary: dict[str, int], merges: list[tuple[str, ...]]) -> Sample:
    ranks = {pair: rank for rank, pair in enumerate(merges)}

    @lru_cache(maxsize=CACHE)
    def usual_merges(word: str) -> int:
        return len(word) - len(merge(word, ranks, iter(lambda: False, True)))

    def sample(words: list[Word], rate: float, rng: Random, alpha: float) -> list[int]:
        ids: list[int] = []
        kept = kept_in_a_row(rate, rng)
        for word, usual in words:
            if not word:
                ids += usual
            elif kept >= (needed := usual_merges(word)):  # none is forgotten: the common case costs nothing
                kept -= needed
                ids += usual
            else:
                forgets = Coins(kept, rate, rng)
                ids += [vocabulary[piece] for piece in merge(word, ranks, forgets)]
                kept = forgets.kept
        return ids

    return sample


class Coins(Iterator[bool]):
    """Whether each merge in turn is forgotten, after `kept` that are not."""

    def __init__(self, kept: int, rate: float, rng: Random) -> None:
        self.kept, self.rate, self.rng = kept, rate, rng

    def __next__(self) -> bool:
        self.kept -= 1
        if self.kept >= 0:
            return False
        self.kept = kept_in_a_row(self.rate, self.rng)
        return True


def kept_in_a_row(rate: float, rng: Random) -> int:
    """How many merges are done before one is forgotten: a single draw instead of one for each."""
    return 0 if rate == 1 else int(log(1 - rng.random()) / log1p(-rate))


def merge(word: str, ranks: dict[tuple[str, ...], int], forgets: Iterator[bool]) -> list[str]:
    """The best pair of neighbours becomes one, again and again; a pair that is forgotten waits for the next turn.

    At every turn each pair may be forgotten, but a coin is only thrown for those that stand before the best one kept.
    """
    pieces: list[str] = list(word)
    after, before = list(range(1, len(pieces) + 1)), list(range(-1, len(pieces) - 1))

    def candidate(left: int) -> tuple[int, int, str, str] | None:
        right = after[left]
        if left < 0 or right >= len(pieces):
            return None
        rank = ranks.get((pieces[left], pieces[right]))
        return None if rank is None else (rank, left, pieces[left], pieces[right])

    heap = [found for left in range(len(pieces) - 1) if (found := candidate(left))]
    heapify(heap)
    forgotten: list[tuple[int, int, str, str]] = []
    while heap:
        best = heappop(heap)
        _, left, first, second = best
        right = after[left]
        if pieces[left] != first or right >= len(pieces) or pieces[right] != second:
            continue  # one of the two has since become part of another
        if next(forgets):
            forgotten.append(best)
            continue
        pieces[left], pieces[right] = first + second, ""
        after[left] = after[right]
        if after[right] < len(pieces):
            before[after[right]] = left
        for found in (candidate(before[left]) if before[left] >= 0 else None, candidate(left)):
            if found:
                heappush(heap, found)
        for waiting in forgotten:
            heappush(heap, waiting)
        forgotten.clear()
    return [piece for piece in pieces if piece]


def unigram_sampler(vocabulary: list[tuple[str, float]]) -> Sample:
    scores = {piece: (i, score) for i, (piece, score) in enumerate(vocabulary) if not BYTE.fullmatch(piece)}
    longest = max(len(piece) for piece in scores)

    @lru_cache(maxsize=CACHE)
    def lattice(word: str, alpha: float) -> list[tuple[list[float], list[int], list[int]]]:
        """For each end of a piece: the running sum of the weights of those that may end there, their starts and ids."""
        total = [0.0]  # the logarithm of the weight of all ways to cut up to here
        columns = []
        for end in range(1, len(word) + 1):
            starts = range(max(0, end - longest), end)
            begins = [start for start in starts if total[start] > -inf and word[start:end] in scores]
            pieces = [scores[word[start:end]] for start in begins]
            weights = [total[start] + alpha * score for start, (_, score) in zip(begins, pieces, strict=True)]
            highest = max(weights, default=-inf)
            sums = list(accumulate(exp(weight - highest) for weight in weights))
            total.append(highest + log(sums[-1]) if sums else -inf)
            columns.append((sums, begins, [i for i, _ in pieces]))
        return columns

    def sample(words: list[Word], rate: float, rng: Random, alpha: float) -> list[int]:
        ids: list[int] = []
        for word, usual in words:
            if not word or rng.random() >= rate:
                ids += usual
                continue
            columns, end, drawn = lattice(word, alpha), len(word), []
            while end:
                sums, begins, pieces = columns[end - 1]
                chosen = min(bisect(sums, rng.random() * sums[-1]), len(sums) - 1)
                drawn.append(pieces[chosen])
                end = begins[chosen]
            ids += reversed(drawn)
        return ids

    return sample
