"""What the tests of the explorer's page share: acting and waiting, reading numbers, and the same pass recorded without
the page.

The page draws each answer as it comes. What a test reads after it acted is therefore read once the page is settled:
`visit`, `ask`, `click` and `press` wait for that.
"""

import time
from typing import Any

import torch

import glassformer as gf
from glassformer.serve.server import Server

EXACT = ".numbers[data-exact=yes]"
PATIENCE = 60  # seconds, of a slow machine


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def settled(page: Any) -> Any:
    """The page, once no answer is awaited and all that came is drawn."""
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
    """What `gf.record` sees in a pass of its own over the same input."""
    session = server.session
    arguments = session.view(given).prepared.arguments
    with torch.no_grad(), gf.record(session.model, activations=activations or []) as seen:
        session.model(**arguments)
    return seen


def until(page: Any, condition: str) -> None:
    """Waits for a condition; the page's policy forbids what the browser driver does for this."""
    latest = time.monotonic() + PATIENCE
    while time.monotonic() < latest:
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")
