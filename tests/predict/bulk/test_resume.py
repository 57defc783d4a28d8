"""A killed job continues and ends with the same bytes; a job that would end with other bytes is refused."""

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.command import python, run, started
from helpers.tiny_models import make

from glassformer.predict.bulk import formats, job
from glassformer.predict.bulk.journal import Journal

FolderOf = Callable[[str], Path]
ENDINGS = ("csv", "jsonl.gz", "parquet")
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog")


class Killed(BaseException):
    """Simulates a kill: nothing in the job catches it."""


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "CHUNK_ROWS", (8, 8))
    monkeypatch.setattr(job, "CHUNK_TO_WRITE", 8)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "in.csv", 60)


def write_source(file: Path, rows: int) -> Path:
    words = random.Random(3)
    with file.open("w", encoding="utf-8") as opened:
        opened.write("id,text\n")
        for i in range(rows):
            text = " ".join(words.choices(WORDS, k=words.randint(0, 12)))
            opened.write(f"{i},{text}\n")
    return file


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def same(one: Path, other: Path) -> bool:
    if one.suffix != ".parquet":
        return one.read_bytes() == other.read_bytes()
    import pyarrow.parquet as pq

    return bool(pq.read_table(one).equals(pq.read_table(other)))


def killed_after(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the job during a system call: only half of the data is in the file."""
    left = calls

    def cut(whole: Callable[..., Any], half: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                half(*arguments)
                raise Killed
            return whole(*arguments)

        return call

    add, write = Journal.add_rows, Journal.write
    monkeypatch.setattr(Journal, "add_rows", cut(add, lambda self, data: add(self, data[: len(data) // 2])))

    def half_line(self: Journal, values: Any) -> None:
        os.write(self.handle, json.dumps(values).encode()[:9])

    monkeypatch.setattr(Journal, "write", cut(write, half_line))
    for place in (formats.Format, formats.Parquet):
        monkeypatch.setattr(place, "finish", cut(place.finish, lambda *_: None))
    monkeypatch.setattr(Journal, "end", cut(Journal.end, lambda *_: None))


@pytest.mark.parametrize("ending", ENDINGS)
def test_killed_at_every_point_it_ends_with_the_same_bytes(
    ending: str, source: Path, folder_of: FolderOf, tmp_path: Path
) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    call = ["predict", folder_of("encoder"), "--file", source, "--out"]
    assert run(*call, tmp_path / f"whole.{ending}") == 0
    out, kills = tmp_path / f"cut.{ending}", 0
    for calls in range(1, 40):  # each job gets a little further than the one before
        with pytest.MonkeyPatch.context() as patch:
            killed_after(calls % 5, patch)
            try:
                assert run(*call, out) == 0
                break
            except Killed:
                kills += 1
                assert not out.exists() or same(out, tmp_path / f"whole.{ending}")
    else:
        assert run(*call, out) == 0
    assert kills > 5
    assert same(out, tmp_path / f"whole.{ending}")
    assert hidden(tmp_path) == []


def begun(call: list[Any], out: Path, chunks: int = 2) -> None:
    """Leaves the files of a job that was killed after `chunks` chunks."""
    with pytest.MonkeyPatch.context() as patch:
        killed_after(1 + 2 * chunks, patch)
        with pytest.raises(Killed):
            run(*call, out)


def test_it_says_where_it_goes_on(
    source: Path, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["predict", folder_of("encoder"), "--file", source, "--out"]
    begun(call, tmp_path / "out.csv")
    assert hidden(tmp_path) == [".out.csv.journal", ".out.csv.partial"]
    capsys.readouterr()
    assert run(*call, tmp_path / "out.csv") == 0
    said = capsys.readouterr().err
    assert f"continuing {tmp_path / 'out.csv'} after row 16 of 60" in said
    assert f"Saved 60 rows to {tmp_path / 'out.csv'}" in said
    whole = [line.split(",")[2:] for line in (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1:]]
    empty = sum(row == ["", ""] for row in whole)
    assert f"{empty} rows have no answer ({empty} empty)" in said


def test_what_was_counted_before_the_kill_is_said_too(
    folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.csv"
    source.write_text("text\n" + "fox 犬\n" * 20 + '""\n' + "fox 猫\n" * 20, encoding="utf-8")
    call = ["predict", folder_of("encoder"), "--file", source, "--out"]
    assert run(*call, tmp_path / "whole.csv") == 0
    whole = capsys.readouterr().err.splitlines()[-3:]
    begun(call, tmp_path / "cut.csv", chunks=3)
    capsys.readouterr()
    assert run(*call, tmp_path / "cut.csv") == 0
    assert capsys.readouterr().err.splitlines()[-3:] == whole
    assert whole[0].startswith("1 row has no answer (1 empty):")
    assert "in 40 of 40 texts are unknown to the vocabulary" in whole[-1]


def changed_input(source: Path, model: Path) -> None:
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("59,", "58,"), encoding="utf-8")  # the same size


def grown_input(source: Path, model: Path) -> None:
    source.write_text(source.read_text(encoding="utf-8") + "60,fox\n", encoding="utf-8")


def changed_model(source: Path, model: Path) -> None:
    file = model / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


CHANGES: dict[str, tuple[Callable[[Path, Path], None], list[str], str]] = {
    "input": (changed_input, [], r"was started, and \S+in\.csv has changed since: restore it, or start over"),
    "longer input": (grown_input, [], r"in\.csv has changed since"),
    "model": (changed_model, [], r"the model in \S+ has changed since"),
    "flag": (lambda *_: None, ["--batch-tokens=64"], "with no --batch-tokens, and now with --batch-tokens 64"),
    "engine": (lambda *_: None, ["--engine=off"], "with no --engine, and now with --engine off"),
    "columns": (lambda *_: None, ["--id-column=id"], "was started with no --id-column, and now with --id-column id"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_would_end_with_other_bytes_is_refused(
    what: str, source: Path, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    change, flags, sentence = CHANGES[what]
    model, out = tmp_path / "model", tmp_path / "out.csv"
    shutil.copytree(folder_of("encoder"), model)
    call = ["predict", model, "--file", source, "--out"]
    begun(call, out)
    change(source, model)
    before = {name: (tmp_path / name).read_bytes() for name in hidden(tmp_path)}
    assert run(*call, out, *flags) == 2
    said = capsys.readouterr().err
    assert re.search(sentence, said), said
    assert "--overwrite" in said
    assert {name: (tmp_path / name).read_bytes() for name in hidden(tmp_path)} == before, "nothing was touched"
    assert run(*call, out, *flags, "--overwrite") == 0
    assert run(*call, tmp_path / "anew.csv", *flags) == 0
    assert same(out, tmp_path / "anew.csv")
    assert hidden(tmp_path) == []


def test_what_is_there_is_not_replaced_unasked(
    source: Path, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["predict", folder_of("encoder"), "--file", source, "--out"]
    out = tmp_path / "out.csv"
    out.write_text("mine", encoding="utf-8")
    assert run(*call, out) == 2
    assert "already exists: choose another name, or replace it with --overwrite" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == "mine"
    begun([*call[:-1], "--overwrite", "--out"], out)
    assert out.read_text(encoding="utf-8") == "mine", "it stays until the new one is whole"
    assert run(*call, out) == 0
    assert out.read_text(encoding="utf-8").startswith("id,text,label,score\n")
    assert run(*call, source) == 2
    assert "is the input file: choose another name" in capsys.readouterr().err
    assert run(*call, tmp_path) == 2
    assert "expected a name that ends in one of .csv" in capsys.readouterr().err


def test_two_processes_do_not_write_one_output(
    source: Path, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    with Journal(out):
        assert run("predict", folder_of("encoder"), "--file", source, "--out", out) == 2
    assert "another process is writing it. Wait for it, or stop it" in capsys.readouterr().err


def test_a_partial_file_that_was_cut_is_not_gone_on_with(
    source: Path, folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["predict", folder_of("encoder"), "--file", source, "--out", tmp_path / "out.csv"]
    begun(call[:-1], tmp_path / "out.csv")
    os.truncate(tmp_path / ".out.csv.partial", 20)
    assert run(*call) == 2
    assert "has 20 bytes, and " in capsys.readouterr().err
    (tmp_path / ".out.csv.journal").write_text("what?\n", encoding="utf-8")
    assert run(*call) == 2
    assert "cannot be read, so" in capsys.readouterr().err


def test_bad_rows_are_found_before_anything_is_computed(
    folder_of: FolderOf, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.Job, "answer", lambda *_: pytest.fail("it was computed"))
    (tmp_path / "in.csv").write_text("id,text\n" + "1,fox\n" * 50 + "2,fox,dog\n", encoding="utf-8")
    (tmp_path / "in.jsonl").write_text('{"text": "fox"}\n{"text": 3}\n', encoding="utf-8")
    for name, flags, sentence in (
        ("in.csv", [], "in.csv, line 52: 3 cells, expected 2"),
        ("in.jsonl", [], "in.jsonl, line 2: text is 3, expected a text"),
        ("in.jsonl", ["--id-column", "idd"], "in.jsonl, line 2: text is 3"),
    ):
        call = ["predict", folder_of("encoder"), "--file", tmp_path / name, "--out", tmp_path / "out.csv"]
        assert run(*call, *flags) == 2
        assert sentence in capsys.readouterr().err
    assert hidden(tmp_path) == []


def command_in_chunks(*words: Any) -> list[Any]:
    """Runs `glassformer WORDS` in its own process, with chunks of 1,024 rows."""
    begin = f"import {job.__name__} as job; job.CHUNK_ROWS = (1024, 1024); from glassformer.cli import main; main()"
    return ["-c", begin, *words]


def test_killed_by_the_system(folder_of: FolderOf, tmp_path: Path) -> None:
    """Killed right after the start, and again in the middle."""
    source = write_source(tmp_path / "in.csv", 3300)  # three chunks and a bit
    call = command_in_chunks("predict", folder_of("encoder"), "--file", source, "--out")
    python(*call, tmp_path / "whole.csv")
    journal = tmp_path / ".cut.csv.journal"
    for lines in (1, 3):
        with started(*call, tmp_path / "cut.csv") as process:
            while process.poll() is None and lines_in(journal) < lines:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
    python(*call, tmp_path / "cut.csv")
    assert same(tmp_path / "cut.csv", tmp_path / "whole.csv")
    assert hidden(tmp_path) == []


def lines_in(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.is_file() else 0


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_killed_ten_times_at_random_moments(ending: str, tmp_path: Path) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    folder = make(tmp_path / "model", "encoder", num_layers=4, d_model=64, num_heads=4, d_ff=256)
    source = write_source(tmp_path / "in.csv", 60_000)
    call = command_in_chunks("predict", folder, "--file", source, "--out")
    python(*call, tmp_path / f"whole.{ending}")
    draws, out, journal = random.Random(7), tmp_path / f"cut.{ending}", tmp_path / f".cut.{ending}.journal"
    for _ in range(10):  # each lets it write at least one chunk
        before = lines_in(journal)
        with started(*call, out) as process:
            while process.poll() is None and lines_in(journal) <= before:
                time.sleep(0.002)
            time.sleep(draws.uniform(0, 0.1))
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
    python(*call, out)
    assert same(out, tmp_path / f"whole.{ending}")
    assert hidden(tmp_path) == []
