"""Targeted kills, before and during every file write of a run: nothing is lost, and the result is the same bit for bit.

An attack kills a training just before its N-th file change, or when a file grows past a size. Then the test does what a
user would do: run the same command again, or --resume. The quick tests use some of the kills, the slow ones all.

A process that has imported everything waits for commands and forks for each, so that an attack costs little more than
the training itself: this file, run as a program. It has one thread, because threads do not survive a fork. In the fork,
Python's audit events report every file that is about to be opened for writing, renamed, removed or created.
"""

import errno
import json
import mmap
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
GROWING = ("os.mkdir", "open", "os.link", "os.symlink")  # refused on a full disk
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal, and the number of its file changes."""

    code: int
    changes: int
    output: str
    errors: str


class Attacked:
    """The process that waits for commands."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def run(self, *arguments: object, **attack: Any) -> Ended:
        """Runs `glassformer ARGUMENTS` under an attack: `kill_at` or `full_at` a file change, counted from 1; `longest`
        is the largest file in bytes, beyond which the process is killed or, with `refused`, gets an error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"arguments": [str(word) for word in arguments], **attack}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process that forks has ended"
        return Ended(**json.loads(line))


@contextmanager
def attacked() -> Iterator[Attacked]:
    """Started once for many commands."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, __file__]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            yield Attacked(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def serve() -> None:
    """Forks for each line of standard input."""
    from glassformer.cli import VERBS
    from glassformer.tasks.registry import TASKS, task_class

    for task in TASKS:
        task_class(task)
        _ = VERBS[f"train {task}"].main
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as names:
            counter = mmap.mmap(-1, 8)  # shared with the fork
            child = os.fork()
            if not child:
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                code = attack(counter, **asked)
                if "longest" not in asked:
                    os.write(names.fileno(), "\n".join(sys.modules).encode())
                os._exit(code)
            _, status = os.waitpid(child, 0)
            for name in os.pread(names.fileno(), 10**6, 0).decode().split():  # the next fork finds them here
                if name not in sys.modules:
                    with suppress(Exception):
                        import_module(name)
            texts = [os.pread(file.fileno(), 10**6, 0).decode() for file in (output, errors)]
            said = [os.waitstatus_to_exitcode(status), int.from_bytes(counter[:8], "little"), *texts]
        answers.write(json.dumps(dict(zip(("code", "changes", "output", "errors"), said, strict=True))) + "\n")
        answers.flush()


def attack(
    counter: mmap.mmap,
    arguments: list[str],
    kill_at: int | None = None,
    full_at: int | None = None,
    longest: int | None = None,
    refused: bool = False,
) -> int:
    """In the fork: runs a command."""
    from glassformer.cli import main

    count = 0

    def heard(event: str, about: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            is_change = isinstance(about[2], int) and about[2] & WRITES and not str(about[0]).startswith("/dev/")
        else:
            is_change = event in CHANGES
        if not is_change:
            return
        count += 1
        counter[:8] = count.to_bytes(8, "little")
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if full_at is not None and count >= full_at and event in GROWING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(about[0]))

    code = 0
    try:
        sys.addaudithook(heard)
        if longest is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN if refused else signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
        main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def models(out: Path) -> dict[str, bytes]:
    """The weights that exist: those of the run, and those of the run it replaces."""
    places = {"place": out, "aside": out.with_name(f".{out.name}.replaced")}
    files = {name: folder / "model.safetensors" for name, folder in places.items()}
    return {name: file.read_bytes() for name, file in files.items() if file.is_file()}


def left_over(folder: Path) -> list[str]:
    """Files that should be gone when a command has ended."""
    names = [str(entry.relative_to(folder)) for entry in folder.rglob(".*") if entry.name != ".metadata"]
    return sorted(names)


SMALL = ["--steps=4", "--checkpoint-every=2", "--eval-every=2", "--d-model=16", "--num-layers=1", "--num-heads=2"]
SMALL += ["--warmup=1", "--schedule=constant", "--rate=0.001"]
TASKS = {
    "translate": ["--data=pairs.tsv", "--batch-tokens=128", "--vocab-size=64", "--ema=0.9"],
    "lm": ["--data=text.txt", "--context=16", "--batch-tokens=128", "--vocab-size=300", "--sample=4", "--average=2"],
    "classify": ["--data=reviews.csv", "--batch-size=16", "--vocab-size=64"],
    "forecast": ["--data=series.csv", "--length=16", "--horizon=4", "--patch=4", "--stride=4", "--period=4"],
}
MOST = 130  # most file changes in a training; later kills find it finished


