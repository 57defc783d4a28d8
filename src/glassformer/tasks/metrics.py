"""Metrics: BLEU and chrF, accuracy and F1, confusion matrix."""

from collections.abc import Sequence
from importlib.util import find_spec

from glassformer.errors import InputError


def translation_metrics(
    guesses: Sequence[str], truths: Sequence[str], tokenize: str, *, lowercase: bool = False
) -> tuple[dict[str, float], list[str]]:
    """BLEU and chrF by sacrebleu (Post, 2018), with the signatures that make them comparable."""
    if find_spec("sacrebleu") is None:
        return {}, ["no BLEU and chrF: sacrebleu is not installed. Run pip install 'glassformer[mt]'"]
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    measures = {
        "bleu": BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrf": CHRF(lowercase=lowercase),
    }
    metrics = {name: measure.corpus_score(list(guesses), [list(truths)]).score for name, measure in measures.items()}
    notes = [f"{name}: {measure.get_signature()}" for name, measure in measures.items()]
    return metrics, notes


def classification_metrics(truths: Sequence[int], guesses: Sequence[int], num_classes: int) -> dict[str, float]:
    """Accuracy, and macro F1: the mean over classes of 2 TP / (2 TP + FN + FP)."""
    table = confusion(truths, guesses, num_classes)
    right = [table[i][i] for i in range(num_classes)]
    scores = []
    for i in range(num_classes):
        given = sum(row[i] for row in table)
        both = sum(table[i]) + given
        if both:  # a class that neither occurs nor is predicted does not count
            scores.append(2 * right[i] / both)
    return {"accuracy": sum(right) / len(truths), "macro_f1": sum(scores) / len(scores)}


def multi_label_metrics(truths: Sequence[Sequence[int]], guesses: Sequence[Sequence[int]]) -> dict[str, float]:
    """For rows of 0 and 1: micro and macro F1, and the share of rows with all labels right."""
    if not truths:
        raise InputError("no rows to score")
    columns = range(len(truths[0]))
    both = [sum(t[i] and g[i] for t, g in zip(truths, guesses, strict=True)) for i in columns]
    either = [sum(t[i] + g[i] for t, g in zip(truths, guesses, strict=True)) for i in columns]
    each = [2 * b / e if e else 0.0 for b, e in zip(both, either, strict=True)]  # as in scikit-learn
    exact = sum(list(t) == list(g) for t, g in zip(truths, guesses, strict=True)) / len(truths)
    micro = 2 * sum(both) / sum(either) if sum(either) else 0.0
    return {"micro_f1": micro, "macro_f1": sum(each) / len(each), "exact_match": exact}


def confusion(truths: Sequence[int], guesses: Sequence[int], num_classes: int) -> list[list[int]]:
    """How often each class (row) was predicted as each class (column)."""
    table = [[0] * num_classes for _ in range(num_classes)]
    for truth, guess in zip(truths, guesses, strict=True):
        table[truth][guess] += 1
    return table
