"""Standard streams that are closed, broken or full, and arguments that are not UTF-8: never a traceback, and training
continues."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.command import PATIENCE

from glassformer.terminal import LossyStream, make_console

PAIRS = "".join(f"word {i}\t단어 {i}\n" for i in range(60))
SMALL = "--steps=30 --eval-every=5 --d-model=16 --num-layers=1 --num-heads=2 --batch-tokens=128 --vocab-size=64"


def shell(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a line of bash in which `glassformer` is the tested package."""
    words = f'glassformer() {{ "{sys.executable}" -m glassformer "$@"; }}; {command}'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", words], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("| head -1; exit ${PIPESTATUS[0]}", 0),
        pytest.param("<&- >&- 2>&-", 0, marks=pytest.mark.slow),
        pytest.param("> /dev/full", 0, marks=pytest.mark.slow),
    ],
)
def test_a_training_that_nobody_listens_to_goes_on(how: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    ended = shell(f"glassformer train translate --data pairs.tsv {SMALL} --out run {how}", tmp_path)
    assert (ended.returncode, ended.stderr) == (code, "")
    for name in ("model.safetensors", "report.html"):
        assert (tmp_path / "run" / name).is_file()
    assert len((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 36


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("glassformer --help >&-", 0, ""),
        ("glassformer --help > /dev/full", 2, "No space left on device"),
        ("glassformer data 2>&- <&- > /dev/null", 0, ""),
        ("glassformer nothing 2>&-", 2, ""),
        ("glassformer predict nowhere <&- >&-", 2, "nowhere"),
        ("glassformer eval nowhere <&- 2>&-", 2, ""),
        ("glassformer train lm --steps=0 <&- >&- 2>&-", 2, ""),
        ("glassformer predict nowhere $'\\xff\\xfe'", 2, r"the argument b'\xff\xfe' is not UTF-8"),
        ("glassformer $'\\xe9'", 2, r"the argument b'\xe9' is not UTF-8"),
        ("glassformer train translate --out=$'caf\\xe9'", 2, "is not UTF-8 text"),
        ("PYTHONIOENCODING=ascii glassformer predict $'nowhere-\\xea\\xb0\\x80'", 2, "nowhere"),
    ],
)
def test_streams_and_arguments_of_any_verb(command: str, code: int, says: str, tmp_path: Path) -> None:
    ended = shell(command, tmp_path)
    assert ended.returncode == code
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 1
    assert list(tmp_path.iterdir()) == []


class Broken:
    """A stream that fails."""

    encoding = "utf-8"

    def __init__(self, error: Exception) -> None:
        self.error, self.tried = error, 0

    def write(self, text: str) -> Any:
        self.tried += 1
        raise self.error

    flush = write  # type: ignore[assignment]

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise OSError("no file")


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left"), ValueError("closed file")])
def test_an_enduring_console_gives_up_once(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken(error)
    monkeypatch.setattr(sys, "stdout", broken)
    console = make_console(enduring=True)
    for _ in range(3):
        console.print("a line")
    assert broken.tried == 1


def test_letters_that_a_stream_has_not_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[str]()

    class Ascii(Broken):
        def write(self, text: str) -> int:
            text.encode("ascii")
            written.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stdout", Ascii(ValueError()))
    LossyStream("stdout").write("한 word")
    assert written == ["\\ud55c word"]
