"""Filters on logits before a token is chosen: pure functions from (B, V) to (B, V).

`penalised` applies to every way of choosing, `narrowed` to sampling only; both use the order of Hugging Face's
`generate`, so that the same call gives the same tokens. `history` (B, T) holds the tokens so far; the id V, one past
the vocabulary, means padding and is never penalised. Read next: `loop.py`.
"""

import torch
from torch import Tensor

from glassformer.config import as_ids
from glassformer.generation.plan import GenerationPlan


def penalised(logits: Tensor, history: Tensor, plan: GenerationPlan) -> Tensor:
    """Applies the penalties and bans of the settings, for every way of choosing."""
    settings, length = plan.settings, history.shape[1]
    if settings.repetition_penalty != 1:
        logits = repetition_penalty(logits, history, settings.repetition_penalty)
    if settings.no_repeat_ngram_size:
        logits = no_repeat_ngram(logits, history, settings.no_repeat_ngram_size)
    logits = without(logits, plan.bad_tokens)
    for word in plan.bad_words:
        logits = no_bad_word(logits, history, word)
    if length < plan.min_length:
        logits = without(logits, plan.eos)
    if settings.forced_bos_token_id is not None and length == 1:
        logits = only(logits, (settings.forced_bos_token_id,))
    if settings.forced_eos_token_id is not None and length == plan.max_length - 1:
        logits = only(logits, as_ids(settings.forced_eos_token_id))
    return without(logits, plan.suppressed)  # (B, V)


def narrowed(logits: Tensor, plan: GenerationPlan) -> Tensor:
    """Keeps the tokens that may be sampled; the others get a logit of -inf."""
    settings = plan.settings
    # A beam must be able to continue even if all end tokens are among the most likely tokens.
    at_least = 1 if settings.num_beams == 1 else max(2, 1 + len(plan.eos))
    if settings.temperature != 1:
        logits = logits / settings.temperature
    if settings.top_k:
        logits = top_k(logits, max(settings.top_k, at_least))
    if settings.top_p < 1:
        logits = top_p(logits, settings.top_p, at_least)
    return min_p(logits, settings.min_p, at_least) if settings.min_p else logits  # (B, V)


def repetition_penalty(logits: Tensor, history: Tensor, penalty: float) -> Tensor:
    """l / penalty where l > 0, l * penalty where l < 0, for every token of the history (CTRL: Keskar et al., 2019)."""
    lowered = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(among(history, logits), lowered, logits)


def no_repeat_ngram(logits: Tensor, history: Tensor, size: int) -> Tensor:
    """Bans tokens that would repeat an n-gram of `size` tokens in the history."""
    if history.shape[1] < size:
        return logits
    runs = history.unfold(1, size, 1)  # (B, T - size + 1, size)
    begun = history[:, history.shape[1] - size + 1 :]  # (B, size - 1)
    repeats = (runs[:, :, :-1] == begun[:, None]).all(dim=2)  # (B, T - size + 1)
    banned = runs[:, :, -1].masked_fill(~repeats, logits.shape[1])
    return logits.masked_fill(among(banned, logits), -torch.inf)


def no_bad_word(logits: Tensor, history: Tensor, word: Tensor) -> Tensor:
    """Bans the last token of a bad word whose other tokens were just generated."""
    written = len(word) - 1
    if written > history.shape[1]:
        return logits
    begun = (history[:, history.shape[1] - written :] == word[:-1]).all(dim=1)  # (B)
    banned = word[-1].where(begun, logits.shape[1])[:, None]  # (B, 1)
    return logits.masked_fill(among(banned, logits), -torch.inf)


def without(logits: Tensor, ids: Tensor) -> Tensor:
    return logits.index_fill(1, ids, -torch.inf) if len(ids) else logits


def only(logits: Tensor, ids: tuple[int, ...]) -> Tensor:
    return torch.full_like(logits, -torch.inf).index_fill(1, torch.tensor(ids, device=logits.device), 0.0)


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keeps the k most likely tokens, and any tied with the last of them (Fan et al., 2018)."""
    least = logits.topk(min(k, logits.shape[1])).values[:, -1:]  # (B, 1)
    return logits.masked_fill(logits < least, -torch.inf)


def top_p(logits: Tensor, p: float, at_least: int = 1) -> Tensor:
    """Keeps the smallest set of most likely tokens with a total probability of p (nucleus: Holtzman et al., 2020)."""
    rising, order = logits.sort(dim=1)  # (B, V)
    dropped = rising.softmax(dim=1).cumsum(dim=1) <= 1 - p
    dropped[:, -at_least:] = False
    return logits.masked_fill(dropped.scatter(1, order, dropped), -torch.inf)


def min_p(logits: Tensor, p: float, at_least: int = 1) -> Tensor:
    """Keeps the tokens with at least p times the probability of the most likely one (Nguyen et al., 2024)."""
    probabilities = logits.softmax(dim=1)  # (B, V)
    dropped = probabilities < p * probabilities.amax(dim=1, keepdim=True)
    likeliest = probabilities.topk(min(at_least, logits.shape[1])).indices  # (B, at_least)
    return logits.masked_fill(dropped.scatter(1, likeliest, False), -torch.inf)


def among(ids: Tensor, logits: Tensor) -> Tensor:
    """Which tokens of the vocabulary are among the ids of each row."""
    found = torch.zeros(len(logits), logits.shape[1] + 1, dtype=torch.bool, device=logits.device)  # (B, V + 1)
    return found.scatter_(1, ids, True)[:, :-1]  # (B, V)
