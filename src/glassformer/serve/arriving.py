"""A deadline for whole requests: a client that sends byte by byte is disconnected just like a silent one."""

import io
import socket
import time
from typing import Any


class DeadlineReader(io.RawIOBase):
    """The bytes of a connection. It may be idle between requests, but once a request has started, all of it must
    arrive within the deadline."""

    def __init__(self, connection: socket.socket, idle: float, whole: float) -> None:
        self.connection, self.idle, self.whole = connection, idle, whole
        self.until: float | None = None  # deadline of the request that is arriving

    def renew(self) -> None:
        """Clears the deadline: the next request starts its own."""
        self.until = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.whole if self.until is None else self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        self.connection.settimeout(self.idle if self.until is None else min(left, self.idle))
        size = self.connection.recv_into(buffer)
        if self.until is None:
            self.until = time.monotonic() + self.whole
        return size
