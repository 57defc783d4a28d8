"""The whole demo, as `make demo` runs it."""

import json
from functools import partial
from pathlib import Path

import pytest
from helpers.command import run
from PIL import Image

from glassformer.tasks import settings


@pytest.mark.slow
def test_the_demo_translates_dates_it_never_saw(demo: tuple[Path, str]) -> None:
    out, printed = demo
    results = json.loads((out / "run.json").read_text(encoding="utf-8"))["results"]
    assert results["count"] == 500
    assert results["exact_match"] >= 0.99
    shown = " ".join(printed.split())
    for part in ("held-out exact match", "1998년 3월 3일 오후 4시 30분", "attention-cross.png", "Next:"):
        assert part in shown
    for picture in ("attention-cross.png", "positions.png"):
        with Image.open(out / picture) as image:
            assert image.size[0] > 800


def test_a_short_demo_runs_through_and_replaces_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = partial(settings.TranslateSettings, examples=500)
    monkeypatch.setattr(settings, "TranslateSettings", few)
    for _ in range(2):
        assert run("demo", "--steps", "2", "--out", tmp_path / "demo") == 0
        assert "held-out exact match" in capsys.readouterr().out
    assert (tmp_path / "demo" / "attention-cross.png").is_file()
    assert not list(tmp_path.glob("*.partial"))
