"""The verb `data`: its list, its downloads, the next command, and its errors."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from helpers.command import run

from glassformer.cli import VERBS
from glassformer.data.known import KNOWN, Known, KnownFile

CONTENT = b"one\ntwo\n"
TINY = Known(
    task="lm",
    recipe="tiny",
    size=len(CONTENT),
    description="for tests",
    licence="as you like",
    origin="owner/name@commit",
    files=(KnownFile("text.txt", hashlib.sha256(CONTENT).hexdigest(), "text.txt"),),
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a data set, and another to work in."""
    monkeypatch.setitem(KNOWN, "tiny", TINY)
    monkeypatch.setattr(Known, "address", lambda *_: "http://127.0.0.1:9/text.txt")  # nobody listens there
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    folder = tmp_path / "copy" / "tiny"
    folder.mkdir(parents=True)
    (folder / "text.txt").write_bytes(CONTENT)
    return folder.parent


def test_the_list_names_every_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data") == 0
    shown = capsys.readouterr().out
    for name, entry in KNOWN.items():
        assert re.search(rf"^{name} +{entry.task} +{entry.size / 1e6:.1f} MB$", shown, re.MULTILINE)
        assert f"licence: {entry.licence}" in shown
    assert shown.count("only with --from DIR") == sum(bool(entry.note) for entry in KNOWN.values()) == 1
    assert run("data", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["bytes"] for row in rows} == {name: entry.size for name, entry in KNOWN.items()}


def test_bringing_one_ends_with_the_command_that_trains_on_it(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "tiny", "--from", source) == 0
    assert Path("data/tiny/text.txt").read_bytes() == CONTENT
    shown = capsys.readouterr().out
    assert "tiny: 1 file, 0.0 MB, verified, in data/tiny\nlicence: as you like\n" in shown
    assert shown.splitlines()[-1] == "  glassformer train lm --config recipes/tiny.toml"
    assert run("data", "tiny") == 0, "what is here and right needs no network"


def test_elsewhere_the_recipe_must_be_told(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "tiny", "--from", source / "tiny", "--out", "mine") == 0
    assert "reads data/tiny: change that to mine/tiny in your copy" in capsys.readouterr().out
    assert run("data", "tiny", "--out", "mine", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "files": ["mine/tiny/text.txt"],
        "command": "glassformer train lm --config recipes/tiny.toml",
    }


def test_errors_say_what_to_do(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["multi30"], "unknown data set 'multi30': did you mean 'multi30k'?"),
        (["tiny"], "Is this machine offline? Get the files on another one and give their folder, --from DIR"),
        (["tiny", "--from", "nowhere"], "nowhere is not a folder"),
        (["--from", str(source)], "needs the name of a data set; known are multi30k"),
    ):
        assert run("data", *arguments) == 2
        assert message in capsys.readouterr().err
    (source / "tiny" / "text.txt").write_bytes(b"damaged")
    assert run("data", "tiny", "--from", source) == 2
    assert f"expected {TINY.files[0].sha256}. It is damaged or another version" in capsys.readouterr().err
    assert not [path for path in Path.cwd().rglob("*") if path.is_file()]


def test_every_data_set_has_a_task_and_a_recipe() -> None:
    recipes = Path(__file__).parents[2] / "recipes"
    for entry in KNOWN.values():
        assert f"train {entry.task}" in VERBS
        assert (recipes / f"{entry.recipe}.toml").is_file()
