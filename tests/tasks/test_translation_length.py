"""Scoring translations stops in time even if the model has not learned to end a text."""

from pathlib import Path

import pytest

from glassformer.tasks import translate as page
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import EXTRA_TOKENS, Translate


def test_a_young_model_writes_no_more_than_the_paper_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"word {i}\tWort {i}\n" for i in range(40)), encoding="utf-8")
    settings = TranslateSettings(
        data=(tmp_path / "pairs.tsv",), d_model=16, num_layers=1, num_heads=2, max_len=200, vocab_size=64
    )
    task = Translate(settings)
    task.model.eval()
    limits: list[int] = []
    real = page.translate

    def watched(*args: object, longest, **choices: object) -> list[str]:  # type: ignore[no-untyped-def]
        limits.extend(longest(source) for source in (1, 10, 400))
        return real(*args, longest=longest, **choices)  # type: ignore[arg-type]

    monkeypatch.setattr(page, "translate", watched)
    _, _, guesses = task.scored(task.valid)
    assert limits == [1 + EXTRA_TOKENS, 10 + EXTRA_TOKENS, 200], (
        "as much longer as its source, and never beyond the model's limit"
    )
    most = max(len(row) for row in task.tokenizer.rows([pair.source for pair in task.valid])) + EXTRA_TOKENS
    assert all(len(task.tokenizer.rows([guess])[0]) <= most + 1 for guess in guesses)


def test_answers_longer_than_their_sources_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{i}\t{'abc ' * 30}{i}\n" for i in range(40)]
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    settings = TranslateSettings(
        data=(tmp_path / "pairs.tsv",), d_model=16, num_layers=1, num_heads=2, tokenizer="characters"
    )
    task = Translate(settings)
    asked: list[int] = []
    monkeypatch.setattr(
        page, "translate", lambda *args, longest, **_: asked.append(longest(3)) or ["" for _ in args[2]]
    )
    task.scored(task.valid)
    assert asked[0] > 120, "as much longer as the longest held-out target is"
