"""The README is correct and short: its Python runs, its numbers are those of docs/measured.md, and the Korean README
agrees."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import glassformer as gf
from glassformer.tasks.settings import TranslateSettings
from glassformer.tasks.translate import Translate
from glassformer.training.run import run

ROOT = Path(__file__).parent.parent
READMES = [ROOT / "README.md", ROOT / "README.ko.md"]
MOST_LINES = 150
HANGUL = re.compile("[가-힣]")


@pytest.fixture(scope="module")
def readme() -> ModuleType:
    """`benchmarks/readme.py`, which writes the tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


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


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_a_readme_is_read_in_a_minute(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    "page", sorted({*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")}), ids=lambda page: page.name
)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []


def test_the_readme_shows_the_measured_figures(readme: ModuleType) -> None:
    tables = readme.read_tables(readme.MEASURED[0])
    headers, found = [readme.HEADER, readme.KOREAN_HEADER], [readme.read_tables(page)["figures"] for page in READMES]
    rows = [readme.figures(tables, in_korean=is_korean) for is_korean in (False, True)]
    assert found[0] == (headers[0], rows[0])
    assert found[1] == (headers[1], [[readme.korean(cell) for cell in row] for row in rows[1]])
    assert len(rows[0]) > 8


def test_the_korean_tables_hold_the_same_figures(readme: ModuleType) -> None:
    english, korean = (readme.read_tables(page) for page in readme.MEASURED)
    assert list(english) == list(korean)
    assert {"demo", "speed", "first_token", "int8", "tasks", "train", "watch", "align", "explorer", "core", "load",
            "families", "startup"} <= set(english)  # fmt: skip
    for name, (header, rows) in english.items():
        assert rows, f"{name} was never measured"
        assert korean[name] == ([readme.korean(cell) for cell in header], [[readme.korean(c) for c in r] for r in rows])
        assert any(HANGUL.search(cell) for cell in korean[name][0]), f"benchmarks/korean.py lacks the header of {name}"


def test_a_table_is_written_with_its_korean_and_the_figures_follow(
    readme: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEASURED", "READMES"):
        copies = []
        for page in getattr(readme, name):
            copies.append(tmp_path / page.name)
            copies[-1].write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
        monkeypatch.setattr(readme, name, tuple(copies))
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    rows = [["exact match on held-out dates", "12.3% of 500"], ["training", "9 s"]]
    readme.write_table("demo", ["`make demo`, two cores", "measured"], rows, pages=readme.MEASURED)
    assert readme.read_tables(readme.MEASURED[0])["demo"][1] == rows
    assert readme.read_tables(readme.MEASURED[1])["demo"][1] == [
        ["학습에 쓰지 않은 날짜의 완전 일치", "500개 중 12.3%"], ["학습", "9 s"],
    ]  # fmt: skip
    assert "**12.3% of 500**" in readme.READMES[0].read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="has no cell 'demo"):
        readme.write_table("demo", ["`make demo`, two cores", "measured"], rows[1:], pages=readme.MEASURED)
