"""The page's state is in its address, and survives reload, Back and Forward, a change of language and an export."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers.browsing import ask, click, press, settled, until

from glassformer.serve.server import Server

pytestmark = pytest.mark.slow
Open = Callable[[str], Server]


def test_a_translation_that_was_stepped_back_is_there_again_after_reload(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#lang=en")
    target = page.locator(".words [data-line=decoder]")
    whole = target.count()
    click(page, "#output .stepper button:first-child")
    page.wait_for_selector(f'.map[data-row="{whole - 2}"]')
    address = page.url
    page.reload()
    settled(page).wait_for_selector(f'.map[data-row="{whole - 2}"]')
    assert page.url == address
    assert target.count() == whole - 1


def test_the_page_is_busy_until_the_last_answer_is_drawn(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder').address}#text=The+quick&lang=en")
    held: list[Any] = []
    page.route("**/heads?**", lambda route: held.append(route))
    page.fill("textarea", "Once upon a time")
    page.click("#asking [type=submit]")
    page.wait_for_selector(".numbers[data-exact=yes]")
    while not held:
        page.wait_for_timeout(20)
    assert page.get_attribute("main", "aria-busy") == "true"
    held[0].continue_()
    assert settled(page).locator(".head").count() == 4


def test_a_listener_that_fails_does_not_stop_the_others(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder').address}#lang=en&token=1", expect="boom")
    page.evaluate(
        """import("/state/state.js").then(({ on }) => {
          on(["token"], () => { throw new Error("boom"); });
          on(["token"], () => { window.heard = true; });
        })"""
    )
    press(page, "ArrowRight")
    until(page, "window.heard === true")
    page.wait_for_selector("#failure:not([hidden])")
    assert "boom" in page.inner_text("#failure p")
    click(page, page.locator("#failure button").nth(2))
    page.wait_for_selector("#failure", state="hidden")


def test_back_and_forward_move_between_views(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick+fox&lang=en&layer=0&head=0&token=1")
    page.wait_for_selector('.map[data-head="0"][data-row="1"]')
    press(page, "]")
    page.wait_for_selector('.map[data-head="1"]')
    ask(page, "Once upon a time")
    assert "Once" in page.url
    page.go_back()
    page.wait_for_selector('.map[data-head="1"][data-row="1"]')
    until(page, "document.querySelector('textarea').value === 'The quick fox'")
    page.go_back()
    page.wait_for_selector('.map[data-head="0"][data-row="1"]')
    page.go_forward()
    page.wait_for_selector('.map[data-head="1"]')
    page.go_forward()
    until(page, "document.querySelector('textarea').value === 'Once upon a time'")


def test_an_input_too_large_for_the_address_survives_reload(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('series').address}#lang=en")
    table = "\n".join(f"{at % 7}.123456789,{at % 5}.123456789,{at % 3}.123456789" for at in range(400))
    page.set_input_files("input[type=file]", {"name": "a.csv", "mimeType": "text/csv", "buffer": table.encode()})
    until(page, "document.querySelector('[name=channel]').options.length === 3")
    page.reload()
    settled(page)
    until(page, "document.querySelector('[name=channel]').options.length === 3")
    page.go_back()
    until(page, "document.querySelector('[name=channel]').options.length !== 3")


def test_an_input_that_is_refused_leaves_the_address_on_what_is_shown(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick+fox&lang=en", expect="status of 400")
    ask(page, "a" * 5000)
    page.wait_for_selector("#asking .error:not([hidden])")
    assert "text=The+quick+fox" in page.url
    assert page.input_value("textarea") == "a" * 5000
