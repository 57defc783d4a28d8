"""Each filter against the Hugging Face class that does the same."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers.generation import logits_process as theirs

from glassformer.generation import filters

VOCAB = 11


def examples() -> list[tuple[Tensor, Tensor]]:
    """Histories of few ids, with repetitions, and logits of both signs, some of them already -inf."""
    torch.manual_seed(0)
    pairs = []
    for length in (1, 2, 3, 9, 30):
        logits = torch.randn(6, VOCAB) * 3
        logits[0, 3:6] = -torch.inf
        logits[1, 2:4] = logits[1, 0]  # equally likely
        pairs.append((torch.randint(0, VOCAB, (6, length)), logits))
    return pairs


BAD_WORDS = [[4], [7, 3], [1, 2, 3], [0, 0]]
Filter = Callable[[Tensor, Tensor], Tensor]
CASES: dict[str, tuple[Filter, theirs.LogitsProcessor]] = {
    f"repetition_penalty={penalty}": (
        lambda history, logits, penalty=penalty: filters.repetition_penalty(logits, history, penalty),
        theirs.RepetitionPenaltyLogitsProcessor(penalty),
    )
    for penalty in (0.5, 1.3, 4.0)
}
CASES |= {
    f"no_repeat_ngram={size}": (
        lambda history, logits, size=size: filters.no_repeat_ngram(logits, history, size),
        theirs.NoRepeatNGramLogitsProcessor(size),
    )
    for size in (1, 2, 3, 4)
}
CASES |= {
    f"top_k={k}": (lambda _, logits, k=k: filters.top_k(logits, k), theirs.TopKLogitsWarper(k)) for k in (1, 3, 50)
}
CASES |= {
    f"{mine.__name__}={p}, at least {n}": (
        lambda _, logits, mine=mine, p=p, n=n: mine(logits, p, n),
        warper(p, min_tokens_to_keep=n),
    )
    for mine, warper in ((filters.top_p, theirs.TopPLogitsWarper), (filters.min_p, theirs.MinPLogitsWarper))
    for p in (0.0, 0.1, 0.5, 0.9, 1.0)
    for n in (1, 3)
}
CASES |= {
    "bad words": (
        lambda history, logits: no_bad_words(history, logits),
        theirs.NoBadWordsLogitsProcessor(BAD_WORDS),
    ),
    "without": (
        lambda _, logits: filters.without(logits, torch.tensor([2, 5])),
        theirs.SuppressTokensLogitsProcessor([2, 5]),
    ),
    "only": (
        lambda history, logits: filters.only(logits, (2, 5)) if history.shape[1] == 8 else logits,
        theirs.ForcedEOSTokenLogitsProcessor(9, [2, 5]),
    ),
}


def no_bad_words(history: Tensor, logits: Tensor) -> Tensor:
    for word in BAD_WORDS:
        logits = filters.no_bad_word(logits, history, torch.tensor(word))
    return logits


@pytest.mark.parametrize("name", CASES)
def test_a_filter_is_that_of_hugging_face(name: str) -> None:
    mine, other = CASES[name]
    for history, logits in examples():
        before = logits.clone()
        assert torch.equal(mine(history, logits), other(history, logits.clone()))
        assert torch.equal(logits, before), "a filter changes nothing in place"


def test_padding_is_never_penalised() -> None:
    """The id past the vocabulary means padding."""
    history = torch.tensor([[VOCAB, VOCAB, VOCAB, 3, 4, 3]])
    logits = torch.arange(VOCAB, dtype=torch.float)[None] + 1
    penalised = filters.repetition_penalty(logits, history, 2.0)
    assert (penalised != logits).nonzero()[:, 1].tolist() == [3, 4]
    assert filters.no_repeat_ngram(logits, history, 2).isinf().nonzero()[:, 1].tolist() == [4]
    assert torch.equal(filters.no_repeat_ngram(logits, history, 4), logits)
