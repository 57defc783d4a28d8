"""What the tests of the explorer's page share: asking, reading numbers, and the same pass recorded without the page."""

from typing import Any

import torch

import glassformer as gf
from glassformer.serve.server import Server

EXACT = ".numbers[data-exact=yes]"


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def ask(page: Any, text: str) -> None:
    page.fill("textarea", text)
    page.click("#asking [type=submit]")


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
    for _ in range(150):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")
