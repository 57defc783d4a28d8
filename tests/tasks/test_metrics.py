"""Metrics equal those of scikit-learn and sacrebleu for any predictions."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from glassformer.errors import InputError
from glassformer.tasks import metrics
from glassformer.tasks.metrics import classification_metrics, confusion, multi_label_metrics, translation_metrics

CLASSES = 5
some = settings(max_examples=40, deadline=None, derandomize=True)
answers = st.lists(st.tuples(st.integers(0, CLASSES - 1), st.integers(0, CLASSES - 1)), min_size=1, max_size=40)
yes_or_no = st.lists(st.integers(0, 1), min_size=3, max_size=3)


@some
@given(answers)
def test_one_class(pairs: list[tuple[int, int]]) -> None:
    """Also if a class occurs only in the labels, only in the predictions, or in neither."""
    truths, guesses = map(list, zip(*pairs, strict=True))
    ours = classification_metrics(truths, guesses, CLASSES)
    assert ours["accuracy"] == pytest.approx(accuracy_score(truths, guesses))
    assert ours["macro_f1"] == pytest.approx(f1_score(truths, guesses, average="macro"))
    table = confusion_matrix(truths, guesses, labels=range(CLASSES))
    assert confusion(truths, guesses, CLASSES) == table.tolist()


@some
@given(st.lists(st.tuples(yes_or_no, yes_or_no), min_size=1, max_size=20))
def test_several_classes(pairs: list[tuple[list[int], list[int]]]) -> None:
    truths, guesses = map(np.array, zip(*pairs, strict=True))
    ours = multi_label_metrics(truths.tolist(), guesses.tolist())
    for average in ("micro", "macro"):
        assert ours[f"{average}_f1"] == pytest.approx(f1_score(truths, guesses, average=average, zero_division=0))
    assert ours["exact_match"] == pytest.approx(accuracy_score(truths, guesses))


def test_no_rows() -> None:
    with pytest.raises(InputError, match="no rows to score"):
        multi_label_metrics([], [])


TRUTHS = ["The cat sat on the mat today.", "Two dogs, one bone!", "2031년 5월 1일 월요일입니다."]
GUESSES = ["the cat sat on a mat today.", "Two dogs and one bone!", "2031년 5월 1일 화요일입니다."]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "char", "intl"])
def test_translations(tokenize: str, lowercase: bool) -> None:
    found, notes = translation_metrics(GUESSES, TRUTHS, tokenize, lowercase=lowercase)
    bleu = sacrebleu.corpus_bleu(GUESSES, [TRUTHS], tokenize=tokenize, lowercase=lowercase)
    folded = [[text.lower() if lowercase else text for text in texts] for texts in (GUESSES, TRUTHS)]
    chrf = sacrebleu.corpus_chrf(folded[0], [folded[1]])
    assert found == pytest.approx({"bleu": bleu.score, "chrf": chrf.score})
    assert f"tok:{tokenize}" in notes[0]
    assert f"case:{'lc' if lowercase else 'mixed'}" in notes[0]


def test_without_sacrebleu_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    found, notes = translation_metrics(GUESSES, TRUTHS, "13a")
    assert found == {}
    assert "pip install 'glassformer[mt]'" in notes[0]
