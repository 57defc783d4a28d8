"""Beam search: N hypotheses are extended in parallel for each source, and the best finished ones are kept.

    score(y) = sum_t log p(y_t | y_<t) / |y|^length_penalty        |y| counts new tokens, the end token too

Each step ranks the N V continuations of a source by their sum of log p and takes the first K = N max(2, 1 + E) of
them, E the number of end tokens, so that N can continue. Those that end, or reach the maximum length, join the best N
finished texts if they are among the first N. A source is done, and accepts no more texts, when all K end, or when

    early_stopping=True      N texts have finished;
    early_stopping=False     the best running sum, divided as if it ended now, is not above the worst finished score;
    early_stopping="never"   as False, but divided as if it ended at max_length if length_penalty > 0: no running
                             text can win.

This is the search of Hugging Face's `generate` and gives the same texts. It works on log-probabilities; `loop.py` runs
the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.generation.plan import GenerationPlan

HOPELESS = -1e9  # below the score of any text
REDUCED_AT_ONCE = 160  # values that `largest` first reduces to their maximum

Draw = Callable[[Tensor, int], Tensor]  # from probabilities (B, C) and a count K to indices (B, K), without replacement


@dataclass(frozen=True)
class BeamTexts:
    """N texts for each source, and log p of their new tokens."""

    ids: Tensor  # (B, N, T), with the prompt
    log_probs: Tensor  # (B, N, L), of the new tokens; 0 for padding

    def __getitem__(self, sources: Tensor) -> "BeamTexts":
        return BeamTexts(self.ids[sources], self.log_probs[sources])

    def picked(self, which: Tensor) -> "BeamTexts":
        """For each source, the texts at the indices `which` (B, K)."""
        wide = which[:, :, None]  # (B, K, 1)
        return BeamTexts(*(part.gather(1, wide.expand(-1, -1, part.shape[2])) for part in (self.ids, self.log_probs)))

    def padded(self, count: int, pad: int) -> "BeamTexts":
        return BeamTexts(F.pad(self.ids, (0, count), value=pad), F.pad(self.log_probs, (0, count)))


def joined(texts: Sequence[BeamTexts], dim: int) -> BeamTexts:
    return BeamTexts(torch.cat([text.ids for text in texts], dim), torch.cat([text.log_probs for text in texts], dim))


@dataclass(frozen=True, kw_only=True)
class Beams:
    """The running texts and the finished ones, both best first."""

    running: BeamTexts
    sums: Tensor  # (B, N), of log p
    ended: BeamTexts
    ended_scores: Tensor  # (B, N)
    ended_lengths: Tensor  # (B, N), new tokens; 0 for an empty place
    is_open: Tensor  # (B, 1), whether the source is not done

    def __getitem__(self, sources: Tensor) -> "Beams":
        return Beams(**{name: part[sources] for name, part in vars(self).items()})

    @property
    def have_ended(self) -> Tensor:
        return (self.ended_lengths > 0).all(dim=1, keepdim=True)  # (B, 1)


def begin(prompt: Tensor, num_beams: int) -> Beams:
    """All beams start at the prompt; only the first has a finite score, otherwise all would be the same."""
    ids = prompt[:, None].expand(-1, num_beams, -1)  # (B, N, T)
    hopeless = torch.full(ids.shape[:2], HOPELESS, device=ids.device)  # (B, N)
    texts = BeamTexts(ids, hopeless[:, :, None][:, :, :0])
    return Beams(
        running=texts,
        sums=hopeless.index_fill(1, torch.zeros(1, dtype=torch.long, device=ids.device), 0.0),
        ended=texts,
        ended_scores=hopeless,
        ended_lengths=torch.zeros_like(hopeless, dtype=torch.long),
        is_open=torch.ones_like(hopeless[:, :1], dtype=torch.bool),
    )


def advance(
    beams: Beams, log_probs: Tensor, filtered: Tensor, plan: GenerationPlan, draw: Draw | None
) -> tuple[Beams, Tensor]:
    """Adds one token, from the model's log p (B, N, V) before and after the filters. `draw` is for sampling.

    Also returns which row each beam continues (B N).
    """
    num_beams, vocab_size = log_probs.shape[1:]
    count = num_beams * max(2, 1 + len(plan.eos))
    sums, parent, token = candidates(filtered, beams.sums, count, draw)  # (B, K), (B, K), (B, K)
    log_prob = log_probs.flatten(1).gather(1, parent * vocab_size + token)  # (B, K)
    texts = joined([beams.running.picked(parent), BeamTexts(token[:, :, None], log_prob[:, :, None])], dim=2)
    ends = plan.ends(texts.ids)  # (B, K)

    running_sums, running = (sums + ends * HOPELESS).topk(num_beams)  # (B, N)
    beams = with_ended(beams, texts, sums, ends, plan)
    is_open = beams.is_open & may_improve(running_sums, beams, plan) & ~ends.all(dim=1, keepdim=True)
    beams = replace(beams, running=texts.picked(running), sums=running_sums, is_open=is_open)
    first_row = torch.arange(len(sums), device=sums.device)[:, None] * num_beams  # (B, 1)
    return beams, (first_row + parent.gather(1, running)).flatten()


def candidates(log_probs: Tensor, sums: Tensor, count: int, draw: Draw | None) -> tuple[Tensor, Tensor, Tensor]:
    """The best or sampled continuations: their sums, the beam each one continues, and its token."""
    if draw is None:
        best, tokens = largest(log_probs, min(count, log_probs.shape[2]))  # (B, N, C), (B, N, C)
        found = (best + sums[:, :, None]).flatten(1).topk(count)  # of N C
        return found.values, found.indices // best.shape[2], tokens.flatten(1).gather(1, found.indices)
    every_sum = (log_probs + sums[:, :, None]).flatten(1)  # (B, N V)
    chosen = draw(every_sum.softmax(dim=1), count)  # (B, K)
    return every_sum.gather(1, chosen), chosen // log_probs.shape[2], chosen % log_probs.shape[2]


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same as `x.topk(count)`, three times as fast on a CPU for long rows.

    The largest values of a row are in the `count` groups with the largest maxima.
    """
    groups = x.shape[-1] // REDUCED_AT_ONCE
    if groups <= count:
        return x.topk(count)
    maxima = x[..., : groups * REDUCED_AT_ONCE].unflatten(-1, (groups, REDUCED_AT_ONCE)).amax(dim=-1)  # (..., groups)
    starts = maxima.topk(count).indices[..., None] * REDUCED_AT_ONCE  # (..., count, 1)
    places = (starts + torch.arange(REDUCED_AT_ONCE, device=x.device)).flatten(-2)  # (..., count REDUCED_AT_ONCE)
    rest = torch.arange(groups * REDUCED_AT_ONCE, x.shape[-1], device=x.device)  # the rest, less than a group
    places = torch.cat([places, rest.expand(*places.shape[:-1], -1)], dim=-1)
    found = x.gather(-1, places).topk(count)
    return found.values, places.gather(-1, found.indices)


