"""The page of a pair: a table of pictures and texts, and each tower behind it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.browsing import click, overflow, settled, shown_number

from glassformer.explore.export.export import exported
from glassformer.explore.view.routes import Routes
from glassformer.serve.server import Server

pytestmark = pytest.mark.slow

Open = Callable[[str], Server]


def test_hovering_a_cell_lights_its_row_and_column(open_server: Open, visit: Any) -> None:
    server = open_server("match")
    page = visit(server.address)
    pair = server.session.view({"tower": "image", "example": 0}).shown["pair"]
    assert page.locator(".pair-cell").count() == len(pair["pictures"]) * len(pair["texts"])
    cell = page.locator(".pair-cell[data-row='2'][data-column='3']")
    assert shown_number(cell.inner_text()) == pytest.approx(pair["similarity"][2][3], abs=0.0051)
    cell.hover()
    settled(page)
    assert page.locator(".pair-cell.lit-row").count() == len(pair["texts"])
    assert page.locator(".pair-cell.lit-column").count() == len(pair["pictures"])
    assert pair["texts"][3] in page.inner_text(".pair-readout")


def test_each_tower_opens_by_a_click(open_server: Open, visit: Any) -> None:
    page = visit(open_server("match").address)
    assert page.inner_text(".tensor").startswith("encoder.blocks")
    assert page.locator(".picture canvas").count() >= 2
    click(page, page.locator(".pair-text").nth(1))
    assert "tower=text" in page.evaluate("location.hash")
    assert page.inner_text(".tensor").startswith("decoder.blocks")
    assert page.locator(".pair-text").nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator("#reading .token").count() > 3
    page.go_back()
    settled(page)
    page.wait_for_selector(".picture canvas")
    assert page.inner_text(".tensor").startswith("encoder.blocks")


def test_texts_of_ones_own_are_the_columns(open_server: Open, visit: Any) -> None:
    page = visit(open_server("match").address)
    page.fill("#asking textarea", "a red circle\na blue square")
    click(page, "#asking [type=submit]")
    assert page.locator(".pair-text").all_inner_texts() == ["a red circle", "a blue square"]
    assert page.locator("#output .choice").count() == 2


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_narrow_screen_holds_the_table(language: str, open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('match').address}#lang={language}", width=390, height=844, color_scheme="dark")
    assert overflow(page) == 0
    assert ("이미지와 텍스트가 맞는 정도" if language == "ko" else "How well") in page.inner_text("#pair")


@pytest.mark.parametrize("tower", ["image", "text"])
def test_axe_finds_nothing(tower: str, open_server: Open, visit: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    for theme in ("light", "dark"):
        page = visit(f"{open_server('match').address}#tower={tower}&theme={theme}&lang=en", reduced_motion="reduce")
        found = axe.Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("tower", ["image", "text"])
def test_an_exported_page_does_the_same_without_a_network(
    tower: str, open_server: Open, visit: Any, tmp_path: Path
) -> None:
    server = open_server("match")
    view = server.session.view({"tower": tower, "example": 1})
    file = tmp_path / "page.html"
    file.write_text(exported(server.session, Routes(server.session), view), encoding="utf-8")
    page = visit(file.as_uri(), offline=True)
    page.locator(".pair-cell").nth(7).hover()
    settled(page)
    assert page.locator(".pair-cell.lit-row").count() == len(view.shown["pair"]["texts"])
    assert page.inner_text(".tensor").startswith("encoder" if tower == "image" else "decoder")
