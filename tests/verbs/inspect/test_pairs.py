"""Looks at a pair of models: both of them, or the one that reads the input."""

import json
from pathlib import Path

import pytest
from helpers.command import lines, printed, run
from helpers.tiny_models import make_pair

import glassformer as gf
from glassformer.core.model import count


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pair(tmp_path_factory.mktemp("pair") / "model")


def test_shapes_of_both_sides(pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = gf.load(pair)
    assert run("inspect", "shapes", pair, "--json") == 0
    (sides,) = lines(capsys)
    assert {name: side["parameters"] for name, side in sides.items()} == {
        "text": count(model.text),
        "image": count(model.image),
    }
    table = printed(capsys, "inspect", "shapes", pair / "config.json", "--fold")
    assert table.index("\ntext\n") < table.index("input_ids") < table.index("\nimage\n") < table.index("pixel_values")
    printed(capsys, "inspect", "shapes", pair, "--html", tmp_path / "page.html")
    assert {file.name for file in tmp_path.iterdir()} == {"page-text.html", "page-image.html"}


def test_step_follows_a_text_and_refuses_an_image(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "inspect", "step", pair, "a red circle", "--json"))
    assert run("inspect", "step", pair, "example") == 2
    assert "this one reads images. Try glassformer inspect attention" in capsys.readouterr().err