@dataclass
class Bench:
    """The folder of the attacks."""

    attacked: Attacked
    folder: Path
    kept: dict[Any, Path] = field(default_factory=dict)

    def words(self, task: str, out: Path, *more: str) -> list[str]:
        data = [flag.replace("--data=", f"--data={self.folder}/") for flag in TASKS[task]]
        return ["train", task, f"--out={out}", *SMALL, *data, *more]

    def whole(self, task: str, *more: str) -> Path:
        """An undisturbed run."""
        if (task, more) not in self.kept:
            out = self.folder / f"whole-{len(self.kept)}"
            ended = self.attacked.run(*self.words(task, out, *more))
            assert ended.code == 0, ended.errors
            self.kept[task, more] = out
        return self.kept[task, more]

    def weights(self, task: str, *more: str) -> bytes:
        return models(self.whole(task, *more))["place"]

    def check_same(self, out: Path, task: str, ended: Ended) -> None:
        """The run equals the undisturbed one, including curves and report, and no files are left over."""
        assert ended.code == 0, ended.errors
        assert models(out) == {"place": self.weights(task)}
        assert left_over(out.parent) == []
        assert (out / "report.html").is_file()
        assert curve(out) == curve(self.whole(task))


def curve(out: Path) -> list[tuple[int, float]]:
    entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(entry["step"], entry.get("loss", entry.get("valid_loss", entry.get("valid_mse")))) for entry in entries]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("attacks")
    pairs = "".join(f"word {i}\t단어 {i}\n" for i in range(60))
    rows = "".join(f"word {i},{'ab'[i % 2]}\n" for i in range(60))
    hours = "".join(f"2024-01-{1 + i // 24:02} {i % 24:02}:00,{i % 7},{i % 5}\n" for i in range(200))
    texts = {
        "pairs.tsv": pairs,
        "text.txt": "".join(f"the word {i} is here.\n" for i in range(300)),
        "reviews.csv": f"text,label\n{rows}",
        "series.csv": f"date,x,y\n{hours}",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    with attacked() as forks:
        yield Bench(forks, folder)


def is_run(out: Path) -> bool:
    return (out / "run.json").is_file()


def killed(ended: Ended) -> bool:
    """Whether the attack came before the end."""
    assert ended.code in (0, -signal.SIGKILL, -signal.SIGXFSZ), ended.errors
    return ended.code != 0


def taken_up(bench: Bench, task: str, out: Path, number: int) -> Ended:
    """Every second time with --resume, if there is a run; else with the same command, unless its error suggests
    --resume."""
    resume = ["train", task, f"--out={out}", "--resume"]
    if number % 2 and is_run(out):
        return bench.attacked.run(*resume)
    ended = bench.attacked.run(*bench.words(task, out))
    if ended.code == 2 and "continue the run (--resume)" in ended.errors:
        return bench.attacked.run(*resume)
    return ended


def attack_fresh(bench: Bench, task: str, place: Path, number: int, **attack: Any) -> None:
    out = place / "run"
    if killed(bench.attacked.run(*bench.words(task, out), **attack)):
        bench.check_same(out, task, taken_up(bench, task, out, number))


def attack_resumed(bench: Bench, task: str, place: Path, number: int, **attack: Any) -> None:
    """A finished run of two steps is extended: its model exists at every moment."""
    out, short = place / "run", bench.whole(task, "--steps=2")
    shutil.copytree(short, out)
    longer = ["train", task, f"--out={out}", "--resume", "--steps=4"]
    if killed(bench.attacked.run(*longer, **attack)):
        assert models(out)["place"] in (models(short)["place"], bench.weights(task))
        bench.check_same(out, task, bench.attacked.run(*longer))


def attack_replacing(bench: Bench, task: str, place: Path, number: int, **attack: Any) -> None:
    """The old model exists until the new one does: in its place, or where the error message says."""
    out, old = place / "run", bench.whole(task, "--seed=7")
    shutil.copytree(old, out)
    command = bench.words(task, out, "--overwrite")
    if not killed(bench.attacked.run(*command, **attack)):
        return
    found = models(out)
    assert models(old)["place"] in found.values() or found["place"] == bench.weights(task)
    if "place" not in found:
        ended = bench.attacked.run("eval", out)
        assert ended.code == 2
        assert f"{place}/.run.replaced" in ended.errors
    began = is_run(out) and json.loads((out / "run.json").read_text(encoding="utf-8"))["settings"]["seed"] == 0
    resume = ["train", task, f"--out={out}", "--resume"]
    bench.check_same(out, task, bench.attacked.run(*(resume if number % 2 and began else command)))


ATTACKS = {"fresh": attack_fresh, "resumed": attack_resumed, "replacing": attack_replacing}


@pytest.mark.parametrize("number", range(1, 92, 6))
def test_a_killed_training_is_taken_up(number: int, bench: Bench, tmp_path: Path) -> None:
    attack_fresh(bench, "translate", tmp_path, number, kill_at=number)


@pytest.mark.parametrize("number", range(1, 60, 9))
def test_a_killed_training_that_went_on_is_taken_up(number: int, bench: Bench, tmp_path: Path) -> None:
    attack_resumed(bench, "translate", tmp_path, number, kill_at=number)


@pytest.mark.parametrize("number", [*range(1, 24, 2), 40, 70, 90, 100])
def test_a_killed_replacement_leaves_the_old_model(number: int, bench: Bench, tmp_path: Path) -> None:
    attack_replacing(bench, "translate", tmp_path, number, kill_at=number)


@pytest.mark.parametrize("number", range(2, 104, 10))
def test_a_killed_training_with_tokens_on_disk_is_taken_up(number: int, bench: Bench, tmp_path: Path) -> None:
    attack_fresh(bench, "lm", tmp_path, number, kill_at=number)


@pytest.mark.parametrize("size", [0, 1, 300, 2_000, 9_000, 30_000])
def test_a_kill_in_the_middle_of_a_file_leaves_no_half(size: int, bench: Bench, tmp_path: Path) -> None:
    attack_fresh(bench, "translate", tmp_path, size, longest=size)


def check_full(bench: Bench, task: str, place: Path, number: int, **attack: Any) -> None:
    """A full disk ends a training with a one-line error, and nothing is lost."""
    out = place / "run"
    ended = bench.attacked.run(*bench.words(task, out), **attack)
    if ended.code != 0:
        assert ended.code == 2, ended.errors
        assert ended.errors.startswith("error: ")
        assert len(ended.errors.splitlines()) == 1, ended.errors
        ended = taken_up(bench, task, out, number)
    bench.check_same(out, task, ended)


@pytest.mark.parametrize("number", [1, 2, 3, 5, 8, 16, 24, 48, 72, 88])
def test_a_disk_that_fills_up_loses_nothing(number: int, bench: Bench, tmp_path: Path) -> None:
    check_full(bench, "translate", tmp_path, number, full_at=number)


@pytest.mark.parametrize("size", [300, 2_000, 9_000, 30_000])
def test_a_file_that_may_not_grow_loses_nothing(size: int, bench: Bench, tmp_path: Path) -> None:
    check_full(bench, "translate", tmp_path, size, longest=size, refused=True)


@pytest.mark.parametrize("number", [4, 12, 20])
def test_a_replacement_on_a_full_disk_leaves_the_old_model(number: int, bench: Bench, tmp_path: Path) -> None:
    out, old = tmp_path / "run", bench.whole("translate", "--seed=7")
    shutil.copytree(old, out)
    ended = bench.attacked.run(*bench.words("translate", out, "--overwrite"), full_at=number)
    assert ended.code == 2
    assert "Traceback" not in ended.errors
    assert models(old)["place"] in models(out).values()
    if "place" not in models(out):
        assert f"the replaced run is in {tmp_path}/.run.replaced" in ended.errors


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_full_disk(task: str, bench: Bench, tmp_path: Path) -> None:
    for number in range(1, MOST, 2 if task == "translate" else 7):
        check_full(bench, task, tmp_path / str(number), number, full_at=number)
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.slow
@pytest.mark.parametrize("way", ATTACKS)
@pytest.mark.parametrize("task", TASKS)
def test_every_kill(task: str, way: str, bench: Bench, tmp_path: Path) -> None:
    """All file changes of a translation run, and every fourth of the other tasks."""
    for number in range(1, MOST, 1 if task == "translate" else 4):
        ATTACKS[way](bench, task, tmp_path / str(number), number, kill_at=number)
        shutil.rmtree(tmp_path / str(number))


if __name__ == "__main__":
    serve()
