"""The source of the page's examples, and the view that the registry assigns to each task."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.checkpoints.run import read_record
from glassformer.explore.view.answers import VIEW_OF, VIEWS
from glassformer.explore.view.examples import built_in_data, text_examples
from glassformer.explore.view.routes import Routes
from glassformer.predict.pipeline import ABILITIES
from glassformer.tasks.registry import TASK_ENTRIES, TaskEntry

KINDS = [
    "encoder-decoder",
    "decoder",
    "encoder",
    "fill",
    "image",
    "series",
    "judge",
    "caption",
    "ask",
    "match",
]  # one model per task


@pytest.mark.parametrize("row", TASK_ENTRIES, ids=lambda row: row.name)
def test_built_in_data_is_the_example_of_the_task(row: TaskEntry, tmp_path: Path) -> None:
    def data_of(settings: Any, task: str = row.name) -> str | None:
        (tmp_path / "run.json").write_text(json.dumps({"task": task, "settings": settings}), encoding="utf-8")
        return built_in_data(tmp_path)

    assert built_in_data(tmp_path) is None, "not a run"
    own = {"examples": row.example} if row.name == "classify" else {}
    assert data_of({"data": None, "init": None, **own}) == row.example
    assert data_of({"data": [], **own}) == row.example
    assert data_of({"data": ["mine.tsv"]}) is None
    assert data_of({"init": "models/bert"}) is None
    assert data_of(None) is None
    assert data_of({}, task="detect") is None


def test_an_earlier_classifier_keeps_its_examples(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"task": "classify", "settings": {"data": null}}', encoding="utf-8")
    assert read_record(tmp_path)["settings"]["examples"] == "documentation"
    assert built_in_data(tmp_path) == "documentation"


def test_every_task_is_answered_as_its_row_says(routes_of: Callable[[str], Routes]) -> None:
    sessions = [routes_of(kind).session for kind in KINDS]
    shown = {s.task: s.view(s.examples[0]["input"]).shown["answer"]["kind"] for s in sessions}
    assert shown == {ability: row.view for row in TASK_ENTRIES for ability in row.abilities}
    assert set(VIEW_OF) == set(ABILITIES)
    assert set(VIEW_OF.values()) == set(VIEWS)


def test_a_korean_vocabulary_begins_with_korean(tmp_path: Path) -> None:
    korean = ["처음부터 끝까지 훌륭한 영화였다.", "안녕하세요 서울, abcdefghijklmnopqrstuvwxyzA"] * 20
    english = ["A wonderful film from start to finish.", "안녕하세요 서울 처음부터 끝까지 훌륭한 영화였다."] * 20
    first = [
        text_examples("classify", tmp_path, gf.train_tokenizer(texts, 120, "bpe"))[0] for texts in (korean, english)
    ]
    assert first == ["처음부터 끝까지 훌륭한 영화였다.", "A wonderful film from start to finish."]
