"""The README is true: its tree names every file with a line, its Python runs, the Korean one says the same."""

import re
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.run import run

ROOT = Path(__file__).parent.parent
READMES = [ROOT / "README.md", ROOT / "README.ko.md"]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_tree_names_every_file(readme: Path) -> None:
    tree = readme.read_text(encoding="utf-8").split("src/glassformer/\n")[1].split("```")[0]
    listed, folder = set(), ""
    for line in tree.splitlines():
        match = re.match(r"(?P<indent> +)(?P<name>\S+)", line)
        if match is None:
            break
        if match["name"].endswith("/"):
            folder = match["name"]
        else:
            assert len(line.split(maxsplit=1)) == 2, f"{line!r} says nothing about the file"
            listed.add((folder if len(match["indent"]) > 2 else "") + match["name"])
    source = ROOT / "src" / "glassformer"
    real = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if path.parent == source or path.stem != "__init__"
    }
    assert listed == real


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
