"""The recipes: each parses into the settings of its task, explains every line, and fits the downloaded data."""

import re
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from glassformer.cli import VERBS, main
from glassformer.data.known import KNOWN, check_downloaded
from glassformer.errors import InputError
from glassformer.tasks.settings import TaskSettings

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)


def command(recipe: Path) -> str:
    """The verb that the recipe names."""
    text = recipe.read_text(encoding="utf-8")
    found = re.findall(rf"^#   glassformer (train \w+) --config recipes/{recipe.name}$", text, re.MULTILINE)
    assert len(found) == 1
    return str(found[0])


def parsed(recipe: Path) -> TaskSettings:
    settings = VERBS[command(recipe)].settings().from_dict(tomllib.loads(recipe.read_text(encoding="utf-8")))
    assert isinstance(settings, TaskSettings)
    return settings


def test_there_is_one_for_each_data_set_and_for_the_digits() -> None:
    assert {recipe.stem for recipe in RECIPES} == {entry.recipe for entry in KNOWN.values()} | {"digits", "nsmc-mlm"}


@each_recipe
def test_it_parses_into_the_settings_of_its_task(recipe: Path) -> None:
    settings = parsed(recipe)
    assert str(settings.out) == f"runs/{recipe.stem}"
    assert settings.steps
    assert settings.eval_every
    tasks = {entry.recipe: entry.task for entry in KNOWN.values()} | {"digits": "images", "nsmc-mlm": "mlm"}
    assert settings.task == tasks[recipe.stem]


@each_recipe
def test_every_key_is_explained(recipe: Path) -> None:
    lines = recipe.read_text(encoding="utf-8").splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    assert len(keys) == len(tomllib.loads("\n".join(lines)))
    for number in keys:
        assert lines[number - 1].startswith("# "), f"{recipe.name}, line {number + 1} has no comment above it"
    assert max(map(len, lines)) <= 120


@each_recipe
def test_its_files_are_those_that_data_brings(recipe: Path) -> None:
    settings = parsed(recipe)
    files = [file for given in settings.files.values() for file in given]
    brought = {PurePosixPath("data", name, file.name) for name, entry in KNOWN.items() for file in entry.files}
    folders = {PurePosixPath("data", name) for name in KNOWN}
    assert {PurePosixPath(path) for path in files} <= brought | folders
    assert bool(files) == (recipe.stem != "digits")
    name = next((name for name, entry in KNOWN.items() if entry.recipe == recipe.stem), None)
    assert name is None or f"\n#   glassformer data {name}" in recipe.read_text(encoding="utf-8")


@each_recipe
def test_a_typing_error_in_it_is_found(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / recipe.name
    wrong.write_text(recipe.read_text(encoding="utf-8").replace("\nwarmup =", "\nwarmpu ="), encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main([*command(recipe).split(), "--config", str(wrong)])
    assert end.value.code == 2
    assert f"{wrong}, line " in (shown := capsys.readouterr().err)
    assert "unknown setting 'warmpu': did you mean 'warmup'?" in shown


@pytest.mark.parametrize("name", KNOWN)
def test_without_its_data_a_recipe_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = RECIPES[0].with_name(f"{KNOWN[name].recipe}.toml")
    with pytest.raises(SystemExit) as end:
        main([*command(recipe).split(), "--config", str(recipe)])
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: data/{name}")
    assert shown.endswith(f"there is no such file. Download it with: glassformer data {name}\n")
    with pytest.raises(InputError, match=rf"Download it with: glassformer data {name} --out /mine$"):
        check_downloaded([Path("/mine") / name / KNOWN[name].files[0].name])
    assert not list(tmp_path.iterdir())
