"""What a model answers, as values a person can use: labels with scores, guesses for a mask, a span of a text."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.checkpoints.labels import class_names, problem_of
from glassformer.core.model import Transformer

LONGEST_ANSWER = 30  # tokens of an answer that is found in a text
APPLIES = 0.5  # the probability from which on a class applies, where each is judged by itself


@dataclass(frozen=True)
class Guess:
    """A token that may stand where the mask is, and its probability."""

    token: str
    score: float


@dataclass(frozen=True)
class Label:
    """The likeliest class of an input with its probability, and those of all classes."""

    label: str
    score: float
    scores: dict[str, float]


@dataclass(frozen=True)
class Labels:
    """The classes that apply to an input, the likeliest first, of a model that judges each by itself; and all."""

    labels: dict[str, float]
    scores: dict[str, float]


@dataclass(frozen=True)
class TokenLabel:
    """The class of one token, which stands at text[start:end]."""

    text: str
    label: str
    score: float
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """The part of a text, text[start:end], that answers a question."""

    answer: str
    score: float
    start: int
    end: int


def as_labels(model: Transformer, logits: Tensor) -> list[Label | Labels]:
    """Logits (B, C) as the likeliest class of each row, with its probability; or as all classes that apply."""
    several = problem_of(model) == "multi_label_classification"
    names = class_names(model)
    found: list[Label | Labels] = []
    for row in probabilities_of(model, logits).tolist():
        scores = dict(zip(names, row, strict=True))
        if several:
            ranked = sorted(names, key=lambda name: -scores[name])
            found.append(Labels({name: scores[name] for name in ranked if scores[name] > APPLIES}, scores))
        else:
            best = max(row)
            found.append(Label(names[row.index(best)], best, scores))
    return found


def probabilities_of(model: Transformer, logits: Tensor) -> Tensor:
    """Of one class among all, or of each by itself; a regression's number stays as it is."""
    kind = problem_of(model)
    if kind == "regression":
        return logits
    alone = kind == "multi_label_classification" or logits.shape[-1] == 1
    return logits.sigmoid() if alone else logits.softmax(dim=-1)


def best_span(start_logits: Tensor, end_logits: Tensor, outside: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The likeliest answer of each row: its score and its place, first * T + last, (B); and how likely each token is to
    begin or end one, (B, T). Tokens `outside` the text, (B, T), can be neither."""
    start, end = (logits.masked_fill(outside, -torch.inf).softmax(dim=1) for logits in (start_logits, end_logits))
    together = (start[:, :, None] * end[:, None, :]).triu().tril(LONGEST_ANSWER - 1)  # (B, T, T)
    score, place = together.flatten(1).max(dim=1)
    return score, place, start, end
