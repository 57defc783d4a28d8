"""The explorer's page in use: the values of every step, keyboard focus that stays, inputs that do not mix, narrow
screens, and a saved page that opens in the same state.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.browsing import click, overflow, press, settled, shown_number, until

import glassformer as gf
from glassformer.serve.server import Server

pytestmark = pytest.mark.slow
Open = Callable[[str], Server]


def test_every_step_shows_the_numbers_that_record_computes(open_server: Open, visit: Any) -> None:
    for kind in ("encoder-decoder", "image"):
        server = open_server(kind)
        page = visit(f"{server.address}#layer=0&head=1&lang=en")
        session = server.session
        view = session.view(session.describe()["examples"][0]["input"])
        names = [step["name"] for step in view.shown["flow"]]
        with torch.no_grad(), gf.record(session.model, activations=["*"]) as seen:
            session.model(**view.prepared.arguments)
        click(page, "#steps summary")
        listed = [one.inner_text() for one in page.locator("#steps .name").all()]
        maps = {one["name"] for one in view.shown["maps"]}
        assert len(listed) >= 20
        assert set(listed) <= set(names)
        for name in (one for one in listed if one not in maps):
            click(page, f'#steps [data-focus="{name}"] .name')
            page.wait_for_selector(f'.numbers[data-name="{name}"] .values span')
            token = page.locator(".numbers").get_attribute("data-token")
            whole = seen[name][0]
            if whole.ndim == 3:
                whole = whole[1 if whole.shape[0] > 1 else 0]
            row = whole[int(token)] if token is not None else whole
            shown = [one.inner_text() for one in page.locator(".values span").all()[:4]]
            expected = row[:4].tolist()
            for text, value in zip(shown, expected, strict=True):
                assert (text == "–") if value == float("-inf") else shown_number(text) == pytest.approx(value, rel=6e-3)


def test_an_attention_among_the_steps_opens_its_map(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#stack=decoder&layer=1&kind=cross")
    page.wait_for_selector('.map[data-name="decoder.blocks.1.cross"]')
    click(page, "#steps summary")
    click(page, '#steps [data-focus="decoder.blocks.1.attn"] .name')
    page.wait_for_selector('.map[data-name="decoder.blocks.1.attn"]')
    assert page.inner_text(".tensor") == "decoder.blocks.1.attn"
    other = visit(f"{open_server('encoder').address}#focus=encoder.blocks.0.attic")  # not a step of this model
    assert other.inner_text(".tensor") == other.get_attribute(".map", "data-name")


def test_a_forced_translation_is_not_carried_to_the_next_input(open_server: Open, visit: Any) -> None:
    page = visit(open_server("encoder-decoder").address)
    click(page, "#asking form summary")
    page.fill("[name=target]", "the fox")
    click(page, "#asking [type=submit]")
    assert "target=" in page.url
    if not page.locator(".samples").evaluate("one => one.open"):
        click(page, ".samples summary")
    click(page, page.locator("[data-example]").nth(1))
    assert "target=" not in page.url
    assert page.input_value("[name=target]") == ""
    click(page, "#asking [type=submit]")
    assert "target=" not in page.url


def test_another_language_keeps_what_was_typed(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#lang=en")
    page.fill("textarea", "a draft")
    click(page, "text=한국어")
    page.wait_for_selector("html[lang=ko]")
    assert page.input_value("textarea") == "a draft"


def test_heads_of_an_earlier_input_come_too_late(open_server: Open, visit: Any) -> None:
    server = open_server("decoder")
    page = visit(f"{server.address}#text=The+quick+fox&theme=light&lang=en")
    late = []

    def hold(route: Any) -> None:
        if late:
            route.continue_()
        else:
            late.append(route)

    page.route("**/heads?**", hold)
    for text in ("Once upon a time", "small model dog"):  # the page is busy while the first answer is held back
        page.fill("textarea", text)
        page.click("#asking [type=submit]")
        until(page, f"location.hash.includes({text.split()[0]!r}) && document.querySelector('#progress').hidden")
    while not late:
        page.wait_for_timeout(20)
    late[0].continue_()
    settled(page)
    picture = "document.querySelector('.head canvas').toDataURL()"
    fresh = visit(f"{server.address}#text=small+model+dog&theme=light&lang=en")
    assert page.evaluate(picture) == fresh.evaluate(picture)


def test_an_address_that_names_an_input_replaces_a_picture(open_server: Open, visit: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install pillow")
    file = tmp_path / "own.png"
    image.new("L", (8, 8), 90).save(file)
    page = visit(f"{open_server('image').address}#lang=en")
    page.set_input_files("input[type=file]", file)
    until(page, "document.querySelector('#asking').innerText.includes('too large for the link')")
    page.evaluate("location.hash = '#lang=en&example=2'")
    until(page, "!document.querySelector('#asking').innerText.includes('too large for the link')")
    assert page.locator('[data-example="2"][aria-pressed=true]').count() == 1


def test_the_keyboard_stays_on_the_control_that_was_used(open_server: Open, visit: Any) -> None:
    active = "document.activeElement.className + '|' + document.activeElement.textContent"
    page = visit(f"{open_server('decoder').address}#text=The+quick&lang=en")
    page.wait_for_selector("#output .stepper .main:not(:disabled)")
    page.focus("#output .stepper .main")
    for count in (1, 2):
        press(page, "Enter")
        assert page.locator(".line .token.written").count() == count
        assert page.evaluate(active).startswith("main|Sample")
    page.focus("[name=theme]")
    press(page, "Enter")
    assert page.evaluate("document.activeElement.name") == "theme"
    page.focus(".strip.k")
    press(page, "Enter")
    page.wait_for_selector(".strip.k[aria-pressed=true]")
    assert page.evaluate("document.activeElement.className") == "strip k"
    other = visit(open_server("encoder-decoder").address)
    other.focus("#output .stepper button:first-child")
    for _ in range(2):
        press(other, "Enter")
    assert other.evaluate("document.activeElement.textContent") == "‹"


def test_a_very_long_word_stays_inside_its_panel(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('fill').address}#text={3000 * 'x'}&token=1")
    assert overflow(page) == 0
    assert page.evaluate("document.querySelector('#right').scrollWidth <= document.querySelector('#right').clientWidth")
    assert page.locator("#side").bounding_box()["height"] < 800


def test_a_text_without_a_gap_says_where_to_write_one(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('fill').address}#text=The+quick+fox.&lang=en")
    mask = open_server("fill").session.describe()["mask_token"]
    assert mask in page.inner_text("#output .hint")
    click(page, "#output button")
    page.wait_for_selector("#output .choice.first")
    assert page.input_value("textarea") == f"The quick fox {mask}."


def test_what_is_of_one_head_says_so(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder').address}#head=mean&lang=en")
    page.wait_for_selector(".strip.q")
    (head,) = re.findall(r"head \d", page.inner_text(".block-strips"))
    click(page, ".strip.q")
    page.wait_for_selector(".values span")
    assert head in page.inner_text(".numbers .subject")


def test_a_button_that_cannot_be_used_says_why(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick+fox&token=1&lang=en")
    page.wait_for_selector("#output .stepper .main:disabled")
    assert "last token" in page.get_attribute("#output .stepper .main", "title")
    assert "last token" in page.inner_text("#output p.hint.number")


def test_the_walk_asks_once_and_restores_what_was_shown(open_server: Open, visit: Any) -> None:
    place = "stack=encoder&layer=0&head=3&token=2"
    page = visit(
        f"{open_server('encoder-decoder').address}#text=The+quick+fox&lang=en&{place}", reduced_motion="reduce"
    )
    page.wait_for_selector('.map[data-name="encoder.blocks.0.attn"][data-head="3"][data-row="2"]')
    click(page, "[name=walk]")
    asked = 0
    for _ in range(6):
        page.wait_for_selector(".walked")
        if page.locator(".guesses button").count():
            asked += 1
            before = page.inner_text(".walk p")
            click(page, page.locator(".guesses button").first)
            assert page.locator(".guesses").count() == 0
            assert page.inner_text(".walk p") != before
        if asked == 1 and page.inner_text(".walk-foot .hint").startswith("3"):
            page.reload()  # the walk continues at the same stop
            settled(page).wait_for_selector(".walked")
            assert page.inner_text(".walk-foot .hint").startswith("3")
        click(page, ".walk .main")
    assert asked == 1
    page.wait_for_selector('.map[data-name="encoder.blocks.0.attn"][data-head="3"][data-row="2"]')
    assert page.evaluate("document.activeElement.name") == "walk"


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "image"])
def test_a_narrow_screen_leads_to_what_was_tapped(kind: str, open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server(kind).address}#lang=en", width=390, height=844, has_touch=True)
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, input:not(.unseen), select, summary")]
        .filter(one => one.offsetParent).map(one => [one.outerHTML.slice(0, 90), one.getBoundingClientRect()])
        .filter(([, box]) => box.width < 24 || box.height < 24).map(([text]) => text)"""
    )
    assert small == []
    page.tap(".strip.v")
    page.wait_for_selector(".strip.v[aria-pressed=true]")
    settled(page)
    page.wait_for_selector(".jump:not([hidden])")
    page.tap(".jump")
    until(page, "document.querySelector('#side').getBoundingClientRect().top < 400")
    assert page.inner_text(".tensor").endswith(".v")


