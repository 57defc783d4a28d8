"""How the learning rate moves over a training."""


def paper_rate(step: int, d_model: int, warmup: int) -> float:
    """d_model^-0.5 min(step^-0.5, step warmup^-1.5): up in a line, then down with the square root (section 5.3).

    Steps count from 1.
    """
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
