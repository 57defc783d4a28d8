"""Subword regularisation: tokenises the same text differently each time, for robustness.

BPE-dropout (Provilkov et al., 2020) skips each merge with some probability. For unigram models a segmentation is
sampled by its probability (Kudo, 2018): a forward pass sums over all segmentations up to each character, then the
pieces are sampled backwards. The library can do the first, but not from a seed; here only `rng` decides.
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

ALPHA = 0.2  # exponent of the unigram probabilities: 0 samples uniformly, 1 by probability
CACHE = 1 << 18  # number of texts, and of words, whose usual tokens are cached
BYTE = re.compile(r"<0x[0-9A-F]{2}>")

Word = tuple[str, tuple[int, ...]]  # as the tokenizer spells it, and its usual ids
Sample = Callable[[list[Word], float, Random, float], list[int]]
samplers: WeakKeyDictionary[Tokenizer, tuple[Callable[[str], list[Word]], Sample]] = WeakKeyDictionary()


def sample_ids(tokenizer: Tokenizer, text: str, *, rate: float, rng: Random, alpha: float = ALPHA) -> list[int]:
    """Sampled ids of the text with its special tokens; they decode to the same text as `tokenizer.ids(text)`.

    BPE: `rate` is the probability of skipping a merge (0.1 in the paper). Unigram: `rate` is the probability that a
    word is sampled at all (1 in the paper), from the probabilities to the power `alpha`. A rate of 0 changes nothing.
    """
    if not 0 <= rate <= 1:
        raise InputError(f"subword regularisation rate {rate}: expected a probability, 0 to 1")
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
        f"subword regularisation of a {model['type']} tokenizer: expected BPE (without prefix or suffix) or unigram. "
        "Set its rate to 0, or train another tokenizer"
    )


def word_reader(tokenizer: Tokenizer) -> Callable[[str], list[Word]]:
    """Splits a text into words, cached for the next epoch. Words that must not be sampled have an empty spelling."""
    # Not the tokenizer itself: it is the weak key of the cache and must not be kept alive.
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
            elif kept >= (needed := usual_merges(word)):  # no merge is skipped: the common case is free
                kept -= needed
                ids += usual
            else:
                forgets = MergeDropout(kept, rate, rng)
                ids += [vocabulary[piece] for piece in merge(word, ranks, forgets)]
                kept = forgets.kept
        return ids

    return sample


class MergeDropout(Iterator[bool]):
    """Decides for each merge in turn whether it is skipped, after `kept` that are not."""

    def __init__(self, kept: int, rate: float, rng: Random) -> None:
        self.kept, self.rate, self.rng = kept, rate, rng

    def __next__(self) -> bool:
        self.kept -= 1
        if self.kept >= 0:
            return False
        self.kept = kept_in_a_row(self.rate, self.rng)
        return True


def kept_in_a_row(rate: float, rng: Random) -> int:
    """How many merges are done before one is skipped: a single draw instead of one per merge."""
    return 0 if rate == 1 else int(log(1 - rng.random()) / log1p(-rate))


def merge(word: str, ranks: dict[tuple[str, ...], int], forgets: Iterator[bool]) -> list[str]:
    """Merges the best pair of neighbours repeatedly; a skipped pair waits for the next turn.

    Every pair may be skipped at every turn, but only pairs ranked before the best kept one need a draw.
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
            continue  # one of the two has already been merged
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
        """For each position: the running sum of the weights of pieces that end there, their starts and their ids."""
        total = [0.0]  # log weight of all segmentations up to here
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
