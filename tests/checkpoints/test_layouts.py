"""The layout of a file is determined once per load; only the families' modules know which family a model resembles."""

import re
from pathlib import Path

import pytest
from helpers.export_configs import EXPORTED
from helpers.small_checkpoints import Made, reconfigure

import glassformer as gf
from glassformer.checkpoints import load, read_layout
from glassformer.families import FAMILIES, nearest_type

SOURCE = Path(load.__file__).parent


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The head requested in each call of `layout_of`."""
    asked: list[str | None] = []

    def counting(*args: object, **options: object) -> object:
        asked.append(options.get("head"))  # type: ignore[arg-type]
        return read_layout.layout_of(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(load, "layout_of", counting)
    return asked


@pytest.mark.parametrize("architecture", ["BertModel", "BertForSequenceClassification", "GPT2LMHeadModel", "ViTModel"])
def test_the_layout_is_settled_once(architecture: str, made: Made, calls: list[str | None]) -> None:
    gf.load(made(architecture))
    assert len(calls) == 1


def test_a_new_head_needs_no_second_look(made: Made, calls: list[str | None], capsys: pytest.CaptureFixture) -> None:
    folder = made("BertForSequenceClassification")
    gf.load(folder, head="class", num_classes=5)
    assert calls == ["class"]
    assert f"the head of {folder} (classes: 2) is replaced by a new one (classes: 5)" in capsys.readouterr().err


def test_a_head_that_only_the_names_tell_takes_a_second_look(made: Made, calls: list[str | None]) -> None:
    for architecture, head, looks in (("BertForMaskedLM", "language", 2), ("BertModel", "pool", 1)):
        calls.clear()
        folder = made(architecture)
        reconfigure(folder, "architectures")
        assert gf.load(folder).config.head == head
        assert len(calls) == looks


@pytest.mark.parametrize("name", EXPORTED)
def test_one_page_says_that_a_model_is_built_like_it(name: str) -> None:
    alike = [model_type for model_type, family in FAMILIES.items() if family.resembles(EXPORTED[name])]
    assert alike == [nearest_type(EXPORTED[name])]
    assert FAMILIES[alike[0]].describe is not None


def test_no_family_is_known_by_name() -> None:
    """Family-specific code belongs in the family's module. Comments may name a family as an example."""
    for file in SOURCE.glob("*.py"):
        for model_type in FAMILIES:
            assert not re.search(rf"[\"']{re.escape(model_type)}[\"']", file.read_text(encoding="utf-8")), file.name
