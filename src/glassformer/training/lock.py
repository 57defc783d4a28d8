"""A lock on a run folder, which says which process on which host holds it.

The lock is a file beside the folder, `.mine.lock`, because the folder itself moves when a run is replaced; if the
parent folder is not writable, it is `.lock` inside. The owner holds it by flock, which ends with the process however it
ends, and writes its id into it, for people and for file systems without flock. In a distributed training, the first
process holds it. Readers need no lock, because every file is written atomically.
"""

import errno
import fcntl
import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from glassformer.errors import InputError
from glassformer.io import hidden_beside, is_alive

BOOT = Path("/proc/sys/kernel/random/boot_id")
NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)

_held: set[int] = set()  # file descriptors of the locks of this process


@dataclass(frozen=True)
class Owner:
    """Who holds a lock."""

    host: str
    boot: str | None  # distinguishes machines, and reboots of a machine
    process: int
    started: str | None  # distinguishes a process from a later one with the same id
    since: str

    @classmethod
    def here(cls) -> "Owner":
        now = datetime.now().isoformat(sep=" ", timespec="minutes")
        return cls(socket.gethostname(), boot_id(), os.getpid(), start_time(os.getpid()), now)

    @classmethod
    def read(cls, handle: int) -> "Owner | None":
        """None if the owner has not been written."""
        try:
            return cls(**json.loads(os.pread(handle, 10_000, 0)))
        except (ValueError, TypeError):
            return None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is on another machine, whose processes cannot be seen from here."""
        return self.host != socket.gethostname() and (self.boot is None or self.boot != boot_id())

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended. A process on another machine may still run."""
        if self.is_elsewhere:
            return False
        if self.boot != boot_id() or not is_alive(self.process):
            return True
        return self.started != start_time(self.process)


class Lock:
    """The lock of a run folder, to be used in a `with`."""

    def __init__(self, out: Path) -> None:
        self.out, self.place = out, out.resolve()
        self.made: list[Path] = []  # parent folders that were created

    def __enter__(self) -> Self:
        try:
            self.make_parents()
            try:
                self.take(hidden_beside(self.place, "lock"))
            except OSError as error:
                if error.errno not in NOT_WRITABLE or not self.place.is_dir():
                    raise
                self.take(self.place / ".lock")
        except OSError as error:
            self.remove_parents()
            raise InputError(f"--out {self.out} cannot be written: {error.strerror}") from None
        return self

    def __exit__(self, *error: object) -> None:
        self.file.unlink(missing_ok=True)  # before the lock is released, so that nobody takes a file about to go
        _held.discard(self.handle)
        os.close(self.handle)
        self.remove_parents()

    def take(self, file: Path) -> None:
        while True:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                is_free, owner = can_hold(handle), Owner.read(handle)
                if not is_free or (owner is not None and not owner.is_gone):
                    raise self.refused(owner, file)
                if is_at(handle, file):
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, json.dumps(asdict(Owner.here())).encode() + b"\n", 0)
                    self.file, self.handle = file, handle
                    _held.add(handle)
                    return
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # the previous owner has deleted it meanwhile

    def refused(self, owner: Owner | None, file: Path) -> InputError:
        if owner is None:
            return InputError(f"--out {self.out}: another process is training there. Wait for it, or choose another")
        who = f"process {owner.process} on {owner.host}, since {owner.since}"
        if owner.is_elsewhere:
            return InputError(
                f"--out {self.out}: a training run on another machine holds this folder ({who}), and "
                f"{socket.gethostname()} cannot see whether it still runs. If it has ended, delete {file} and try again"
            )
        return InputError(
            f"--out {self.out}: another training run is writing there ({who}). Wait for it, end it with `kill "
            f"{owner.process}`, or choose another --out"
        )

    def make_parents(self) -> None:
        missing = [folder for folder in self.place.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            self.made.insert(0, folder)

    def remove_parents(self) -> None:
        """Removes parent folders that were created here and are still empty."""
        for folder in self.made:
            with suppress(OSError):
                folder.rmdir()


def can_hold(handle: int) -> bool:
    """Takes the lock by flock, if the file system has it; False if another process holds it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in NO_FLOCK
    return True


def is_at(handle: int, file: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except FileNotFoundError:
        return False


def boot_id() -> str | None:
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def start_time(process: int) -> str | None:
    """When a process started, by the kernel's clock; None if it is unknown."""
    try:
        about = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return about.rpartition(")")[2].split()[19]


def forget_locks() -> None:
    """A forked process drops the locks: it would keep them after its parent has ended."""
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=forget_locks)