def with_ended(beams: Beams, texts: BeamTexts, sums: Tensor, ends: Tensor, plan: GenerationPlan) -> Beams:
    """The best N of the finished texts and of those of the first N candidates that end now."""
    num_beams, length = beams.sums.shape[1], texts.log_probs.shape[2]
    joins = ends & beams.is_open & (torch.arange(ends.shape[1], device=ends.device) < num_beams)  # (B, K)
    scores = sums / length**plan.settings.length_penalty + ~joins * HOPELESS
    scores, best = torch.cat([beams.ended_scores, scores], dim=1).topk(num_beams)  # (B, N)
    return replace(
        beams,
        ended=joined([beams.ended.padded(1, plan.pad), texts], dim=1).picked(best),
        ended_scores=scores,
        ended_lengths=torch.cat([beams.ended_lengths, joins * length], dim=1).gather(1, best),
    )


def may_improve(running_sums: Tensor, beams: Beams, plan: GenerationPlan) -> Tensor:
    """Whether the best running text could still finish with a score above the worst finished one."""
    settings = plan.settings
    length = beams.ended.log_probs.shape[2]
    if settings.early_stopping == "never" and settings.length_penalty > 0:
        length = plan.max_length - plan.prompt_length
    best = running_sums[:, :1] / length**settings.length_penalty  # (B, 1)
    worst = beams.ended_scores.amin(dim=1, keepdim=True)  # (B, 1)
    if settings.early_stopping is True:
        worst = torch.full_like(worst, torch.inf)  # the first N that end are kept
    return best > worst.where(beams.have_ended, HOPELESS)  # (B, 1)


def best_ended(beams: Beams, count: int) -> BeamTexts:
    """The best finished texts without their prompts, padded to the longest."""
    length = int(beams.ended_lengths[:, :count].max())
    log_probs = beams.ended.log_probs[:, :count]  # (B, count, L)
    ids = beams.ended.ids[:, :count, -log_probs.shape[2] :]  # (B, count, L)
    return BeamTexts(ids[:, :, :length], log_probs[:, :, :length])


def in_source_order(found: Sequence[tuple[Tensor, BeamTexts]], pad: int) -> BeamTexts:
    """The texts of all sources in order, padded to the longest."""
    longest = max(texts.ids.shape[2] for _, texts in found)
    texts = joined([texts.padded(longest - texts.ids.shape[2], pad) for _, texts in found], dim=0)  # of B sources
    return texts[torch.cat([sources for sources, _ in found]).argsort()]
