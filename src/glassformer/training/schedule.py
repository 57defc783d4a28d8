"""How the learning rate moves over a training: up in a line, then as the schedule says."""

from math import cos, pi

from glassformer.training.settings import TrainSettings

DECAY = 0.2  # the part of a training in which stable-decay falls


def rate_factor(settings: TrainSettings, step: int, left: float, warmup: int) -> float:
    """The part of the highest rate at this step, which counts from 1; `left` falls from 1 to 0 after the warm-up."""
    if step < warmup:
        return step / warmup
    low = settings.final_rate
    if settings.schedule == "inverse-sqrt":
        return float((warmup / step) ** 0.5)
    if settings.schedule == "linear":
        return low + (1 - low) * left
    if settings.schedule == "cosine":
        return low + (1 - low) * (1 - cos(pi * left)) / 2
    if settings.schedule == "stable-decay":  # warm up, stay, fall (Zhai et al., 2022; Hu et al., 2024)
        return low + (1 - low) * min(1.0, left / DECAY)
    return 1.0


def highest_rate(settings: TrainSettings, d_model: int) -> float:
    """The rate that was asked for, or that of the paper (section 5.3): d_model^-0.5 min(step^-0.5, step warmup^-1.5).

    It is highest at the end of the warm-up. A warm-up that the plan scales down to a short training leaves it as it is.
    """
    return float((d_model * settings.warmup) ** -0.5) if settings.rate is None else settings.rate
