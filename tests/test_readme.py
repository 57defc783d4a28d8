"""The README is true: its Python runs, and the Korean one says the same."""

import re
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.run import run

ROOT = Path(__file__).parent.parent
READMES = [ROOT / "README.md", ROOT / "README.ko.md"]


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.chdir(tmp_path)
    settings = TranslateSettings(out=Path("runs/demo"), steps=2, examples=50, d_model=16, num_heads=2, batch_tokens=128)
    run(lambda _: Translate(settings), settings, Console(quiet=True), verb="demo")
    programs = [re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL) for path in READMES]
    assert programs[0] == programs[1]
    assert len(programs[0]) == 1
    names: dict[str, object] = {}
    exec(programs[0][0], names)
    assert isinstance(names["model"], gf.Transformer)


def test_both_readmes_show_the_same_figures() -> None:
    tables = [
        re.findall(r"<!-- (\w+) -->\n(.*?)<!-- /\1 -->", path.read_text(encoding="utf-8"), re.DOTALL)
        for path in READMES
    ]
    assert tables[0] == tables[1]
    assert [name for name, _ in tables[0]] == [
        "demo",
        "speed",
        "first_token",
        "int8",
        "tasks",
        "train",
        "watch",
        "align",
        "explorer",
        "core",
        "load",
        "families",
        "startup",
    ]
    assert all(text.count("|") > 6 for _, text in tables[0]), "a table that was never measured"
