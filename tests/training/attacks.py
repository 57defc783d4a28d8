"""Commands that are attacked: killed, or refused the disk, at a write of their own choosing.

A process that has imported everything waits for commands, and forks for each, so that an attack costs little more than
what it attacks. It runs with one thread: threads do not survive a fork. In the fork, Python's audit events tell every
file that is about to be opened for writing, renamed, removed or made.
"""

import errno
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
GROWING = ("os.mkdir", "open", "os.link", "os.symlink")  # what a full disk refuses
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal; how often it was about to change a file."""

    code: int
    changes: int
    output: str
    errors: str


class Attacked:
    """The process that waits for commands."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def run(self, *arguments: object, **attack: Any) -> Ended:
        """`glassformer ARGUMENTS`, and an attack: `kill_at` or `full_at` a change, counted from 1; `longest` bytes that
        a file may have, past which the process is killed, or with `refused` told so."""
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
    from glassformer.tasks.registry import TASKS, page_of

    for task in TASKS:
        page_of(task)
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
    """Where there are weights, at the place of a run and where it waits to be replaced."""
    places = {"place": out, "aside": out.with_name(f".{out.name}.replaced")}
    files = {name: folder / "model.safetensors" for name, folder in places.items()}
    return {name: file.read_bytes() for name, file in files.items() if file.is_file()}


def left_over(folder: Path) -> list[str]:
    """What should be gone when a command has ended."""
    names = [str(entry.relative_to(folder)) for entry in folder.rglob(".*") if entry.name != ".metadata"]
    return sorted(names)


if __name__ == "__main__":
    serve()
