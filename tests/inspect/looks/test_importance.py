"""Head importance: a head that does nothing has importance 0."""

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.parts import cut_out
from rich.console import Console

import glassformer as gf
from glassformer.errors import InputError
from glassformer.figures.drawings import draw_importance
from glassformer.inspect.looks.importance import (
    Importance,
    Importances,
    head_importance,
    picture_importance,
    show_importance,
    task_importance,
)
from glassformer.tasks import settings as tasks
from glassformer.tasks.registry import make_task
from glassformer.training.task import Scores
from glassformer.watch.ablate import attention_sites

SMALL = {"d_model": 12, "num_heads": 2, "num_layers": 2, "out": Path("unused")}


@pytest.mark.parametrize(
    "settings",
    [
        tasks.TranslateSettings(**SMALL, examples=60),
        tasks.ImagesSettings(**SMALL),
        tasks.ForecastSettings(**SMALL, length=48, horizon=4, patch=8),
    ],
    ids=lambda settings: settings.task,
)
def test_a_planted_redundant_head_is_worth_exactly_nothing(settings: tasks.TaskSettings) -> None:
    task = make_task(settings)
    task.model.eval()
    planted = "encoder.blocks.1.attn.1"
    cut_out(attention_sites(task.model)["encoder.blocks.1.attn"].attention, 1)
    found = task_importance(task, ["encoder.*"], examples=8)
    worth = {row.head: row.worse for row in found.heads}
    assert set(worth) == {f"encoder.blocks.{layer}.attn.{head}" for layer in range(2) for head in range(2)}
    assert set(worth[planted].values()) == {0.0}
    assert found.whole.count == 8
    assert found.together is not None
    first = next(iter(found.whole.metrics))
    assert [row.worse[first] for row in found.heads] == sorted((row[first] for row in worth.values()), reverse=True)
    console = Console(width=200, record=True, file=StringIO())
    show_importance(found, console)
    lines = console.export_text().splitlines()
    assert [line.split()[0] for line in lines[4:8]] == [row.head for row in found.heads]
    assert "nothing" in lines[3]
    assert "all 4 at once" in lines[8]


def test_importance_as_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(
        "glassformer.inspect.looks.importance.draw_importance",
        lambda maps, *said: drawn.update(maps) or draw_importance(maps, *said),
    )
    rows = {"decoder.blocks.1.cross.0": 0.5, "encoder.blocks.0.attn.1": -0.25}
    heads = [Importance(head, {"bleu": 1.0 - worse}, {"bleu": worse}) for head, worse in rows.items()]
    found = Importances(Scores(metrics={"bleu": 1.0}, count=3, unit="pairs"), heads, None)
    picture_importance(found, tmp_path / "heads.png")
    assert list(drawn) == ["encoder self-attention", "decoder cross-attention"]
    np.testing.assert_array_equal(drawn["decoder cross-attention"], [[np.nan], [0.5]])
    np.testing.assert_array_equal(drawn["encoder self-attention"], [[np.nan, -0.25]])
    assert (tmp_path / "heads.png").stat().st_size > 2000


def test_no_examples_to_judge_by() -> None:
    task = make_task(tasks.TranslateSettings(**SMALL, examples=60))
    with pytest.raises(InputError, match="examples is 0: expected at least 1"):
        task_importance(task, examples=0)


def test_a_model_without_a_run_is_judged_on_files(tmp_path: Path) -> None:
    """The task is named as for `gf.evaluate`, which is the reference for the whole model's score."""
    task = make_task(tasks.ClassifySettings(**SMALL))
    cut_out(attention_sites(task.model)["encoder.blocks.1.attn"].attention, 0)
    gf.save(task.model, tmp_path / "model", tokenizer=task.tokenizer)
    labels = list(task.model.about.classes["id2label"].values())
    rows = [f"the text of number {i},{labels[i % len(labels)]}" for i in range(12)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    how: dict[str, Any] = {"data": [tmp_path / "texts.csv"], "task": "classify"}
    found = head_importance(tmp_path / "model", ["encoder.blocks.1.attn.*"], **how)
    assert found.whole.metrics["accuracy"] == gf.evaluate(tmp_path / "model", **how).metrics["accuracy"]
    assert {row.head: set(row.worse.values()) for row in found.heads}["encoder.blocks.1.attn.0"] == {0.0}
    assert (found.whole.count, len(found.heads)) == (12, 2)
    with pytest.raises(InputError, match=r"has no run.json, .* name its task, such as --task classify"):
        head_importance(tmp_path / "model")
    with pytest.raises(InputError, match=r"has no run.json, .* Give files to score with --data"):
        head_importance(tmp_path / "model", task="classify")
