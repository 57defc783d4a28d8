"""The list of tasks: every row refers to existing code and agrees with it."""

import importlib
import json
from pathlib import Path

import pytest
from helpers.command import run

from glassformer.predict.pipeline import ABILITIES
from glassformer.tasks.registry import TASK_ENTRIES, TASKS, TaskEntry, settings_for_scoring, task_class


@pytest.mark.parametrize("row", TASK_ENTRIES, ids=lambda row: row.name)
def test_a_row_agrees_with_its_page_and_its_settings(row: TaskEntry) -> None:
    page = task_class(row.name)
    assert row.name == page.name == row.settings.task
    assert row.metric == page.metric
    assert row.metric in page.metrics
    assert set(row.abilities) <= set(ABILITIES)
    assert row.settings(rate=1e-3).out == Path("runs") / row.name
    importlib.import_module(f"glassformer.data.{row.example}")


def test_no_two_tasks_have_the_same_ability() -> None:
    abilities = [ability for row in TASK_ENTRIES for ability in row.abilities]
    assert len(abilities) == len(set(abilities))
    assert list(TASKS) == [row.name for row in TASK_ENTRIES]


def test_whoever_takes_a_task_lists_them_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["eval"], ["inspect", "ablate"]):
        assert run(*verb, "--help") == 0
        assert "{" + ",".join(TASKS) + "}" in capsys.readouterr().out
    assert run("eval", tmp_path, "--task", "lmm") == 2
    assert "lmm" in capsys.readouterr().err


@pytest.mark.parametrize("row", TASK_ENTRIES, ids=lambda row: row.name)
def test_settings_come_back_from_a_record(row: TaskEntry) -> None:
    settings = row.settings(rate=1e-3, steps=7, out=Path("runs/x"))
    record = json.loads(json.dumps(settings.to_dict()))
    assert row.settings.from_dict(record) == settings
    judged = settings_for_scoring(row.name, record, "runs/x")
    assert (judged.init, judged.steps, judged.preset) == ("runs/x", 7, "tiny")
