"""The progress of an output, so that a killed job can continue: two hidden files next to the output.

    .scored.csv.partial    the rows written so far
    .scored.csv.journal    a line of JSON with the facts that determine the answers, then one line per chunk: how many
                           rows and bytes of the partial file are valid

A chunk is on disk before its line in the journal. So the partial file always holds what the last complete line says;
anything after that is truncated. At the end the partial file is renamed to the output, and the journal is deleted.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from glassformer.errors import InputError

JobFacts = dict[str, Any]


class Journal:
    """The journal of an output, a context manager that locks it against other processes."""

    def __init__(self, out: Path) -> None:
        self.out, self.place = out, out.resolve()
        self.partial = self.place.with_name(f".{self.place.name}.partial")
        self.file = self.place.with_name(f".{self.place.name}.journal")
        self.facts: JobFacts | None = None  # of the started job, if there is one
        self.state: JobFacts = {"rows": 0, "bytes": 0}  # as in the last complete line

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
            raise InputError(f"--out {self.out}: another process is writing it. Wait for it, or stop it") from None
        self.read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.facts is None:  # nothing was started
            self.file.unlink(missing_ok=True)
        os.close(self.handle)

    def read(self) -> None:
        """Reads the complete lines. An incomplete line comes from a process that was killed while writing."""
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
                f"{self.file} cannot be read, so {self.out} cannot be continued. Start over with --overwrite"
            ) from None

    def begin(self, facts: JobFacts) -> None:
        """Starts a new journal."""
        os.truncate(self.file, 0)
        self.partial.unlink(missing_ok=True)
        self.facts, self.state = facts, {"rows": 0, "bytes": 0}
        self.write(facts)

    def go_on(self) -> None:
        """Truncates the partial file to what the last complete line says."""
        size = self.partial.stat().st_size if self.partial.is_file() else 0
        if size < self.state["bytes"]:
            raise InputError(
                f"{self.partial} has {size:,} bytes, and {self.state['bytes']:,} were written: it was changed. Start "
                "over with --overwrite"
            )
        if size > self.state["bytes"]:
            os.truncate(self.partial, self.state["bytes"])

    def add(self, data: bytes, **state: Any) -> None:
        """Writes a chunk, then its line in the journal."""
        self.add_rows(data)
        self.state = {**state, "bytes": self.state["bytes"] + len(data)}
        self.write(self.state)

    def add_rows(self, data: bytes) -> None:
        with self.partial.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def write(self, values: JobFacts) -> None:
        line = json.dumps(values, ensure_ascii=False).encode() + b"\n"
        written = os.write(self.handle, line)
        if written < len(line):
            raise OSError(f"{self.file} cannot be written: the disk is full")
        os.fsync(self.handle)

    def end(self) -> None:
        """Deletes the journal once the output is complete."""
        with suppress(FileNotFoundError):
            self.file.unlink()
