"""The explorer's server: HTTP for this machine only, with the standard library.

Pages of other sites must not be able to read or control it, so the Host header must name this machine and our port, and
a POST must be JSON from our own page. Requests are limited in size and time, connections in number. Errors are sent as
one sentence in JSON. When all connections are in use, the client that has kept the server waiting longest must leave.
"""

import errno
import io
import json
import socket
import sys
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Semaphore
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from glassformer.errors import InputError
from glassformer.explore.export.export import PAGE, exported
from glassformer.explore.view.bounds import BusyError, GoneError, RequestTimeoutError
from glassformer.explore.view.pair import PairSession
from glassformer.explore.view.routes import Routes
from glassformer.explore.view.session import Session
from glassformer.figures.palette import as_style_sheet
from glassformer.serve.arriving import DeadlineReader

LOOPBACK = "127.0.0.1"
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 4 * 2**20
MAX_DISCARDED = 64 * 2**20  # bytes of an oversized body that are read before answering
MAX_CONNECTIONS = 64
IDLE = 30.0  # seconds that a connection may be silent, or that a response may wait to be read
REQUEST_TIMEOUT = 30.0  # seconds from the first byte of a request to the last
LEAVING = 1.0  # seconds that a connection may take to close when another needs its slot
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def page_files() -> dict[str, Path]:
    """All files of the page. Requests are looked up here, so no other file can be read."""
    files = (file for file in PAGE.rglob("*") if file.suffix in TYPES and file.is_file())
    return {file.relative_to(PAGE).as_posix(): file for file in files}


