"""The layers: no module imports upwards or sideways, no folder has too many files, `docs/house.md` is current, and the
tests mirror the folders of the source."""

import ast
import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import grimp
import pytest
from helpers.command import python

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "glassformer"
TESTS = ROOT / "tests"
MOST_FILES = 20


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", ROOT / "docs" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_import_contract_is_kept() -> None:
    python("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache", cwd=ROOT)


def test_the_rooms_have_no_cycle(house: ModuleType) -> None:
    assert house.cycle(house.room_imports()) == []
    assert house.cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]


def test_nothing_imports_the_root_package() -> None:
    graph = grimp.build_graph("glassformer", cache_dir=None)
    assert graph.find_modules_that_directly_import("glassformer") == set()


@pytest.mark.parametrize("root", [SOURCE, TESTS], ids=["source", "tests"])
def test_no_folder_is_a_crowd(root: Path) -> None:
    hidden = re.compile(r"/\.|/__pycache__/|/families/")  # caches, and the one folder that may be long
    found = [file.relative_to(root) for file in root.rglob("*") if file.is_file()]
    files = Counter(file.parent.as_posix() for file in found if not hidden.search(f"/{file.as_posix()}"))
    assert files
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}


def test_the_tests_mirror_the_source() -> None:
    folders = {file.parent.relative_to(TESTS) for file in TESTS.rglob("*.py")} - {Path("helpers")}
    rooms = {Path(), *(path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*"))}
    assert sorted(folder.as_posix() for folder in folders - rooms) == []


def imported(file: Path) -> set[str]:
    """The last names of the modules that a file imports."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[-1] for name in plain | {node.module or "" for node in named}
            | {alias.name for node in named for alias in node.names}}  # fmt: skip


def test_no_test_imports_another() -> None:
    files = list(TESTS.rglob("*.py"))
    tests = {file.stem for file in files if file.parent != TESTS / "helpers"}
    assert {file.name: imported(file) & tests for file in files if imported(file) & tests} == {}


def test_the_page_is_as_the_code_is(house: ModuleType) -> None:
    text = house.PAGE.read_text(encoding="utf-8")
    assert house.written(text) == text, "run `make docs`"


def test_every_file_says_what_it_is(house: ModuleType) -> None:
    files = [file for file in SOURCE.rglob("*") if file.suffix in (".py", ".js")]
    assert [file for file in files if not house.first_sentence(file)] == []


def walks() -> dict[str, list[tuple[str, str]]]:
    """The walks on the page: the steps of each as (file, function)."""
    text = (ROOT / "docs" / "house.md").read_text(encoding="utf-8").split("## Five walks")[1].split("\n## ")[0]
    return {
        part.splitlines()[0]: re.findall(r"^\d+\. `([\w/]+\.(?:py|js)):([\w.]+)` \S", part, re.MULTILINE)
        for part in text.split("\n### ")[1:]
    }


def functions_in(file: Path) -> set[str]:
    if file.suffix == ".js":
        return set(
            re.findall(r"^(?:export )?(?:async )?function (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        )
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_the_walks_are_through_functions_that_exist_and_none_comes_twice() -> None:
    found = walks()
    assert len(found) == 5
    for name, steps in found.items():
        assert len(steps) >= 10, name
        assert len(set(steps)) == len(steps), name
        missing = [f"{file}:{function}" for file, function in steps if function not in functions_in(SOURCE / file)]
        assert missing == [], name
