"""New defaults for inherited fields change nothing else."""

from dataclasses import dataclass, fields

import pytest
from helpers.command import printed

from glassformer.errors import InputError
from glassformer.settings import Settings, defaults
from glassformer.tasks.registry import TASK_ENTRIES
from glassformer.training.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class Base(Settings):
    steps: int
    rate: float | None = None


@dataclass(frozen=True, kw_only=True)
@defaults(rate=0.5, steps=3)
class Child(Base):
    name: str = "child"


@dataclass(frozen=True, kw_only=True)
@defaults(steps=4)
class Grandchild(Child):
    pass


def test_a_default_changes_and_type_and_place_stay() -> None:
    assert Child() == Child(steps=3, rate=0.5)
    assert Grandchild() == Grandchild(steps=4, rate=0.5, name="child")
    assert [field.name for field in fields(Grandchild)] == ["steps", "rate", "name"]
    assert Grandchild.from_dict(Grandchild().to_dict()) == Grandchild()
    with pytest.raises(InputError, match=r"^--steps is 'many': expected a whole number$"):
        Grandchild.from_dict({"steps": "many"})
    with pytest.raises(TypeError):
        Base()  # still required in the base class


def test_a_field_that_is_not_inherited_is_refused() -> None:
    with pytest.raises(TypeError, match="Odd inherits no field 'step'"):

        @defaults(step=3)
        class Odd(Base):
            pass


def test_tasks_differ_in_their_defaults_and_in_nothing_else_of_a_training() -> None:
    shared = [(field.name, field.type) for field in fields(TrainSettings)]
    for row in TASK_ENTRIES:
        own = [(field.name, field.type) for field in fields(row.settings)]
        assert own[: len(shared)] == shared
    optimizers = {row.name: row.settings(rate=1e-3).optimizer for row in TASK_ENTRIES}
    assert optimizers == {
        "translate": "muon", "classify": "muon", "lm": "muon", "mlm": "muon", "images": "adamw", "caption": "muon",
        "ask": "muon", "match": "muon", "forecast": "adamw",
    }  # fmt: skip


def test_the_help_is_the_one_of_the_base_with_the_new_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    shown = " ".join(printed(capsys, "train", "mlm", "--help").split())
    for text, default in (
        ("AdamW for the rest", "muon"),
        ("bytes is BPE over bytes, which is lossless", "wordpiece"),
        ("Output folder for the model, curves and report", "runs/mlm"),
    ):
        assert f"{text} (default: {default})." in shown
