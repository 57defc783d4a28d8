"""`predict` with --out: the progress, the summary, and flags that do not work together."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.command import run
from helpers.tiny_models import make
from rich.console import Console

from glassformer.predict.bulk import job
from glassformer.verbs import predict_file
from glassformer.verbs.predict_file import RowProgress

FolderOf = Callable[[str], Path]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.csv"
    file.write_text("text\n" + "fox\n" * 10, encoding="utf-8")
    return file


def bad_flags(source: Path, out: Path) -> dict[str, tuple[list[Any], str]]:
    file = ["--file", source]
    return {
        "no file": (["fox", "--out", out], "--out writes the rows of a file with their answers. Give the file with"),
        "json": ([*file, "--out", out, "--json"], "--json prints to standard output. To write JSON lines to a file"),
        "id": ([*file, "--id-column", "text"], "--id-column only works with --out. Add --out FILE"),
        "overwrite": (["fox", "--overwrite"], "--overwrite only works with --out. Add --out FILE"),
        "no such id": ([*file, "--out", out, "--id-column", "txt"], "none called 'txt': did you mean 'text'?"),
        "ending": (
            [*file, "--out", out.with_suffix(".xlsx")],
            "expected a name that ends in one of .csv, .tsv, .jsonl",
        ),
        "option": ([*file, "--out", out, "--chat"], "chat needs a model that continues texts"),
        "column": ([*file, "--out", out, "--text-columns", "tixt"], "none called 'tixt': did you mean 'text'?"),
    }


@pytest.mark.parametrize("what", bad_flags(Path(), Path("out.csv")))
def test_flags_that_do_not_fit_are_one_sentence(
    what: str, source: Path, tmp_path: Path, folder_of: FolderOf, capsys: pytest.CaptureFixture[str]
) -> None:
    flags, sentence = bad_flags(source, tmp_path / "out.csv")[what]
    assert run("predict", folder_of("encoder"), *flags) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert shown.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_forecast_goes_to_its_file_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path / "model", "series")
    rows = [f"2026-01-01 {hour // 60:02}:{hour % 60:02},{hour % 7}" for hour in range(60)]
    (tmp_path / "load.csv").write_text("\n".join(["date,load", *rows]), encoding="utf-8")
    for _ in range(2):  # the second replaces the first
        assert run("predict", folder, tmp_path / "load.csv", "--out", tmp_path / "out.csv") == 0
        assert ": 12 rows, 1 channel" in capsys.readouterr().err
    assert run("predict", folder, tmp_path / "load.csv", "--out", tmp_path / "out.csv", "--id-column", "date") == 2
    assert "--id-column needs a model that answers row by row" in capsys.readouterr().err


def test_a_terminal_has_a_bar(
    source: Path, tmp_path: Path, folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(
        predict_file, "make_console", lambda **_: Console(file=terminal, force_terminal=True, width=100)
    )
    assert run("predict", folder_of("encoder"), "--file", source, "--out", tmp_path / "out.csv") == 0
    assert "10 of 10 rows" in terminal.getvalue()
    assert "rows/s" in terminal.getvalue()


def test_elsewhere_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(predict_file.time, "monotonic", lambda: now)
    with RowProgress() as progress:
        progress.at(400, 1000)  # rows of the killed job
        for rows in (450, 500, 1000):
            now += 5
            progress.at(rows, 1000)
    assert capsys.readouterr().err.splitlines() == ["500 of 1,000 rows, 10 rows/s, 50 s left"]


def test_ctrl_c_says_how_to_go_on(
    source: Path,
    tmp_path: Path,
    folder_of: FolderOf,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = job.Job.answer

    def interrupted(self: job.Job, inputs: list[Any], number: int) -> list[Any]:
        if number == 8:
            raise KeyboardInterrupt
        return answer(self, inputs, number)

    monkeypatch.setattr(job, "CHUNK_ROWS", (4, 4))
    monkeypatch.setattr(job.Job, "answer", interrupted)
    call = ["predict", folder_of("encoder"), "--file", source, "--out", tmp_path / "out.csv"]
    assert run(*call) == 130
    assert "stopped: 8 rows are saved. Run the same command again to continue" in capsys.readouterr().err
    monkeypatch.setattr(job.Job, "answer", answer)
    assert run(*call) == 0
    assert "after row 8 of 10" in capsys.readouterr().err
