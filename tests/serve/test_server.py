"""The server over HTTP: every response, and every request that it must refuse with one sentence."""

import base64
import errno
import http.client
import io
import json
import logging
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_models import TEXT

from glassformer.explore.view import bounds
from glassformer.explore.view.session import Session
from glassformer.figures.png import SIGNATURE, chunk
from glassformer.serve import server as serving
from glassformer.serve.server import Server

JSON = {"Content-Type": "application/json"}
UNEVEN = "unique_id,ds,y\n" + "\n".join(
    f"{one},2024-01-0{day},1" for one in "ab" for day in range(1, 8 if one == "a" else 7)
)


@pytest.fixture(scope="module")
def server(open_server: Callable[[str], Server]) -> Server:
    return open_server("decoder")


def ask(
    server: Server,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    headers: dict[str, str] | None = None,
    raw: bool = False,
) -> tuple[int, Any, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    given = {**({} if body is None else JSON), **(headers or {})}
    connection.request(method or ("GET" if body is None else "POST"), path, content, given)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    is_json = not raw and (response.getheader("Content-Type") or "").startswith("application/json")
    return response.status, json.loads(text) if is_json else text, response


def refused(server: Server, path: str, body: Any = None, **options: Any) -> tuple[int, str]:
    status, answer, _ = ask(server, path, body, **options)
    assert set(answer) == {"error"}
    assert "Traceback" not in answer["error"]
    assert "\n" not in answer["error"]
    return status, answer["error"]


def claiming(width: int, height: int) -> str:
    """A PNG header that claims a size, without pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return "data:image/png;base64," + base64.b64encode(SIGNATURE + header + chunk(b"IDAT", b"no pixels")).decode()


def dated(last: str, gap: bool = False) -> str:
    hours = [f"2024-01-{1 + hour // 24:02} {hour % 24:02}:00,1" for hour in range(60)]
    return "\n".join(["date,load", *hours, f"2024-01-0{4 if gap else 3} 12:00,{last}"])


def test_model_and_view_over_http(server: Server) -> None:
    status, model, response = ask(server, "/api/model")
    assert status == 200
    assert model["kind"] == "decoder"
    assert model["live"] is True
    assert model["stacks"]["decoder"]["num_kv_heads"] == 2
    assert response.getheader("Cache-Control") == "no-store"
    status, view, _ = ask(server, "/api/view", {"input": {"text": TEXT}})
    assert status == 200
    assert ask(server, "/api/view", {"input": {"text": TEXT}})[1] == view
    name = view["maps"][0]["name"]
    status, content, response = ask(server, f"/api/view/{view['id']}/map?name={name}&head=mean")
    assert status == 200
    assert response.getheader("Content-Type") == "application/octet-stream"
    assert len(content) == 20 + len(view["lines"]["decoder"]["tokens"]) ** 2
    for path in (
        f"heads?name={name}", f"row?name={name}&head=1&row=0", "vectors?stack=decoder&layer=0&head=0&row=0&key=0",
        "worked?stack=decoder&layer=0&site=attn&head=0&row=0", "lens?first=0",
        "next?row=0&temperature=0.5&top_k=3&top_p=0.9&seed=1", "rollout?stack=decoder",
        "values?name=decoder.placed&token=0",
    ):  # fmt: skip
        assert ask(server, f"/api/view/{view['id']}/{path}")[0] == 200, path
    step = model["steps"]["attn.q"]
    source = ask(server, f"/api/source?file={step['file']}")[1]
    assert source["text"].splitlines()[step["line"] - 1].strip() == step["code"]


@pytest.mark.parametrize("kind", ["encoder-decoder", "encoder", "image", "series"])
def test_every_example_can_be_seen(kind: str, open_server: Callable[[str], Server]) -> None:
    server = open_server(kind)
    model = ask(server, "/api/model")[1]
    assert model["kind"] == kind
    assert model["examples"]
    for example in model["examples"]:
        status, view, _ = ask(server, "/api/view", {"input": example["input"]})
        assert status == 200
        assert view["maps"]


def test_the_page_and_its_policy(server: Server) -> None:
    status, page, response = ask(server, "/")
    assert status == 200
    assert b"<html" in page
    assert "script-src 'self'" in (response.getheader("Content-Security-Policy") or "")
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    files = [file for file in serving.PAGE.rglob("*") if file.is_file()]
    assert {file.parent.name for file in files} == {"page", "state", "drawing", "panels", "views"}
    for file in files:
        status, content, _ = ask(server, f"/{file.relative_to(serving.PAGE).as_posix()}")
        assert status == 200
        assert content == file.read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "/nothing", "/../server.py", "/..%2fserver.py", "/%2e%2e/server.py", "/page/index.html", "//etc/passwd",
        "/state", "/state/", "/state/../main.js", "/state/..%2fmain.js", "/state//load.js", "/./main.js", "/load.js",
        "/state/../../../serve/server.py", "/state%2fload.js", "/State/load.js", "/state/load.js/", "/state/load.js%00",
        "/api/nothing", "/api/view/0000", "/api/view/0000/map?name=x", "/api/source?file=../../pyproject.toml",
        "/api/source?file=serve/server.py", "/api/export?id=0000",
    ],
)  # fmt: skip
def test_what_is_not_there(path: str, server: Server) -> None:
    assert refused(server, path)[0] == 404


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"text": ""}, "empty"),
        ({"text": "  \n "}, "empty"),
        ({"text": 7}, "empty"),
        ({"text": "a" * 100_001}, "100,001 characters"),
        ({"text": "a", "without": ["decoder.blocks.9.attn.0"]}, "the decoder has no layer 9"),
        ({"text": "a", "without": "all"}, "expected a list of heads"),
        ({"text": "a" * 5000}, "5,000 tokens: expected at most 4,096"),
        ({"text": "a", "continued": [10**6]}, "continued contains 1000000"),
        ({"text": "a", "continued": ["x"]}, "expected a list of token ids"),
        ({"text": "a", "continued": [True]}, "expected a list of token ids"),
        ({"text": "a\ud83d"}, "half a character"),
        ({"txt": "a"}, "did you mean 'text'"),
        ({"example": 0}, "a model of text"),
        ({}, "expected an object"),
        (["text"], "expected an object"),
        (None, "expected an object"),
    ],
)
def test_bad_texts(given: Any, says: str, server: Server) -> None:
    status, error = refused(server, "/api/view", {"input": given})
    assert status == 400
    assert says in error


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("image", {"example": 99}, "example is 99: expected a number"),
        ("image", {"example": -1}, "example is -1: expected a number"),
        ("image", {"example": True}, "example is True"),
        ("image", {"image": "http://example.org/x.png"}, "not a data URL"),
        ("image", {"image": "data:image/png;base64,%%%"}, "not valid base64"),
        ("image", {"image": "data:image/png;base64,AAAA"}, "cannot be read"),
        ("image", {"image": "data:image/png;base64,AAAA", "example": 1}, "choose one"),
        ("image", {"image": claiming(20_000, 20_000)}, "expected at most 89,478,485. Make it smaller"),
        ("image", {"image": claiming(5000, 5000)}, "has 5000 x 5000 pixels: expected at most 4096 x 4096"),
        ("image", {"image": claiming(3, 3000)}, "has 3 x 3000 pixels: expected sides of at most 20 to 1"),
        ("image", {"image": claiming(0, 0)}, "cannot be read"),
        ("image", {"image": claiming(8, 8)}, "cannot be read"),
        ("image", {"image": "data:image/png;base64," + base64.b64encode(b"%!PS-Adobe-3.0 EPSF").decode()}, "cannot be"),
        ("series", {"csv": "1\n" * 60 + "1e39"}, "row 61 of channel 0 is inf, which is too large"),
        ("series", {"csv": "1\n" * 60 + "-1e38"}, "is -1e+38, which is too large"),
        ("series", {"csv": "1\n" * 60 + "nan"}, "'nan' is not a number"),
        ("series", {"csv": "1\n" * 60 + "inf"}, "'inf' is not a number"),
        ("series", {"csv": dated("1e39")}, "too large to compute with"),
        ("series", {"csv": dated("inf")}, "'inf' is not a number"),
        ("series", {"csv": dated("nan")}, "no value. Complete the table"),
        ("series", {"csv": dated("1", gap=True)}, "missing. Complete the table"),
        ("series", {"csv": UNEVEN}, "Give all series the same span"),
        ("decoder", {"text": "a", "target": "b"}, "does not translate"),
        ("series", {"csv": ""}, "the table is empty"),
        ("series", {"csv": "1,2\n3,4"}, "this model reads the last 48"),
        ("series", {"csv": "1,2\n3"}, "different numbers of values"),
        ("series", {"csv": "1,2\nx,4"}, "is not a number"),
        ("series", {"csv": "date,load\n2024-01-01,x"}, "the table"),
        ("series", {"example": 0, "channel": 7}, "channel is 7: expected"),
        ("series", {"example": 0, "csv": "1"}, "not both"),
        ("encoder", {"text": "a", "continued": []}, "does not generate text"),
        ("encoder-decoder", {"text": "a", "target": " "}, "the target is empty"),
        ("encoder-decoder", {"text": "a", "target": "b", "continued": [1]}, "choose one"),
    ],
)
def test_bad_inputs_of_other_kinds(
    kind: str,
    given: dict[str, Any],
    says: str,
    open_server: Callable[[str], Server],
    capfd: pytest.CaptureFixture[str],
) -> None:
    if "image" in given:
        pytest.importorskip("PIL", reason="images are read with pillow")
    status, error = refused(open_server(kind), "/api/view", {"input": given})
    assert status == 400
    assert says in error
    assert not re.search("--|=True|=False", error)  # the page must not mention options of a command or a function
    assert capfd.readouterr().err == ""


def test_a_broken_file_says_nothing_on_the_terminal(
    open_server: Callable[[str], Server], capfd: pytest.CaptureFixture[str]
) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="images are read with pillow")
    file = io.BytesIO()
    pillow.new("RGB", (8, 8)).save(file, "TIFF")
    samples = struct.pack("<HHI", 277, 3, 1)  # the field for the samples per pixel
    assert samples in file.getvalue()
    broken = file.getvalue().replace(samples + b"\x03\0", samples + b"\x03\xaa")
    url = "data:image/tiff;base64," + base64.b64encode(broken).decode()
    status, error = refused(open_server("image"), "/api/view", {"input": {"image": url}})
    assert status == 400
    assert "cannot be read" in error
    assert capfd.readouterr().err == ""
    assert logging.getLogger("PIL").handlers  # otherwise PIL prints its messages, though not under pytest


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("map?name=decoder.blocks.0.attn&head=4", "head is '4': expected a number from 0 to 3"),
        ("map?name=decoder.blocks.0.attn&head=-1", "head is '-1'"),
        ("map?name=decoder.blocks.0.cross&head=0", "has no attention 'decoder.blocks.0.cross': did you mean"),
        ("map?head=0", "no 'name'"),
        ("heads?name=x", "has no attention 'x'"),
        ("row?name=decoder.blocks.0.attn&head=0&row=9999", "row is '9999'"),
        ("vectors?stack=encoder&layer=0&head=0&token=0", "has no attention 'encoder.blocks.0.attn'"),
        ("vectors?stack=decoder&layer=7&head=0&token=0", "has no attention 'decoder.blocks.7.attn'"),
        ("vectors?stack=decoder&layer=0&head=0&row=x", "row is 'x'"),
        ("next?row=0&temperature=0", "temperature is '0': expected a number from 0.01 to 100"),
        ("next?row=0&temperature=1e-300", "temperature is '1e-300'"),
        ("next?row=0&temperature=inf", "temperature is 'inf'"),
        ("next?row=0&top_p=nan", "top_p is 'nan'"),
        ("next?row=0&temperature=nan", "temperature"),
        ("next?row=0&temperature=warm", "temperature is 'warm'"),
        ("next?row=0&top_p=2", "top_p"),
        ("next?row=0&top_k=-3", "top_k is '-3'"),
        ("rollout?stack=encoder", "has no 'encoder'"),
        ("values?token=0", "no 'name'"),
        ("values?name=decoder.place&token=0", "has no step 'decoder.place': did you mean 'decoder.placed'"),
        ("values?name=decoder.placed", "token is ''"),
        ("values?name=decoder.placed&token=9999", "token is '9999'"),
        ("values?name=decoder.blocks.0.attn.mixed&token=0&head=4", "head is '4'"),
        ("values?name=loss&token=0", "has no step 'loss'"),
    ],
)
def test_bad_questions(path: str, says: str, server: Server) -> None:
    view = ask(server, "/api/view", {"input": {"text": TEXT}})[1]
    status, error = refused(server, f"/api/view/{view['id']}/{path}")
    assert status == 400
    assert says in error


def test_next_needs_a_model_that_writes(open_server: Callable[[str], Server]) -> None:
    server = open_server("encoder")
    view = ask(server, "/api/view", {"input": {"text": TEXT}})[1]
    status, error = refused(server, f"/api/view/{view['id']}/next?row=0")
    assert status == 400
    assert "does not predict a next token" in error


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"{}", b'{"input": {}, "more": 1}', b"[" * 100_000])
def test_bad_bodies(body: bytes, server: Server) -> None:
    assert refused(server, "/api/view", body)[0] == 400


def test_only_our_own_page_on_this_machine_may_ask(server: Server) -> None:
    good, port = {"input": {"text": "a"}}, server.port
    assert server.server_address[0] == "127.0.0.1"
    for host in ("example.org", "127.0.0.1", f"example.org:{port}", "127.0.0.1:1", f"127.0.0.1.example.org:{port}"):
        assert refused(server, "/api/model", headers={"Host": host})[0] == 421, host
        assert refused(server, "/", headers={"Host": host})[0] == 421, host
    for host in (f"localhost:{port}", f"[::1]:{port}"):
        assert ask(server, "/api/model", headers={"Host": host})[0] == 200
    for origin in ("http://example.org", "null", f"https://127.0.0.1:{port}", "http://127.0.0.1:1"):
        assert refused(server, "/api/view", good, headers={"Origin": origin})[0] == 403, origin
    assert ask(server, "/api/view", good, headers={"Origin": f"http://127.0.0.1:{port}"})[0] == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert refused(server, "/api/view", good, headers={"Content-Type": kind})[0] == 415, kind
    assert refused(server, "/api/model", good)[0] == 404
    assert refused(server, "/api/model", method="DELETE")[0] == 501
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert ask(server, "/api/model", headers={"Sec-Fetch-Site": site})[0] == status
    assert ask(server, "/", headers={"Sec-Fetch-Site": "cross-site"})[0] == 200  # a link to the page


def test_a_body_has_a_size_and_not_too_large_a_one(server: Server) -> None:
    assert refused(server, "/api/view", b"{" + b" " * serving.MAX_BODY)[0] == 413
    assert refused(server, "/api/view", b"{}", headers={"Content-Length": "-1"})[0] == 411
    assert refused(server, "/api/view", b"{}", headers={"Content-Length": "\xb2"})[0] == 411
    assert refused(server, "/api/view", b"{}", headers={"Transfer-Encoding": "chunked"})[0] == 411
    assert refused(server, "/api/model?" + "x" * 5000)[0] == 414
    assert refused(server, "/api/model?" + "a=1&" * 50)[0] == 400
    assert refused(server, "/api//[")[0] == 404
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET http://[/api/model HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_silent_connection_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving.Handler, "timeout", 0.2)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"POST /api/view HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port)
        assert connection.recv(100) == b""
    assert time.monotonic() - began < 8


@pytest.mark.parametrize("slow", ["header", "body"])
def test_a_request_that_trickles_in_ends_too(slow: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep a connection open: the deadline is for the whole request."""
    monkeypatch.setattr(serving.Handler, "whole", 0.4)
    head = b"POST /api/view HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" % server.port
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        time.sleep(0.6)  # before the first byte it is idle, which has a longer limit
        connection.sendall(head if slow == "header" else head + b"Content-Length: 1000\r\n\r\n")
        began, answer = time.monotonic(), b""
        connection.settimeout(0.05)
        while time.monotonic() - began < 8:
            try:
                answer = connection.recv(1000)
                break
            except TimeoutError:
                connection.sendall(b"x")
            except ConnectionError:
                break
    assert time.monotonic() - began < 4
    assert answer.startswith(b"HTTP/1.1 408 ") if slow == "body" else answer == b""


def test_a_connection_that_is_kept_has_a_deadline_for_each_request(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving.Handler, "whole", 0.5)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.connect()
    first = connection.sock
    for _ in range(3):
        connection.request("GET", "/style.css")
        assert connection.getresponse().read()
        assert connection.sock is first
        time.sleep(0.3)
    connection.close()


@pytest.fixture
def small_server(folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with at most three connections."""
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 3)
    server = Server(Session(folder_of("decoder")), 0)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_the_slowest_client_loses_its_place(small_server: Server) -> None:
    address = ("127.0.0.1", small_server.port)
    opened = [socket.create_connection(address, timeout=10) for _ in range(3)]
    opened[0].sendall(b"GET /api/nothing HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % small_server.port)
    assert opened[0].recv(100).startswith(b"HTTP/1.1 404 ")
    opened[0].close()
    time.sleep(0.1)
    opened[0] = socket.create_connection(address, timeout=10)
    time.sleep(0.1)
    assert ask(small_server, "/api/model")[0] == 200
    assert opened[1].recv(100) == b""
    opened[2].sendall(b"GET /api/nothing HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % small_server.port)
    assert opened[2].recv(100).startswith(b"HTTP/1.1 404 ")
    for connection in opened:
        connection.close()


def test_whoever_is_being_answered_keeps_its_place(small_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Semaphore(0), threading.Event()

    def slow(*_: Any) -> dict[str, Any]:
        asked.release()
        answer.wait(10)
        return {"slow": True}

    monkeypatch.setattr(small_server.routes, "get", slow)
    found: list[int] = []
    clients = [threading.Thread(target=lambda: found.append(ask(small_server, "/api/model")[0])) for _ in range(3)]
    for client in clients:
        client.start()
        assert asked.acquire(timeout=10)
    with socket.create_connection(("127.0.0.1", small_server.port), timeout=10) as more:
        assert more.recv(100) == b""
    answer.set()
    for client in clients:
        client.join(10)
    assert found == [200, 200, 200]


def test_trickling_clients_do_not_starve_quick_ones(server: Server) -> None:
    address = ("127.0.0.1", server.port)
    slow = [socket.create_connection(address, timeout=10) for _ in range(serving.MAX_CONNECTIONS + 16)]
    over = threading.Event()

    def trickle() -> None:
        while not over.wait(0.05):
            for connection in slow:
                with suppress(OSError):
                    connection.sendall(b"G")

    trickling = threading.Thread(target=trickle, daemon=True)
    trickling.start()
    assert [ask(server, "/api/model")[0] for _ in range(22)] == [200] * 22
    over.set()
    trickling.join(10)
    for connection in slow:
        connection.close()


def test_whoever_hangs_up_is_no_news(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
        connection.sendall(b"GET /api/mod")
        time.sleep(0.05)
    time.sleep(0.2)
    assert capfd.readouterr().err == ""


def test_only_the_head_of_an_answer(server: Server) -> None:
    for path in ("/", "/api/model", "/api/nothing"):
        status, _, response = ask(server, path)
        headed = ask(server, path, method="HEAD", raw=True)
        assert (headed[0], headed[1]) == (status, b"")
        assert headed[2].getheader("Content-Length") == response.getheader("Content-Length")


def test_a_model_that_takes_too_long_is_stopped_and_goes_on_with_the_next(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = server.session.view({"text": "known in time"})
    monkeypatch.setattr(server.session, "seconds", -1.0)
    for path in ("map?name=decoder.blocks.1.attn&head=3", "rollout?stack=decoder"):
        assert refused(server, f"/api/view/{known.id}/{path}")[0] == 504
    status, error = refused(server, "/api/view", {"input": {"text": "too slow"}})
    assert status == 504
    assert "shorter" in error
    monkeypatch.undo()
    assert ask(server, "/api/view", {"input": {"text": "too slow"}})[0] == 200


def test_a_busy_model_says_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WAIT", 0.05)
    with server.session.calls:
        status, error = refused(server, "/api/view", {"input": {"text": "in between"}})
    assert status == 503
    assert "busy" in error


def test_a_failure_of_our_own_is_a_sentence(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.session, "describe", lambda: 1 / 0)
    status, error = refused(server, "/api/model")
    assert status == 500
    assert "ZeroDivisionError" in error


def test_many_ask_at_once(server: Server) -> None:
    texts, answers = [f"text {i % 3}" for i in range(9)], list[Any]()
    threads = [
        threading.Thread(target=lambda text=text: answers.append(ask(server, "/api/view", {"input": {"text": text}})))
        for text in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [status for status, *_ in answers] == [200] * 9
    assert len({view["id"] for _, view, _ in answers}) == 3


def test_a_socket_closed_by_a_stopping_server_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    def closed() -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    handler = serving.Handler.__new__(serving.Handler)
    handler.close_connection = False
    handler.check_host = lambda: None  # type: ignore[method-assign]
    handler.answer(closed)
    assert handler.close_connection
    assert not capsys.readouterr().err
