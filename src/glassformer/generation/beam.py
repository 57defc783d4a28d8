"""Beam search: N texts are written side by side for each source, and the best that ended are kept apart.

    score(y) = sum_t log p(y_t | y_<t) / |y|^length_penalty        |y| counts new tokens, the end token too

Each step ranks the N V continuations of a source by their sum of log p and looks at the first K = N max(2, 1 + E) of
them, E the number of end tokens, so that N are left to go on. Those that end, or are as long as allowed, join the best
N ended texts if they are among the first N. A source is settled, and nothing joins any more, when

    early_stopping=True      N texts have ended;
    early_stopping=False     the best running sum, divided as if it ended now, is not above the worst ended score;
    early_stopping="never"   as False, but divided as if it ended at max_length where length_penalty > 0: no running
                             text can win.

This is the search of Hugging Face's `generate`, and gives its texts. Functions on log-probabilities; `loop.py` runs
the model.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.generation.plan import Plan

HOPELESS = -1e9  # below the score of any text


@dataclass(frozen=True, kw_only=True)
class Beams:
    """The texts that are being written, and those that ended; both best first."""

    ids: Tensor  # (B, N, T)
    sums: Tensor  # (B, N), of log p
    ended_ids: Tensor  # (B, N, T)
    ended_scores: Tensor  # (B, N)
    ended_lengths: Tensor  # (B, N), new tokens; 0 while nothing stands in that place
    is_open: Tensor  # (B, 1), whether the source is not settled

    @property
    def have_ended(self) -> Tensor:
        return (self.ended_lengths > 0).all(dim=1, keepdim=True)  # (B, 1)


def begin(prompt: Tensor, num_beams: int) -> Beams:
    """All beams stand at the prompt; only the first has hope, lest all write the same."""
    ids = prompt[:, None].expand(-1, num_beams, -1)  # (B, N, T)
    hopeless = torch.full(ids.shape[:2], HOPELESS, device=ids.device)  # (B, N)
    return Beams(
        ids=ids,
        sums=hopeless.index_fill(1, torch.zeros(1, dtype=torch.long, device=ids.device), 0.0),
        ended_ids=ids,
        ended_scores=hopeless,
        ended_lengths=torch.zeros_like(hopeless, dtype=torch.long),
        is_open=torch.ones_like(hopeless[:, :1], dtype=torch.bool),
    )


def advance(
    beams: Beams, log_probabilities: Tensor, plan: Plan, generator: torch.Generator | None
) -> tuple[Beams, Tensor, Tensor]:
    """One token more, from log p (B, N, V). Also which row each beam goes on from (B N), and whether all is over ()."""
    num_beams, vocab_size = log_probabilities.shape[1:]
    sums = (log_probabilities + beams.sums[:, :, None]).flatten(1)  # (B, N V)
    sums, chosen = candidates(sums, num_beams * max(2, 1 + len(plan.eos)), plan.settings.do_sample, generator)  # (B, K)
    parent, token = chosen // vocab_size, chosen % vocab_size  # (B, K), (B, K)
    ids = torch.cat([picked(beams.ids, parent), token[:, :, None]], dim=2)  # (B, K, T + 1)
    is_last = ids.shape[2] >= plan.max_length
    ends = torch.isin(token, plan.eos) | is_last  # (B, K)

    running_sums, running = (sums + ends * HOPELESS).topk(num_beams)  # (B, N)
    beams = with_ended(beams, ids, sums, ends, plan)
    is_open = beams.is_open & may_improve(running_sums, beams, plan)
    beams = replace(beams, ids=picked(ids, running), sums=running_sums, is_open=is_open)
    first_row = torch.arange(len(ids), device=ids.device)[:, None] * num_beams  # (B, 1)
    rows = (first_row + parent.gather(1, running)).flatten()  # (B N)
    over = ~beams.is_open.any() | is_last
    if plan.settings.early_stopping is True:
        over = over | beams.have_ended.all()
    return beams, rows, over


def candidates(sums: Tensor, count: int, do_sample: bool, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The continuations to look at: the best, or as many drawn without putting back, and where they stand."""
    if not do_sample:
        best = sums.topk(count)
        return best.values, best.indices  # (B, K), (B, K)
    chosen = torch.multinomial(sums.softmax(dim=1), count, generator=generator)  # (B, K)
    return sums.gather(1, chosen), chosen


def with_ended(beams: Beams, ids: Tensor, sums: Tensor, ends: Tensor, plan: Plan) -> Beams:
    """The best N of the texts that had ended and of the first N candidates, those that end now."""
    num_beams, length = beams.sums.shape[1], ids.shape[2] - plan.prompt_length
    settled = ~beams.is_open
    if plan.settings.early_stopping is True:
        settled = settled | beams.have_ended
    joins = ends & ~settled & (torch.arange(ids.shape[1], device=ids.device) < num_beams)  # (B, K)
    scores = sums / length**plan.settings.length_penalty + ~joins * HOPELESS
    scores, best = torch.cat([beams.ended_scores, scores], dim=1).topk(num_beams)  # (B, N)
    earlier = F.pad(beams.ended_ids, (0, 1), value=plan.pad)  # (B, N, T + 1)
    return replace(
        beams,
        ended_ids=picked(torch.cat([earlier, ids], dim=1), best),
        ended_scores=scores,
        ended_lengths=torch.cat([beams.ended_lengths, joins * length], dim=1).gather(1, best),
    )


def may_improve(running_sums: Tensor, beams: Beams, plan: Plan) -> Tensor:
    """Whether the best running text might end with a score above the worst of the ended ones."""
    settings = plan.settings
    length = beams.ended_ids.shape[2] - plan.prompt_length
    if settings.early_stopping == "never" and settings.length_penalty > 0:
        length = plan.max_length - plan.prompt_length
    best = running_sums[:, :1] / length**settings.length_penalty  # (B, 1)
    worst = beams.ended_scores.amin(dim=1, keepdim=True)  # (B, 1)
    return best > worst.where(beams.have_ended, HOPELESS)  # (B, 1)


def best_ended(beams: Beams, count: int, prompt_length: int) -> Tensor:
    """The texts with the best scores, as long as the longest of them."""
    length = prompt_length + int(beams.ended_lengths[:, :count].max())
    return beams.ended_ids[:, :count, :length].flatten(0, 1)  # (B count, T)


def picked(texts: Tensor, which: Tensor) -> Tensor:
    return texts.gather(1, which[:, :, None].expand(-1, -1, texts.shape[2]))
