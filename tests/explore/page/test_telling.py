"""The page is consistent: strips match the query and key shown; unknown tokens, drafts and long vectors.

Also the deeper views: ranking, worked example, lens, heads left out.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from helpers.browsing import ask, click, settled, until

from glassformer.serve.server import Server

pytestmark = pytest.mark.slow
Open = Callable[[str], Server]


def test_strips_are_of_the_pair_whose_number_is_shown(open_server: Open, visit: Any) -> None:
    server = open_server("encoder")
    page = visit(f"{server.address}#text=The+quick+fox+jumps&layer=1&head=2&token=2&lang=en")
    view = server.session.view({"text": "The quick fox jumps"})
    layer = view.seen.layers["encoder.blocks.1.attn"]
    for key in (None, 4):
        if key is not None:
            page.evaluate("location.hash += '&key=4'")
            page.wait_for_selector('.map[data-column="4"]')
            settled(page)
        wanted = key if key is not None else int(layer.weights(slice(2, 3), 2)[0, 0].argmax())
        assert page.locator(".strip.k bdi").inner_text() == page.locator(".sum .of-k").inner_text()
        assert page.locator(".stale").count() == 0
        click(page, ".strip.k")
        page.wait_for_selector(f'.numbers[data-token="{wanted}"] .values span')
        first = float(page.locator(".values span").first.inner_text().replace("−", "-"))
        assert first == pytest.approx(float(layer.k[0, 2, wanted, 0]), rel=6e-3)
        click(page, ".strip.k")


def test_vectors_that_come_late_are_dropped_and_asked_again(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder').address}#text=The+quick+fox+jumps&layer=1&head=2&token=1&lang=en")
    held: list[Any] = []
    page.route("**/vectors?**", lambda route: route.continue_() if held else held.append(route))
    page.keyboard.press("ArrowRight")  # the page is busy while the answer is held back
    page.wait_for_selector('.map[data-row="2"]')
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('.map[data-row="3"]')
    page.wait_for_selector(".block-strips.stale")
    held[0].continue_()
    settled(page)
    assert page.locator(".stale").count() == 0
    assert page.locator(".strip.q bdi").inner_text() == page.locator(".sum .of-q").inner_text()


def test_unknown_tokens_look_unknown_everywhere(open_server: Open, visit: Any) -> None:
    server = open_server("encoder-decoder")
    name = server.session.describe()["unknown_token"]
    page = visit(f"{server.address}#text=The+%F0%9F%A6%8A+fox&lang=en&key=2")
    chip = page.locator(".words .unknown")
    assert chip.count() == 1
    assert name in chip.first.inner_text()


def test_a_text_that_was_not_run_is_marked(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick&lang=en")
    assert page.inner_text(".unrun") == ""
    page.fill("textarea", "The quick fox")
    assert "not run yet" in page.inner_text(".unrun")
    click(page, "text=한국어")
    page.wait_for_selector("html[lang=ko]")
    assert re.search("[가-힣]", page.inner_text(".unrun"))
    click(page, "#asking [type=submit]")
    until(page, "document.querySelector('.unrun').textContent === ''")


def test_refusals_are_in_the_language_of_the_page(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick&lang=ko", expect="status of 400")
    ask(page, "a" * 5000)
    page.wait_for_selector("#asking .error:not([hidden])")
    assert "5,000토큰" in page.inner_text("#asking .error")
    click(page, "text=EN")
    until(page, "document.querySelector('#asking .error').textContent.includes('expected at most')")


def test_a_translator_writes_the_word_that_was_drawn(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#text=The+quick+fox&lang=en&token=1")
    page.wait_for_selector("#output button.choice")
    word = page.locator("#output button.choice .choice-text").nth(3).inner_text()
    click(page, page.locator("#output button.choice").nth(3))
    assert "continued=" in page.url
    assert page.locator(".words [data-line=decoder]").nth(1).inner_text() == word
    click(page, page.get_by_text("The model's own"))
    assert "continued=" not in page.url


def test_every_number_of_a_long_vector_can_be_reached(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick&lang=en&focus=logits")
    page.wait_for_selector(".pages")
    size = int(re.findall(r"\d+", page.inner_text(".pages .hint"))[-1]) + 1
    seen = page.locator(".values span").count()
    while page.locator(".pages button").nth(1).is_enabled():
        before = page.inner_text(".pages .hint")
        click(page, page.locator(".pages button").nth(1))
        until(page, f"document.querySelector('.pages .hint').textContent !== {before!r}")
        seen += page.locator(".values span").count()
    assert seen == size == open_server("decoder").session.model.config.vocab_size


def test_a_word_of_the_source_leads_to_who_reads_it(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder-decoder').address}#text=The+quick+fox&stack=encoder&layer=0&token=2&lang=en")
    page.wait_for_selector('.map[data-name="encoder.blocks.0.attn"][data-row="2"]')
    click(page, "[name=readBy]")
    until(page, "document.querySelector('.map').dataset.name.endsWith('.cross')")
    page.wait_for_selector('.map[data-column="2"]')


def test_the_page_opens_on_the_head_that_tells_most_and_says_why(open_server: Open, visit: Any) -> None:
    server = open_server("fill")
    page = visit(f"{server.address}#text=The+%5BMASK%5D+fox&lang=en")
    best = server.session.view({"text": "The [MASK] fox"}).shown["telling"]["best"]
    assert page.locator(".map").get_attribute("data-name") == best["name"]
    assert page.locator(".map").get_attribute("data-head") == str(best["head"])
    assert "[MASK]" in page.inner_text(".block-telling")
    assert page.locator(".told").count() == 4


def test_a_silenced_head_changes_the_answer_and_comes_back(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('encoder').address}#text=The+quick+fox&lang=en&layer=1&head=1&token=2")
    before = page.inner_text("#output")
    click(page, page.locator(".silencer").nth(2))
    page.wait_for_selector("#silenced:not([hidden])")
    assert "without=encoder.blocks.1.attn.2" in page.url
    assert page.locator('.map[data-head="1"][data-row="2"]').count() == 1  # the choice stays
    assert page.inner_text("#output") != before
    page.reload()
    settled(page).wait_for_selector("#silenced:not([hidden])")
    click(page, page.locator(".silencer").nth(2))
    page.wait_for_selector("#silenced", state="hidden")
    assert page.inner_text("#output") == before


def test_a_cell_of_the_lens_opens_its_block(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick+fox&lang=en&layer=0")
    page.wait_for_selector(".lens-cell")
    click(page, page.locator('#lens [data-layer="1"] .lens-cell').nth(2))
    page.wait_for_selector('.map[data-name="decoder.blocks.1.attn"][data-row="2"]')
