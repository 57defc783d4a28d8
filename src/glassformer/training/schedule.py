"""The learning rate over a training: a linear warm-up, then the schedule."""

from math import cos, pi

from glassformer.training.settings import TrainSettings

DECAY = 0.2  # stable-decay falls over this last fraction of the steps


def rate_factor(settings: TrainSettings, step: int, left: float, warmup: int) -> float:
    """The learning rate at `step` (from 1) as a fraction of its peak. `left` falls from 1 to 0 after the warm-up."""
    if step < warmup:
        return step / warmup
    low = settings.final_rate
    if settings.schedule == "inverse-sqrt":
        return float((warmup / step) ** 0.5)
    if settings.schedule == "linear":
        return low + (1 - low) * left
    if settings.schedule == "cosine":
        return low + (1 - low) * (1 - cos(pi * left)) / 2
    if settings.schedule == "stable-decay":  # warm up, stay constant, decay (Zhai et al., 2022; Hu et al., 2024)
        return low + (1 - low) * min(1.0, left / DECAY)
    return 1.0


def peak_rate(settings: TrainSettings, d_model: int) -> float:
    """The peak learning rate: `--rate`, or the paper's (section 5.3), d_model^-0.5 min(step^-0.5, step warmup^-1.5).

    The peak is at the end of the warm-up. It stays the same if the plan shortens the warm-up for a short run.
    """
    return float((d_model * settings.warmup) ** -0.5) if settings.rate is None else settings.rate
