"""A request has a whole deadline: one that trickles in byte by byte ends as surely as one that is silent."""

import io
import socket
import time
from typing import Any


class Arriving(io.RawIOBase):
    """The bytes of a connection. Between requests it may be idle; from the first byte on a request has to be whole in
    time."""

    def __init__(self, connection: socket.socket, idle: float, whole: float) -> None:
        self.connection, self.idle, self.whole = connection, idle, whole
        self.until: float | None = None  # when the request that arrives has to be here

    def renew(self) -> None:
        """The next request begins with its own first byte."""
        self.until = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.whole if self.until is None else self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request was not here in time")
        self.connection.settimeout(self.idle if self.until is None else min(left, self.idle))
        size = self.connection.recv_into(buffer)
        if self.until is None:
            self.until = time.monotonic() + self.whole
        return size
