"""How far an output has come, so that a killed job goes on where it was: two hidden files beside the output.

    .scored.csv.partial    the rows that are written so far
    .scored.csv.journal    a line of JSON with the facts that decide the answers, then one for every chunk: how many
                           rows and bytes of the partial file are right

A chunk is on the disk before its line is. So the partial file always holds what the last whole line says; what is
behind that is cut off. At the end the partial file takes the output's place, and the journal goes.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from glassformer.errors import InputError

Facts = dict[str, Any]


class Journal:
    """The journal of an output, which no other process writes meanwhile; to be used in a `with`."""

    def __init__(self, out: Path) -> None:
        self.out, self.place = out, out.resolve()
        self.partial = self.place.with_name(f".{self.place.name}.partial")
        self.file = self.place.with_name(f".{self.place.name}.journal")
        self.facts: Facts | None = None  # of the job that was begun, if one was
        self.state: Facts = {"rows": 0, "bytes": 0}  # as the last whole line says

    @property
    def is_begun(self) -> bool:
        return self.file.is_file()

    def __enter__(self) -> Self:
        try:
            self.place.parent.mkdir(parents=True, exist_ok=True)
            self.handle = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise InputError(f"--out {self.out} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self.handle)
            raise InputError(f"--out {self.out}: another process is writing it. Wait for it, or end it") from None
        self.read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.facts is None:  # nothing was begun
            self.file.unlink(missing_ok=True)
        os.close(self.handle)

    def read(self) -> None:
        """Takes what the whole lines say; half a line is of a process that was killed while it wrote."""
        with self.file.open("rb") as file:
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self.file, len(whole))
        lines = whole.splitlines()
        try:
            if lines:
                self.facts = json.loads(lines[0])
            if lines[1:]:
                self.state = json.loads(lines[-1])
        except ValueError:
            raise InputError(
                f"{self.file} cannot be read, so {self.out} cannot be gone on with: start anew with --overwrite"
            ) from None

    def begin(self, facts: Facts) -> None:
        """Starts anew."""
        os.truncate(self.file, 0)
        self.partial.unlink(missing_ok=True)
        self.facts, self.state = facts, {"rows": 0, "bytes": 0}
        self.write(facts)

    def go_on(self) -> None:
        """Cuts off what the partial file has behind the last whole line."""
        size = self.partial.stat().st_size if self.partial.is_file() else 0
        if size < self.state["bytes"]:
            raise InputError(
                f"{self.partial} has {size:,} bytes, and {self.state['bytes']:,} were written: it was changed. Start "
                "anew with --overwrite"
            )
        if size > self.state["bytes"]:
            os.truncate(self.partial, self.state["bytes"])

    def add(self, data: bytes, **state: Any) -> None:
        """Writes a chunk, and then that it is there."""
        self.add_rows(data)
        self.state = {**state, "bytes": self.state["bytes"] + len(data)}
        self.write(self.state)

    def add_rows(self, data: bytes) -> None:
        with self.partial.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def write(self, values: Facts) -> None:
        line = json.dumps(values, ensure_ascii=False).encode() + b"\n"
        written = os.write(self.handle, line)
        if written < len(line):
            raise OSError(f"{self.file} cannot be written: the disk is full")
        os.fsync(self.handle)

    def end(self) -> None:
        """The output is in its place."""
        with suppress(FileNotFoundError):
            self.file.unlink()
