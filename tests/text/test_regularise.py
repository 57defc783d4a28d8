"""Subword regularisation: the usual tokens at rate 0, always the same text, and the right probabilities."""

import gc
import json
import weakref
from collections import Counter
from itertools import combinations, pairwise
from math import exp, sqrt
from random import Random

import pytest
import tokenizers
from helpers.shared import shared

from glassformer.data.dates import date_pairs
from glassformer.errors import InputError
from glassformer.text import Tokenizer, load_tokenizer, train_tokenizer
from glassformer.text.regularise import merge, sample_ids, samplers
from glassformer.text.train import TokenizerKind

LINES = [text for pair in date_pairs(1500, seed=0) for text in (pair.source, pair.target)]
ODD = ["", "  ", "zzz 😀 noon", "<s>noon</s> <unk>", "May\tMay\n\nMay"]
KINDS: tuple[TokenizerKind, ...] = ("bpe", "bytes", "unigram")


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(LINES, 600, request.param)


def test_without_a_rate_the_ids_are_the_usual_ones(tokenizer: Tokenizer) -> None:
    for text in [*LINES[:300], *ODD]:
        assert sample_ids(tokenizer, text, rate=0, rng=Random(0)) == tokenizer.ids(text)


def test_the_text_stays_the_same(tokenizer: Tokenizer) -> None:
    rng, different = Random(0), 0
    for text in [*LINES[:300], *ODD]:
        for rate in (0.1, 0.5, 1):
            ids = sample_ids(tokenizer, text, rate=rate, rng=rng)
            assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.ids(text))
            different += ids != tokenizer.ids(text)
    assert different > 500


def test_the_seed_decides(tokenizer: Tokenizer) -> None:
    def draw(seed: int) -> list[list[int]]:
        rng = Random(seed)
        return [sample_ids(tokenizer, text, rate=0.3, rng=rng) for text in LINES[:50]]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_merges_are_done_as_the_library_does_them(kind: TokenizerKind) -> None:
    lines = shared("ko-en/bible.dev.ko").read_text(encoding="utf-8").split("\n")
    lines += shared("multi30k/val.de").read_text(encoding="utf-8").split("\n")
    backend = train_tokenizer(lines, 3000, kind).backend
    ranks = {tuple(pair): rank for rank, pair in enumerate(json.loads(backend.to_str())["model"]["merges"])}
    checked = 0
    for line in lines:
        text = backend.normalizer.normalize_str(line) if backend.normalizer else line
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(text):
            expected = [token.value for token in backend.model.tokenize(word)]
            if "<unk>" not in expected:
                assert merge(word, ranks, iter(lambda: False, True)) == expected
                checked += 1
    assert checked > 20_000


def test_a_real_tokenizer_with_bytes_for_what_it_does_not_know() -> None:
    tokenizer = load_tokenizer(shared("checkpoints/stories260K"))
    for text in ("Once upon a time, 하늘", "There was a little girl"):
        assert sample_ids(tokenizer, text, rate=0, rng=Random(0)) == tokenizer.ids(text)
        for seed in range(20):
            ids = sample_ids(tokenizer, text, rate=0.3, rng=Random(seed))
            assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.ids(text))


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_merges_are_forgotten_as_often_as_the_library_forgets_them(rate: float) -> None:
    tokenizer, draws, word = train_tokenizer(LINES, 600), 8000, "September"
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.model.dropout = rate
    theirs = Counter(tuple(backend.encode(word).ids) for _ in range(draws))
    rng = Random(0)
    ours = Counter(tuple(sample_ids(tokenizer, word, rate=rate, rng=rng)) for _ in range(draws))
    assert len(theirs) > 3
    for ids in theirs | ours:
        expected = (theirs[ids] + ours[ids]) / 2
        assert abs(theirs[ids] - ours[ids]) < 6 * sqrt(2 * expected) + 6, (ids, theirs[ids], ours[ids])


def test_segmentations_are_drawn_by_their_probability() -> None:
    pieces = {"a": -1.0, "b": -2.0, "c": -1.5, "ab": -1.2, "bc": -2.5, "abc": -3.0, "ca": -0.5}
    backend = tokenizers.Tokenizer(tokenizers.models.Unigram([("<unk>", 0.0), *pieces.items()], 0, False))
    tokenizer, word, alpha, draws = Tokenizer(backend, {"unk_token": "<unk>"}), "abcabc", 0.5, 20_000
    weights: dict[tuple[int, ...], float] = {}
    for count in range(len(word)):
        for cuts in combinations(range(1, len(word)), count):
            edges = [0, *cuts, len(word)]
            parts = [word[start:end] for start, end in pairwise(edges)]
            if all(part in pieces for part in parts):
                ids = tuple(tokenizer.id_of(part) for part in parts)
                weights[ids] = exp(alpha * sum(pieces[part] for part in parts))
    rng = Random(0)
    drawn = Counter(tuple(sample_ids(tokenizer, word, rate=1, rng=rng, alpha=alpha)) for _ in range(draws))
    assert set(drawn) <= set(weights)
    for ids, weight in weights.items():
        expected = draws * weight / sum(weights.values())
        assert abs(drawn[ids] - expected) < 5 * sqrt(expected) + 5
    half = Counter(tuple(sample_ids(tokenizer, word, rate=0.5, rng=rng, alpha=alpha)) for _ in range(draws))
    usual = tuple(tokenizer.ids(word))
    share = 0.5 + 0.5 * weights[usual] / sum(weights.values())
    assert abs(half[usual] / draws - share) < 0.02


def test_what_cannot_be_sampled_is_named() -> None:
    tokenizer = train_tokenizer(LINES, 600, "wordpiece")
    with pytest.raises(InputError, match="subword regularisation of a WordPiece tokenizer: expected BPE"):
        sample_ids(tokenizer, "May", rate=0.1, rng=Random(0))
    with pytest.raises(InputError, match=r"subword regularisation rate 1\.5: expected a probability"):
        sample_ids(tokenizer, "May", rate=1.5, rng=Random(0))


def test_a_tokenizer_that_is_no_longer_used_can_go() -> None:
    tokenizer = train_tokenizer(LINES[:100], 100)
    sample_ids(tokenizer, "May", rate=0.5, rng=Random(0))
    assert tokenizer in samplers
    gone = weakref.ref(tokenizer)
    del tokenizer
    gc.collect()
    assert gone() is None
