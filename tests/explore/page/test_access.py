"""Accessibility: axe-core finds no problem, taps work, keys reach every token and column, and moves are announced."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers.browsing import click, press, settled, until

from glassformer.serve.server import Server

pytestmark = pytest.mark.slow
Open = Callable[[str], Server]
KINDS = ("encoder-decoder", "decoder", "fill", "image", "series", "caption", "ask")


@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(kind: str, open_server: Open, visit: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    for theme in ("light", "dark"):
        page = visit(f"{open_server(kind).address}#lang=en&theme={theme}&key=1", reduced_motion="reduce")
        page.wait_for_selector(".sum-row")
        for state in ("plain", "silenced", "walk"):
            if state == "silenced":
                click(page, page.locator(".silencer").first)
                page.wait_for_selector("#silenced:not([hidden])")
            if state == "walk":
                click(page, "[name=walk]")
                page.wait_for_selector(".walked")
            found = axe.Axe().run(page).response["violations"]
            said = [(one["id"], node["html"][:160], node["failureSummary"]) for one in found for node in one["nodes"]]
            assert said == [], (theme, state)


def test_a_tap_chooses_a_cell_and_a_word(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#lang=en", width=390, height=844, has_touch=True)
    page.tap('.words [data-line=decoder][data-index="2"]')
    page.wait_for_selector('.map[data-row="2"]')
    settled(page)
    page.tap('.words [data-line=encoder][data-index="3"]')
    page.wait_for_selector('.map[data-row="2"][data-column="3"]')
    settled(page)
    page.locator(".overlay").scroll_into_view_if_needed()
    place = page.locator(".overlay").bounding_box()
    page.touchscreen.tap(place["x"] + 0.7 * place["width"], place["y"] + 0.5 * place["height"])
    until(page, "location.hash.includes('key=') && !location.hash.includes('key=3')")
    settled(page)
    cell = page.locator(".map").evaluate("map => [map.dataset.row, map.dataset.column]")
    assert f"token={cell[0]}&key={cell[1]}" in page.url
    assert page.locator(".tip").is_visible()  # with its weight
    other = visit(f"{open_server('image').address}#lang=en", width=390, height=844, has_touch=True)
    other.locator(".picture canvas").first.scroll_into_view_if_needed()
    box = other.locator(".picture canvas").first.bounding_box()
    other.touchscreen.tap(box["x"] + 0.9 * box["width"], box["y"] + 0.1 * box["height"])
    other.wait_for_selector('.map[data-row="4"]')


def test_keys_reach_columns_and_moves_are_announced(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#lang=en&layer=0&head=1&token=1&key=0")
    page.wait_for_selector('.map[data-row="1"][data-column="0"]')
    for key, lit in ((".", 1), (".", 2), (",", 1)):
        press(page, key)
        page.wait_for_selector(f'.map[data-column="{lit}"]')
    until(page, "document.querySelector('#said').textContent.length > 0")
    source = page.locator(".words [data-line=encoder]").nth(1).inner_text()
    until(page, f"document.querySelector('#said').textContent.includes({source!r})")
    press(page, "Escape")
    until(page, "!location.hash.includes('key=')")


def tab_to(page: Any, selector: str) -> None:
    for _ in range(90):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab never reaches {selector}")


def test_tab_reaches_the_words_of_the_source(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#text=The+quick+fox&lang=en&stack=decoder&kind=cross&key=1")
    tab_to(page, ".words [data-line=encoder]")
    assert page.evaluate("document.activeElement.dataset.index") == "1"  # the selected one
    press(page, "ArrowRight")
    page.wait_for_selector('.map[data-column="2"]')
    assert page.evaluate("document.activeElement.dataset.index") == "2"
    assert page.locator(".words [data-line=encoder]").nth(2).inner_text() in page.inner_text("#said")
    tab_to(page, ".words [data-line=decoder]")
    row = int(page.evaluate("document.activeElement.dataset.index"))
    press(page, "ArrowLeft")
    page.wait_for_selector(f'.map[data-row="{max(0, row - 1)}"][data-column="2"]')


def test_tab_reaches_the_cells_of_the_lens(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick+fox&lang=en&layer=0&token=0")
    tab_to(page, ".lens-cell")
    press(page, "ArrowRight", "ArrowDown")
    place = "[document.activeElement.closest('tr').dataset.layer, document.activeElement.dataset.column]"
    assert page.evaluate(place) == ["1", "1"]
    assert page.locator('.map[data-name="decoder.blocks.0.attn"][data-row="0"]').count() == 1  # focus opens nothing
    press(page, "Enter")
    page.wait_for_selector('.map[data-name="decoder.blocks.1.attn"][data-row="1"]')


def test_the_print_has_the_view_and_no_controls(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#lang=en")
    page.emulate_media(media="print")
    assert page.locator(".map").is_visible()
    assert page.locator(".tools").is_hidden()
    assert page.locator(".silencer").first.is_hidden()
