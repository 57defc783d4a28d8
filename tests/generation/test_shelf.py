"""The cache of compiled code: complete folders, within a limit, and optional if it cannot be written."""

import os
import time
from pathlib import Path
from typing import NoReturn

import pytest

from glassformer.generation import shelf
from glassformer.generation.shelf import Shelf, cache_home, shelf_key


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(folder: Path) -> None:
    (folder / "file").write_bytes(b"x" * 100)


def refuse(folder: Path) -> None:
    raise AssertionError("it is there already")


def test_made_once_and_found_again(home: Path) -> None:
    place = Shelf("things").get("one", write)
    assert place == home / "things" / "one"
    assert (Shelf("things").get("one", refuse) / "file").read_bytes() == b"x" * 100


def test_half_of_it_is_never_there(home: Path) -> None:
    def stopped(folder: Path) -> None:
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Shelf("things").get("one", stopped)
    assert not list((home / "things").iterdir())
    assert Shelf("things").get("one", write).is_dir()


def test_another_process_may_be_faster(home: Path) -> None:
    def slow(folder: Path) -> None:
        Shelf("things").get("one", write)
        raise OSError("it could not be moved there")

    assert (Shelf("things").get("one", slow) / "file").is_file()


def test_the_oldest_goes_when_there_is_too_much(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "LIMIT", 450)
    for age, name in enumerate(("c", "b", "a")):
        os.utime(Shelf("things").get(name, write), (1000 + age, 1000 + age))
    Shelf("things").get("d", write)
    assert sorted(folder.name for folder in (home / "things").iterdir()) == ["a", "b", "d"]


def test_where_nothing_can_be_kept_it_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        place = Shelf("things").get("one", write)
        assert (place / "file").is_file()
    assert capsys.readouterr().err.count("cannot write to the cache folder") == 1


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GLASSFORMER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_home() == tmp_path / "glassformer"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == tmp_path / ".cache" / "glassformer"


def test_a_name_follows_from_all_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shelf_key("a", 1) == shelf_key("a", 1)
    assert shelf_key("a", 1) != shelf_key("a", 2)
    before = shelf_key("a")
    monkeypatch.setattr(shelf, "machine", lambda: "another processor")
    assert shelf_key("a") != before


def test_what_has_changed_is_made_anew(home: Path) -> None:
    place = Shelf("things").get("one", write)
    (place / "file").write_bytes(b"x" * 99)
    assert not Shelf("things").has("one")
    assert (Shelf("things").get("one", write) / "file").read_bytes() == b"x" * 100
    (place / "file").unlink()
    assert (Shelf("things").get("one", write) / "file").is_file()


def test_what_is_of_no_use_and_cannot_be_replaced_is_made_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Shelf("things").get("one", write)
    monkeypatch.setattr(shelf.shutil, "rmtree", lambda *_, **__: None)  # a folder that is not writable
    monkeypatch.setattr(shelf, "atomic_folder", unwritable)
    other = Shelf("things").get("one", write, anew=True)
    assert other != place
    assert (other / "file").is_file()


def unwritable(place: Path) -> NoReturn:
    raise OSError("Read-only file system")


def test_what_a_killed_process_left_goes_in_time(home: Path) -> None:
    for name, age in (("old", 7200), ("new", 0)):
        partial = home / "things" / f".{name}.123.partial"
        partial.mkdir(parents=True)
        os.utime(partial, (time.time() - age,) * 2)
    Shelf("things").get("one", write)
    assert sorted(entry.name for entry in (home / "things").iterdir()) == [".new.123.partial", "one"]
