"""A run folder has one owner: two trainings never write to the same one, and the lock of a dead process is ignored."""

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from helpers.command import python, started
from helpers.tiny_runs import tiny, train

from glassformer.errors import InputError
from glassformer.training import lock
from glassformer.training.lock import Lock, Owner
from glassformer.training.loop import Trainer

HOLD = """
import sys, time
from pathlib import Path
from glassformer.training.lock import Lock
with Lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(100)
"""


def lock_file(out: Path) -> Path:
    return out.with_name(f".{out.name}.lock")


def test_a_lock_names_its_owner_and_goes_with_it(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "mine"
    with Lock(out):
        said = json.loads(lock_file(out).read_text(encoding="utf-8"))
        assert (said["host"], said["process"]) == (socket.gethostname(), os.getpid())
        with pytest.raises(InputError, match=rf"another training run is writing there \(process {os.getpid()} on"):
            Lock(out).__enter__()
    assert list(tmp_path.iterdir()) == [], "nothing was written, so nothing is left, not even the parent folder"
    with Lock(out):
        out.mkdir()
    assert list(out.parent.iterdir()) == [out]


def test_of_another_process_and_after_its_kill(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    with started("-c", HOLD, out) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"process {holder.pid} on .*`kill {holder.pid}`, or choose another"):
            Lock(out).__enter__()
        holder.kill()
        holder.wait()
        assert lock_file(out).is_file(), "a kill leaves it behind"
        with Lock(out):
            assert json.loads(lock_file(out).read_text(encoding="utf-8"))["process"] == os.getpid()
    assert not lock_file(out).exists()


def test_a_forked_process_holds_no_lock(tmp_path: Path) -> None:
    """It may outlive the process that trains."""
    fork = """
import os, sys, time
from pathlib import Path
from glassformer.training.lock import Lock
Lock(Path(sys.argv[1])).__enter__()
if not os.fork():
    os.close(1)
    time.sleep(20)
    os._exit(0)
os._exit(0)
"""
    python("-c", fork, tmp_path / "mine", stderr=None)
    with Lock(tmp_path / "mine"):
        pass


@pytest.mark.parametrize(
    ("changes", "is_gone"),
    [
        ({}, False),  # it is alive
        ({"started": "1"}, True),  # its id was reused by another process
        ({"process": 2**22 + 5}, True),  # there is no such process
        ({"boot": "another", "process": 1}, True),  # the machine was rebooted
        ({"host": "container"}, False),  # a container on this machine: the process is visible from here
        ({"host": "elsewhere", "boot": "another"}, False),  # unknown
    ],
)
def test_when_an_owner_is_gone(changes: dict[str, Any], is_gone: bool) -> None:
    assert Owner(**{**vars(Owner.here()), **changes}).is_gone == is_gone


def written(out: Path, **changes: Any) -> None:
    lock_file(out).write_text(json.dumps({**vars(Owner.here()), **changes}), encoding="utf-8")


def test_one_of_another_host_is_named_with_the_way_out(tmp_path: Path) -> None:
    written(tmp_path / "mine", host="node7", boot="another", process=4711)
    with pytest.raises(
        InputError, match=r"another machine .*process 4711 on node7.*If it has ended, delete .*mine\.lock"
    ):
        Lock(tmp_path / "mine").__enter__()
    lock_file(tmp_path / "mine").unlink()
    with Lock(tmp_path / "mine"):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"host": 1}', "\0\0"])
def test_a_damaged_lock_of_nobody_is_taken(content: str, tmp_path: Path) -> None:
    lock_file(tmp_path / "mine").write_text(content, encoding="utf-8")
    with Lock(tmp_path / "mine"):
        pass


def test_without_flock_what_is_written_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some network file systems."""

    def none(*_: object) -> None:
        raise OSError(lock.errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    with Lock(tmp_path / "mine"), pytest.raises(InputError, match=f"process {os.getpid()}"):
        Lock(tmp_path / "mine").__enter__()
    written(tmp_path / "mine", started="1")
    with Lock(tmp_path / "mine"):
        pass


def test_where_the_folder_above_is_read_only_it_is_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, real = tmp_path / "mine", os.open

    def guarded(path: Any, *options: Any) -> int:
        if Path(path).parent == tmp_path:
            raise PermissionError(lock.errno.EACCES, "Permission denied", str(path))
        return real(path, *options)

    monkeypatch.setattr(lock.os, "open", guarded)
    with pytest.raises(InputError, match=r"--out .*mine cannot be written: Permission denied"):
        Lock(out).__enter__()
    out.mkdir()
    with Lock(out):
        assert (out / ".lock").is_file()
        train_refused(out)
    assert list(out.iterdir()) == []


def train_refused(out: Path) -> None:
    for how in ({}, {"overwrite": True}):
        with pytest.raises(InputError, match="another training run is writing there"):
            train(tiny(out, **how))


def test_a_live_run_is_neither_resumed_nor_replaced_nor_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trainings in one process, one of them in a thread."""
    out, reached, go_on = tmp_path / "run", threading.Event(), threading.Event()
    real = Trainer.update

    def update(self: Trainer, examples: list[int]) -> None:
        if self.settings.out == out and self.state.step == 2:
            reached.set()
            go_on.wait(60)
        real(self, examples)

    monkeypatch.setattr(Trainer, "update", update)
    thread = threading.Thread(target=lambda: train(tiny(out, steps=4, checkpoint_every=1)))
    thread.start()
    try:
        assert reached.wait(60)
        before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
        for how in ({}, {"resume": True}, {"overwrite": True}, {"overwrite": True, "seed": 3}):
            with pytest.raises(InputError, match=rf"process {os.getpid()}|holds an unfinished run"):
                train(tiny(out, steps=4, checkpoint_every=1, **how))
        assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
        train(tiny(tmp_path / "other", steps=1))
    finally:
        go_on.set()
        thread.join()
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert steps == sorted(steps)
    assert (out / "model.safetensors").is_file()
    assert not lock_file(out).exists()
