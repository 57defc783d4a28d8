"""The answers of a model: labels with scores, guesses for a mask, a span of a text."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.checkpoints.labels import class_names, problem_of
from glassformer.core.model import Transformer

MAX_ANSWER_TOKENS = 30  # maximum tokens of an answer found in a text
APPLIES = 0.5  # a class applies above this probability, in multi-label classification


@dataclass(frozen=True)
class Guess:
    """A candidate for a masked token, and its probability."""

    token: str
    score: float


@dataclass(frozen=True)
class Label:
    """The most probable class of an input, its probability, and the probabilities of all classes."""

    label: str
    score: float
    scores: dict[str, float]


@dataclass(frozen=True)
class Labels:
    """Multi-label classification: the classes that apply, most probable first, and the probabilities of all classes."""

    labels: dict[str, float]
    scores: dict[str, float]


@dataclass(frozen=True)
class TokenLabel:
    """The class of the token text[start:end]."""

    text: str
    label: str
    score: float
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """The span text[start:end] that answers a question."""

    answer: str
    score: float
    start: int
    end: int


def as_labels(model: Transformer, logits: Tensor) -> list[Label | Labels]:
    """Turns logits (B, C) into the most probable class of each row, or into all classes that apply."""
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
    """Softmax over the classes, or a sigmoid of each if several may apply. The output of a regression is unchanged."""
    kind = problem_of(model)
    if kind == "regression":
        return logits
    alone = kind == "multi_label_classification" or logits.shape[-1] == 1
    return logits.sigmoid() if alone else logits.softmax(dim=-1)


def best_span(start_logits: Tensor, end_logits: Tensor, outside: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The most probable answer of each row: its score and its place, first * T + last, (B); and the probability of each
    token to start or end an answer, (B, T). Tokens `outside` the text, (B, T), can do neither."""
    start, end = (logits.masked_fill(outside, -torch.inf).softmax(dim=1) for logits in (start_logits, end_logits))
    together = (start[:, :, None] * end[:, None, :]).triu().tril(MAX_ANSWER_TOKENS - 1)  # (B, T, T)
    score, place = together.flatten(1).max(dim=1)
    return score, place, start, end