class RequestError(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """Serves one session."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, session: Session | PairSession, port: int) -> None:
        self.session, self.routes = session, Routes(session)
        self.places = Semaphore(MAX_CONNECTIONS)
        self.waiting = dict[socket.socket, None]()  # connections that keep the server waiting, longest first
        self.lock = Lock()
        super().__init__((LOOPBACK, port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for the connection, up to the maximum."""
        if not self.places.acquire(blocking=False) and not self.free_a_place():
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.places.release()  # no thread was started
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def wait_for(self, connection: socket.socket) -> None:
        """Marks a connection as waiting for the client to send a request or to read a response."""
        with self.lock:
            self.waiting.pop(connection, None)
            self.waiting[connection] = None

    def stop_waiting_for(self, connection: socket.socket) -> None:
        with self.lock:
            self.waiting.pop(connection, None)

    def free_a_place(self) -> bool:
        """Disconnects the client that has kept the server waiting longest. False if all clients are being answered."""
        with self.lock:
            slowest = next(iter(self.waiting), None)
            if slowest is None:
                return False
            del self.waiting[slowest]
            with suppress(OSError):
                slowest.shutdown(socket.SHUT_RDWR)
        return self.places.acquire(timeout=LEAVING)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect; prints any other error as one line."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"error: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "glassformer", ""
    timeout, whole = IDLE, REQUEST_TIMEOUT
    disable_nagle_algorithm = True  # otherwise a small response waits until the client acknowledges its headers

    def setup(self) -> None:
        super().setup()
        self.arriving = DeadlineReader(self.connection, self.timeout, self.whole)
        self.rfile.close()
        self.rfile = io.BufferedReader(self.arriving)

    def handle_one_request(self) -> None:
        self.arriving.renew()
        self.server.wait_for(self.connection)
        super().handle_one_request()

    def finish(self) -> None:
        self.server.stop_waiting_for(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self.answer(self.read)

    def do_HEAD(self) -> None:
        """As GET; `send` omits the content."""
        self.answer(self.read)

    def do_POST(self) -> None:
        self.answer(self.posted)

    def answer(self, make: Any) -> None:
        """Sends exactly one response to every request, whatever happens."""
        try:
            self.check_host()
            make()
        except RequestError as error:
            self.refuse(error.status, error)
        except InputError as error:
            self.refuse(400, error)
        except GoneError as error:
            self.refuse(404, error)
        except BusyError as error:
            self.refuse(503, error)
        except RequestTimeoutError as error:
            self.refuse(504, error)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True  # the client is gone
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EBADF:
                self.close_connection = True  # the server is stopping and has closed the socket
                return
            print(f"error: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self.refuse(500, f"the server failed with {type(error).__name__}: see its terminal")

    def check_host(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in {f"{name}:{self.server.port}" for name in LOCAL_HOSTS}:
            raise RequestError(421, f"this server only answers at {self.server.address}. Open that address")

    def read(self) -> None:
        self.server.stop_waiting_for(self.connection)
        if len(self.path) > 4096:
            raise RequestError(414, "the address is too long: expected at most 4,096 characters")
        try:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20))
        except ValueError:
            raise InputError(f"the address {self.path[:60]!r} cannot be read. Open {self.server.address}") from None
        if parts.path.startswith("/api/") and self.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            raise RequestError(
                403, "request from a page of another site: only the explorer's own page may send requests"
            )
        if not parts.path.startswith("/api/"):
            self.send_file("index.html" if parts.path == "/" else parts.path.removeprefix("/"))
            return
        path = parts.path.removeprefix("/api/")
        if path == "export":
            self.send_export(query)
            return
        found = self.server.routes.get(path, query)
        if isinstance(found, bytes):
            self.send(200, found, "application/octet-stream")
        else:
            self.send_json(200, found)

    def posted(self) -> None:
        self.check_origin()
        body = self.body()
        self.server.stop_waiting_for(self.connection)
        if self.path != "/api/view":
            raise GoneError("expected a POST to /api/view")
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            raise InputError('the body is not JSON: expected {"input": {...}}') from None
        if not isinstance(given, dict) or set(given) != {"input"}:
            raise InputError('the body has unexpected keys: expected {"input": {...}}')
        self.send_json(200, self.server.session.view(given["input"]).shown)

    def check_origin(self) -> None:
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{name}:{self.server.port}" for name in LOCAL_HOSTS}:
            raise RequestError(
                403, f"request from a page of {origin[:60]}: only the explorer's own page may send requests"
            )
        if (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower() != "application/json":
            raise RequestError(415, "the body has the wrong type: expected Content-Type: application/json")

    def body(self) -> bytes:
        length = self.headers.get("Content-Length") or ""
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise RequestError(411, "the request has no Content-Length")
        if len(length) > 12 or int(length) > MAX_BODY:
            self.discard(min(int(length[:12]), MAX_DISCARDED))
            raise RequestError(413, f"the input is too large: expected at most {MAX_BODY // 2**20} MB")
        try:
            return self.rfile.read(int(length))
        except TimeoutError:
            raise RequestError(408, f"the input did not arrive within {self.whole:g} seconds. Send it again") from None

    def discard(self, size: int) -> None:
        """Reads and drops the rest of a body: a browser reads no response before it has sent everything."""
        while size > 0 and (part := self.rfile.read(min(size, 2**16))):
            size -= len(part)

    def send_file(self, name: str) -> None:
        """Sends a file of the page; palette.css comes from the palette that all pages share."""
        if name == "palette.css":
            return self.send(200, as_style_sheet().encode(), "text/css; charset=utf-8")
        file = page_files().get(name)
        if file is None:
            raise GoneError(f"{name[:60]!r} does not exist. The explorer is at {self.server.address}")
        return self.send(200, file.read_bytes(), f"{TYPES[file.suffix]}; charset=utf-8")

    def send_export(self, query: dict[str, str]) -> None:
        session = self.server.session
        view = session.find(query.get("id", ""))
        text = exported(session, self.server.routes, view, query.get("layer"), query.get("state", ""))
        name = "".join(
            letter if letter.isascii() and letter.isalnum() else "-" for letter in session.folder.resolve().name
        )
        disposition = {"Content-Disposition": f'attachment; filename="{name or "model"}.html"'}
        self.send(200, text.encode(), "text/html; charset=utf-8", disposition)

    def refuse(self, status: int, error: object) -> None:
        """Sends an error sentence and closes the connection, because the body may be unread."""
        self.close_connection = True
        with suppress(OSError):  # the client may be gone
            self.send_json(status, {"error": " ".join(str(error).split())})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends errors of http.server itself, such as an unknown method, in the same form."""
        self.refuse(code, f"{message or 'the request cannot be read'}: expected GET, or POST of JSON")

    def send_json(self, status: int, values: dict[str, Any]) -> None:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
        self.send(status, text.encode(errors="replace"), "application/json; charset=utf-8")

    def send(self, status: int, content: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            **({"Connection": "close"} if self.close_connection else {}),
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.connection.settimeout(self.timeout)
        self.server.wait_for(self.connection)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *values: Any) -> None:
        """Logs nothing: the terminal belongs to the user."""
