"""Tiny models, each made once and opened in a session; a browser that fails a test if its console reports an error; and
a reader of attention maps."""

import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.explore.view.pair import open_session
from glassformer.explore.view.routes import Routes
from glassformer.serve.server import Server
from helpers.browsing import PATIENCE, settled
from helpers.tiny_models import make


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def folder_of(kind: str) -> Path:
        return make(tmp_path_factory.mktemp("tiny") / kind, kind)

    return folder_of


@pytest.fixture(scope="session")
def routes_of(folder_of: Callable[[str], Path]) -> Callable[[str], Routes]:
    @cache
    def routes_of(kind: str) -> Routes:
        return Routes(open_session(folder_of(kind)))

    return routes_of


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on this machine: install Debian's `chromium`")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def open_server(folder_of: Callable[[str], Path]) -> Iterator[Callable[[str], Server]]:
    servers: dict[str, Server] = {}

    def open_server(kind: str) -> Server:
        if kind not in servers:
            servers[kind] = Server(open_session(folder_of(kind)), 0)
            threading.Thread(target=servers[kind].serve_forever, args=(0.02,), daemon=True).start()
        return servers[kind]

    yield open_server
    for server in servers.values():
        server.shutdown()
        server.server_close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page and waits until it is idle. At the end, its console must contain only what the test expects."""
    contexts, wrong, expected = [], list[str](), list[str]()

    def visit(
        address: str, *, width: int = 1280, height: int = 800, expect: str = "", settle: bool = True, **options: Any
    ) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        expected.extend([expect] if expect else [])
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"a dialog opened: {dialog.message}"))
        page.goto(address)
        return settled(page) if settle else page

    yield visit
    for context in contexts:
        context.close()
    assert [text for text in wrong if not any(known in text for known in expected)] == []


def read_maps(content: Any) -> Tensor:
    """Decodes weights from bytes as the page does: (heads, rows, columns)."""
    assert isinstance(content, bytes)
    *shape, bits = struct.unpack_from("<4I", content)
    planes = np.frombuffer(content, np.uint8, offset=16 + 4 * shape[0]).reshape(bits // 8, *shape).astype(np.int64)
    codes = planes[0] * 256 + planes[1] if bits == 16 else planes[0]
    largest = np.frombuffer(content, "<f4", shape[0], offset=16)[:, None, None]
    return torch.tensor(largest * (codes / (2**bits - 1)) ** 2, dtype=torch.float32)
