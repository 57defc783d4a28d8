"""The verb `train`: only one of several processes prints, and runs that cannot be resumed."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.command import run

from glassformer.tasks.settings import TranslateSettings
from glassformer.training.task import Scores
from glassformer.verbs import train as command


@pytest.mark.parametrize("rank", [None, "0", "1"])
def test_the_first_process_says_the_scores(
    rank: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    task = SimpleNamespace(try_next=lambda out: [["glassformer", "predict", str(out)]])
    monkeypatch.setattr(
        "glassformer.training.run.run", lambda *_, **__: (task, Scores(metrics={"bleu": 12.0}, count=3, unit="pairs"))
    )
    command.main(TranslateSettings(out=tmp_path / "run"))
    shown = capsys.readouterr().out
    assert ("bleu 12.0" in shown) == ("glassformer predict" in shown) == (rank != "1")
    assert bool(shown) == (rank != "1")


@pytest.mark.parametrize("record", ["[]", '{"task": "lm"}'])
def test_a_run_that_says_nothing_of_itself_is_not_resumed(
    record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(record, encoding="utf-8")
    assert run("train", "lm", "--resume", "--out", tmp_path) == 2
    assert "has no task and settings" in capsys.readouterr().err
