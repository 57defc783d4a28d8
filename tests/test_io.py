"""Files and folders are written atomically, and bad JSON is a clear error."""

import os
from pathlib import Path

import pytest
from helpers.command import python

from glassformer.errors import InputError
from glassformer.hub import find_folder
from glassformer.io import (
    atomic_file,
    atomic_folder,
    fingerprint,
    partial_name,
    read_json,
    remove_partial,
    replaced_place,
    write_atomic,
    write_json,
)


class StoppedError(Exception):
    """Interrupts a writer."""


def write_half(file: Path, durable: bool) -> None:
    with atomic_file(file, durable=durable) as stream:
        stream.write(b"half of it")
        raise StoppedError


def test_a_file_is_there_when_all_is_written(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    with atomic_file(file) as stream:
        stream.write(b"all of it")
        assert not file.exists()
    assert file.read_bytes() == b"all of it"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("durable", [False, True])
def test_a_writer_that_stops_leaves_what_was_there(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "a.txt"
    write_atomic(file, "before", durable=durable)
    with pytest.raises(StoppedError):
        write_half(file, durable)
    assert file.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "a.txt", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    write_atomic(link, "한국어")
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == "한국어"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, b"read at once")
    assert os.read(reader, 100) == b"read at once"
    os.close(reader)
    assert pipe.is_fifo()
    script = "from pathlib import Path; from glassformer.io import write_atomic; write_atomic(Path('/dev/stdout'), 'x')"
    assert python("-c", script) == "x"


def test_a_name_of_any_length_can_be_written(tmp_path: Path) -> None:
    for name in ("a" * 255, "한" * 85, ".hidden", "no ending"):
        write_atomic(tmp_path / name, name)
        assert (tmp_path / name).read_text(encoding="utf-8") == name


def test_a_folder_takes_its_place_and_keeps_what_is_to_stay(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic_folder(folder) as written:
        for name in ("stays", "goes"):
            (written / name).write_text("before", encoding="utf-8")
        assert not folder.exists()
    with atomic_folder(folder, stays=lambda entry, new: entry.name == "stays") as written:
        (written / "new").touch()
    assert sorted(file.name for file in folder.iterdir()) == ["new", "stays"]
    with pytest.raises(StoppedError), atomic_folder(folder):
        raise StoppedError
    assert sorted(file.name for file in folder.iterdir()) == ["new", "stays"]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_of_any_name_can_be_replaced(tmp_path: Path) -> None:
    for name in ("a" * 255, "한" * 85):
        for content in ("old", "new"):
            with atomic_folder(tmp_path / name) as written:
                (written / content).touch()
        assert [file.name for file in (tmp_path / name).iterdir()] == ["new"]
    assert replaced_place(tmp_path / ("a" * 254 + "b")) != replaced_place(tmp_path / ("a" * 255))


def test_what_stays_is_never_gone(tmp_path: Path) -> None:
    """After a kill between the two renames, the old folder is complete beside its place; the error names it."""
    folder = tmp_path / "model"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "mine.txt").write_text("kept", encoding="utf-8")
    folder.rename(replaced_place(folder))
    with pytest.raises(InputError, match=r"The old folder is complete, in .*\.model\.replaced: move it back"):
        find_folder(folder)
    with atomic_folder(folder, stays=lambda entry, new: True) as written:
        assert (folder / "notes" / "mine.txt").read_text(encoding="utf-8") == "kept"
        (written / "new").touch()
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*")) == ["new", "notes", "notes/mine.txt"]
    assert list(tmp_path.iterdir()) == [folder]


def test_what_a_live_process_writes_stays(tmp_path: Path) -> None:
    (tmp_path / f".file.{os.getppid()}.partial").touch()
    (tmp_path / f".file.{2**22 + 5}.partial").touch()
    remove_partial(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [f".file.{os.getppid()}.partial"]


def test_a_path_that_is_not_utf8_can_be_kept(tmp_path: Path) -> None:
    path = os.fsdecode(b"caf\xe9")
    write_json(tmp_path / "run.json", {"data": path, "word": "한"})
    assert read_json(tmp_path / "run.json") == {"data": path, "word": "한"}


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    partial_name(tmp_path / "file").touch()
    partial_name(tmp_path / "folder").mkdir()
    (tmp_path / "mine.partial").touch()
    remove_partial(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.partial"]


def test_json_comes_back_and_another_kind_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"이름": [1, 2.5, None]})
    assert read_json(file) == {"이름": [1, 2.5, None]}
    assert "이름" in file.read_text(encoding="utf-8")
    file.write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.json: expected settings"):
        read_json(file, "settings")
    file.write_text('{"half": ', encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.json is not JSON \(.*\)\. The file may be incomplete"):
        read_json(file)


def test_a_fingerprint_tells_whether_data_has_changed(tmp_path: Path) -> None:
    file, folder = tmp_path / "a.txt", tmp_path / "images"
    file.write_text("one", encoding="utf-8")
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "1.png").write_bytes(b"123")
    before = fingerprint(file), fingerprint(folder)
    assert before == (fingerprint(file), fingerprint(folder))
    assert before[1] is not None
    assert before[1]["files"] == 1
    os.utime(file, (1, 1))
    assert fingerprint(file) == before[0], "of a file, only what it holds counts"
    file.write_text("two", encoding="utf-8")
    assert fingerprint(file) != before[0]
    (folder / "cats" / "2.png").write_bytes(b"")
    assert fingerprint(folder) != before[1]
    assert fingerprint(tmp_path / "none") is None
    assert fingerprint(Path("/dev/null")) is None, "what can be read once is not read here"
