"""Helpers for tests of the explorer's page: acting and waiting, reading numbers, and recording the same pass without
the page.

The page draws each answer as it arrives. So `visit`, `ask`, `click` and `press` wait until the page is idle, and a test
reads it after that.
"""

import time
from typing import Any

import torch

import glassformer as gf
from glassformer.serve.server import Server

EXACT = ".numbers[data-exact=yes]"
PATIENCE = 60  # seconds, for a slow machine


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def settled(page: Any) -> Any:
    """Waits until no answer is pending and all are drawn. Returns the page."""
    page.wait_for_selector("main[aria-busy=false]", state="attached")
    return page


def ask(page: Any, text: str) -> None:
    page.fill("textarea", text)
    click(page, "#asking [type=submit]")


def click(page: Any, what: Any) -> None:
    """Clicks a selector or a locator."""
    _ = page.click(what) if isinstance(what, str) else what.click()
    settled(page)


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
    settled(page)


def shown_number(text: str) -> float:
    return float(text.replace("−", "-"))


def recorded(server: Server, given: dict[str, Any], activations: list[str] | None = None) -> Any:
    """The result of `gf.record` for a separate pass over the same input."""
    session = server.session
    arguments = session.view(given).prepared.arguments
    with torch.no_grad(), gf.record(session.model, activations=activations or []) as seen:
        session.model(**arguments)
    return seen


def until(page: Any, condition: str) -> None:
    """Waits for a condition; the page's security policy forbids the browser driver's own method."""
    latest = time.monotonic() + PATIENCE
    while time.monotonic() < latest:
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")
