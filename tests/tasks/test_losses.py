"""Losses equal those of PyTorch, scikit-learn and SciPy, for a batch and for the sum of its parts."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from sklearn.metrics import log_loss
from torch import Tensor, nn

from glassformer.core.model import IGNORE
from glassformer.tasks.classes import ClassTask
from glassformer.training.task import Task

WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 3.5])


class Tokens(Task):
    """The loss of a task alone, without data or model."""

    smoothing = 0.0

    @property
    def label_smoothing(self) -> float:
        return self.smoothing


class Classes(ClassTask):
    smoothing = 0.0

    @property
    def label_smoothing(self) -> float:
        return self.smoothing


Tokens.__abstractmethods__ = Classes.__abstractmethods__ = frozenset()


def classes(*, several: bool = False, smoothing: float = 0.0, weights: Tensor | None = None) -> Classes:
    task = Classes()
    task.several, task.smoothing, task.class_weights = several, smoothing, weights
    return task


@pytest.fixture
def logits() -> Tensor:
    return torch.randn(12, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)


def in_parts(task: Task, logits: Tensor, labels: Tensor, parts: int) -> Tensor:
    """The loss as the training loop computes it: part by part, divided by the weight of the whole batch."""
    pairs = zip(logits.chunk(parts), labels.chunk(parts), strict=True)
    return torch.stack([task.loss(*pair) for pair in pairs]).sum() / task.weight(labels)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_tokens_are_learned_by_pytorchs_cross_entropy(smoothing: float, parts: int) -> None:
    task = Tokens()
    task.smoothing = smoothing
    logits = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(15).view(3, 5) % 7
    labels[0, 3:] = labels[2, 1] = IGNORE
    theirs = nn.CrossEntropyLoss(label_smoothing=smoothing)(logits.flatten(0, 1), labels.flatten())
    ours = in_parts(task, logits, labels, parts)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits))
    assert task.weight(labels) == 12


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_one_class_is_learned_by_pytorchs_cross_entropy(
    weights: Tensor | None, smoothing: float, parts: int, logits: Tensor
) -> None:
    labels = torch.tensor([0, 1, 2, 3, 3, 3, 1, 0, 2, 1, 1, 3])
    theirs = nn.CrossEntropyLoss(weight=weights, label_smoothing=smoothing)(logits, labels)
    ours = in_parts(classes(smoothing=smoothing, weights=weights), logits, labels, parts)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits))


SEVERAL = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 1]] * 4).float()


@pytest.mark.parametrize("parts", [1, 4])
def test_several_classes_are_learned_by_pytorchs_binary_cross_entropy(parts: int, logits: Tensor) -> None:
    for smoothing in (0.0, 0.1):
        between = SEVERAL.clamp(smoothing / 2, 1 - smoothing / 2)  # smoothed targets
        theirs = nn.BCEWithLogitsLoss()(logits, between)
        torch.testing.assert_close(in_parts(classes(several=True, smoothing=smoothing), logits, SEVERAL, parts), theirs)


def test_several_weighted_classes_are_the_weighted_mean_of_scikit_learns_losses(logits: Tensor) -> None:
    chances = logits.detach().double().sigmoid().numpy()
    each = [log_loss(SEVERAL[:, i].numpy(), chances[:, i]) for i in range(4)]
    ours = in_parts(classes(several=True, weights=WEIGHTS), logits, SEVERAL, 2)
    assert ours.item() == pytest.approx(np.average(each, weights=WEIGHTS.numpy()), rel=1e-5)


def symmetric(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(KL(p, q) + KL(q, p)) / 2 with SciPy; distributions are along the last axis."""
    return (entropy(p, q, axis=-1) + entropy(q, p, axis=-1)) / 2


def test_r_drop_pulls_at_the_divergence_of_two_answers() -> None:
    """Liang et al. (2021): both directions, without padding."""
    first, second = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.zeros(3, 5, dtype=torch.long)
    labels[1, 2:] = IGNORE
    apart = symmetric(first.softmax(-1).numpy(), second.softmax(-1).numpy())
    assert float(Tokens().divergence(first, second, labels)) == pytest.approx(apart[labels.numpy() != IGNORE].sum())
    assert float(Tokens().divergence(first, first, labels)) == 0
    one = classes().divergence(first[:, 0], second[:, 0], labels[:, 0])
    assert float(one) == pytest.approx(apart[:, 0].sum())


def test_several_classes_are_apart_by_each_yes_and_no() -> None:
    first, second = torch.randn(2, 12, 4, generator=torch.Generator().manual_seed(0)).double()
    p, q = ([x.sigmoid().numpy(), (-x).sigmoid().numpy()] for x in (first, second))
    expected = symmetric(np.stack(p, axis=-1), np.stack(q, axis=-1)).sum()
    assert float(classes(several=True).divergence(first, second, SEVERAL)) == pytest.approx(expected)
