"""The shared code of the classification tasks: single-label and multi-label loss and scores.

A single label is trained with cross-entropy, several labels with binary cross-entropy for each class. With balanced
class weights an error counts n / (classes * count of its class), and the loss of a batch is divided by the sum of the
weights, as `torch.nn.CrossEntropyLoss(weight=...)` does.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.tasks.metrics import classification_metrics, confusion, multi_label_metrics
from glassformer.training.task import Scores, Task

REPORT_EXAMPLES = 10  # wrong answers in the report, and the same number of right ones


class ClassTask(Task):
    """Examples with labels (N), or with 0 and 1 for each class if `several` may apply (N, C)."""

    metrics: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "macro_f1", "micro_f1", "exact_match")

    names: Sequence[str]  # class names
    several: bool = False
    class_weights: Tensor | None = None  # (C)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        weights = None if self.class_weights is None else self.class_weights.to(logits.device, logits.dtype)
        if self.several:
            spread = labels * (1 - self.label_smoothing) + self.label_smoothing / 2
            return F.binary_cross_entropy_with_logits(logits, spread, weight=weights, reduction="sum")
        return F.cross_entropy(logits, labels, weight=weights, reduction="sum", label_smoothing=self.label_smoothing)

    def weight(self, labels: Tensor) -> float:
        if self.class_weights is None:
            return float(labels.numel())
        weights = self.class_weights.to(labels.device)
        return float(weights.sum() * len(labels) if self.several else weights[labels].sum())

    def divergence(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        if self.several:  # each class by itself: (p - q) (log p / (1 - p) - log q / (1 - q)) / 2
            return ((first.sigmoid() - second.sigmoid()) * (first - second)).sum() / 2
        return super().divergence(first, second, labels)

    def decide(self, logits: Tensor) -> Tensor:
        return (logits > 0).int() if self.several else logits.argmax(dim=1)

    def measure(self, logits: Tensor, labels: Tensor) -> dict[str, float]:
        guesses = self.decide(logits)
        if self.several:
            return multi_label_metrics(labels.int().tolist(), guesses.tolist())
        return classification_metrics(labels.tolist(), guesses.tolist(), len(self.names))

    def measure_quickly(self, logits: Tensor, labels: Tensor) -> dict[str, float]:
        return {"loss": float(self.loss(logits, labels)) / self.weight(labels), **self.measure(logits, labels)}

    def score(
        self,
        logits: Tensor,
        labels: Tensor,
        inputs: Sequence[str],
        baselines: dict[str, dict[str, float]],
        notes: Sequence[str] = (),
    ) -> Scores:
        guesses = self.decide(logits)
        table = [] if self.several else confusion(labels.tolist(), guesses.tolist(), len(self.names))
        return Scores(
            metrics=self.measure(logits, labels),
            count=len(labels),
            unit=self.unit,
            notes=list(notes),
            baselines=baselines,
            examples=self.shown(inputs, labels, guesses),
            classes=list(self.names),
            confusion=table,
        )

    def shown(self, inputs: Sequence[str], labels: Tensor, guesses: Tensor) -> list[dict[str, str]]:
        """Wrong answers, then right ones."""
        rows: dict[bool, list[dict[str, str]]] = {False: [], True: []}
        for text, label, guess in zip(inputs, labels.tolist(), guesses.tolist(), strict=True):
            expected, answer = self.in_words(label), self.in_words(guess)
            rows[expected == answer].append({"input": text, "expected": expected, "answer": answer})
        return rows[False][:REPORT_EXAMPLES] + rows[True][:REPORT_EXAMPLES]

    def in_words(self, label: int | list[float]) -> str:
        if isinstance(label, int):
            return self.names[label]
        return ", ".join(name for name, applies in zip(self.names, label, strict=True) if applies)


def balanced_weights(labels: Tensor, num_classes: int) -> Tensor:
    """n / (classes * count) for each class; a class without examples counts as if it had one."""
    counts = labels.sum(dim=0) if labels.ndim == 2 else torch.bincount(labels, minlength=num_classes).float()
    return counts.sum() / (num_classes * counts.clamp(min=1))