def test_a_saved_page_opens_as_it_was_left(open_server: Open, visit: Any, tmp_path: Path) -> None:
    address = open_server("encoder-decoder").address
    live = visit(f"{address}#lang=ko&theme=dark&stack=decoder&layer=0&kind=self&head=2&token=1")
    live.wait_for_selector('.map[data-name="decoder.blocks.0.attn"][data-head="2"][data-row="1"]')
    with live.expect_download() as download:
        click(live, "[name=export]")
    file = tmp_path / "page.html"
    download.value.save_as(file)
    page = visit(file.as_uri(), offline=True, color_scheme="light")
    page.wait_for_selector('.map[data-name="decoder.blocks.0.attn"][data-head="2"][data-row="1"]')
    page.wait_for_selector("html[lang=ko][data-theme=dark]")
    page.wait_for_selector(".sum .number")  # only the weight: the file has no scores
    click(page, '.stage[data-focus="encoder.embed"]')
    until(page, "document.querySelector('.tensor').textContent === 'encoder.embed'")
    assert "glassformer explore" in page.inner_text("#side")


def test_a_saved_page_without_its_maps_says_why(
    open_server: Open, visit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.explore.export.export.MAILABLE_BYTES", 1000)
    live = visit(f"{open_server('encoder').address}#lang=en")
    with live.expect_download() as download:
        click(live, "[name=export]")
    file = tmp_path / "page.html"
    download.value.save_as(file)
    page = visit(file.as_uri(), offline=True)
    page.wait_for_selector(".head canvas")
    until(page, "document.querySelector('#side').innerText.includes('too large to email')")
    assert page.locator(".block-scale").is_hidden()
    assert page.locator(".map").is_hidden()
