"""The explorer's page in a real browser: all kinds of models, short and long inputs, no silent errors.

The numbers on the page are compared with `gf.record`, which is independent of the page.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.browsing import EXACT, ask, click, overflow, press, recorded, settled, shown_number
from helpers.tiny_models import TEXT

import glassformer as gf
from glassformer.serve.server import Server

pytestmark = pytest.mark.slow

KINDS = ("encoder-decoder", "decoder", "encoder", "image", "series", "caption", "ask", "prefix")
NASTY = "<img src=x onerror=alert(1)></script><b>bold</b>"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_is_shown(kind: str, open_server: Callable[[str], Server], visit: Any) -> None:
    own = {
        "encoder-decoder": ".words [data-line=decoder]",
        "decoder": "#output button.choice",
        "encoder": "#output .choice.first",
        "image": ".picture canvas",
        "caption": ".caption-words canvas",
        "prefix": ".caption-words canvas",
        "ask": ".caption-question .asked",
        "series": ".curve canvas",
    }
    server = open_server(kind)
    page = visit(server.address)
    assert page.locator(EXACT).count() == 1
    assert page.locator(own[kind]).count() > 0
    stacks = server.session.describe()["stacks"]
    assert page.locator(".bar").count() == sum(stack["num_layers"] for stack in stacks.values())
    assert page.locator(".head").count() == 4
    assert page.locator(".strip.q, .strip.k, .strip.v").count() == 3
    name = page.inner_text(".tensor")
    assert re.fullmatch(r"(encoder|decoder)\.blocks\.\d\.(attn|cross)", name)
    assert overflow(page) == 0
    painted = page.locator(".map canvas").first.evaluate(
        "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    )
    assert painted > 8  # many colours, not an empty square


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_narrow_screen_holds_everything(
    kind: str, language: str, open_server: Callable[[str], Server], visit: Any
) -> None:
    page = visit(f"{open_server(kind).address}#lang={language}", width=390, height=844, color_scheme="dark")
    assert overflow(page) == 0
    columns = [page.locator(f"#{name}").bounding_box() for name in ("left", "middle", "right")]
    assert columns[0]["y"] < columns[1]["y"] < columns[2]["y"]  # stacked
    assert {round(box["width"]) for box in columns} == {374}


@pytest.mark.parametrize("length", [16, 512, 2048])
def test_hovering_a_cell_shows_the_weight_that_record_computes(
    length: int, open_server: Callable[[str], Server], visit: Any
) -> None:
    server = open_server("decoder")
    tokenizer = server.session.preparer.tokenizer
    ids = tokenizer.encode(["The quick brown fox jumps. " * (length // 4)]).input_ids[0, :length].tolist()
    text = tokenizer.decode(ids)
    page = visit(f"{server.address}#layer=1&head=0")
    ask(page, text)
    count = len(tokenizer.encode([text]).input_ids[0])
    assert abs(count - length) <= 2
    page.wait_for_selector(f'.map[data-rows="{count}"]')
    weights = recorded(server, {"text": text})["decoder.blocks.1.attn"][0, 2]
    press(page, "]", "]")
    page.wait_for_selector('.map[data-head="2"]')
    page.locator(".overlay").scroll_into_view_if_needed()
    place = page.locator(".overlay").bounding_box()
    page.mouse.move(place["x"] + 0.55 * place["width"], place["y"] + 0.8 * place["height"])
    settled(page)
    page.wait_for_selector(".tip:not([hidden])")
    page.wait_for_selector(EXACT)
    row = int(page.locator(".map").get_attribute("data-row"))
    column = int(page.locator(".map").get_attribute("data-column"))
    assert 0 < column < row < count
    assert shown_number(page.inner_text(".tip")) == pytest.approx(float(weights[row, column]), rel=6e-3)
    best = weights[row].topk(5)
    listed = page.locator(".keys-list li").all()[:5]
    assert [shown_number(one.locator(".number").inner_text()) for one in listed] == pytest.approx(
        best.values.tolist(), rel=6e-3
    )
    assert page.locator(".token.row").count() >= 1  # the row is also highlighted among the visible tokens
    assert page.evaluate("document.querySelectorAll('.token').length") < 700


def test_hovering_a_word_lights_its_row_everywhere(open_server: Callable[[str], Server], visit: Any) -> None:
    server = open_server("encoder-decoder")
    page = visit(f"{server.address}#layer=1&head=0")
    given = {"text": page.input_value("textarea")}
    weights = recorded(server, given)["decoder.blocks.1.cross"][0, 0]
    page.hover('.words [data-line=decoder][data-index="1"]')
    settled(page)
    page.wait_for_selector('.map[data-row="1"]')
    page.wait_for_selector(EXACT)
    first = page.locator(".keys-list li").first
    assert int(first.get_attribute("data-index")) == int(weights[1].argmax())
    assert shown_number(first.locator(".number").inner_text()) == pytest.approx(float(weights[1].max()), rel=6e-3)
    assert page.locator(".strip.k bdi").inner_text() == first.locator("bdi").inner_text()
    best = page.locator(f'.words [data-line=encoder][data-index="{int(weights[1].argmax())}"]')
    assert best.evaluate("chip => chip.style.backgroundColor") != ""
    # A source token is a key: its column is highlighted, and the side panel lists the queries that look at it.
    page.hover('.words [data-line=encoder][data-index="2"]')
    settled(page)
    page.wait_for_selector('.map[data-column="2"]')
    listed = [int(one.get_attribute("data-index")) for one in page.locator(".keys-list li").all()[:2]]
    assert listed == weights[:, 2].topk(2).indices.tolist()


def test_keys_move_token_layer_and_head(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(f"{open_server('encoder').address}#token=2&layer=1&head=1")
    page.wait_for_selector('.map[data-row="2"][data-head="1"]')
    for key, lit in [
        ("ArrowRight", '[data-row="3"]'),
        ("ArrowLeft", '[data-row="2"]'),
        ("]", '[data-head="2"]'),
        ("Shift+ArrowLeft", '[data-head="1"]'),
        ("ArrowUp", '[data-name="encoder.blocks.0.attn"]'),
        ("ArrowDown", '[data-name="encoder.blocks.1.attn"]'),
        ("m", '[data-head="mean"]'),
    ]:
        press(page, key)
        page.wait_for_selector(f".map{lit}")
    page.focus("textarea")  # where letters and arrow keys edit the text
    press(page, "m", "ArrowUp")
    assert page.locator('.map[data-head="mean"][data-name="encoder.blocks.1.attn"]').count() == 1


def test_everything_is_reached_by_tab(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(open_server("decoder").address)
    reached = set()
    for _ in range(90):
        press(page, "Tab")
        reached.add(page.evaluate("document.activeElement.name || document.activeElement.className"))
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(f"document.activeElement === document.body || {outline} !== 'none'")
    assert {"text", "temperature", "top_k", "layer", "headSlider", "mean", "head", "link", "theme", "bar"} <= reached


def test_language_and_theme_change_every_string_and_colour(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(open_server("encoder-decoder").address, color_scheme="light")
    title, background = "#flow h2", "getComputedStyle(document.body.parentElement).backgroundColor"
    english, light = page.inner_text(title), page.evaluate(background)
    click(page, "text=한국어")
    page.wait_for_selector("html[lang=ko]")
    assert page.inner_text(title) != english
    data = (
        ", .token, bdi, textarea, .name, .tensor, .size, .example, .number, .readout, h1, kbd, .link, code, .equation"
    )
    words = page.evaluate(
        """data => [...document.querySelectorAll("h2, h3, h4, label span, button, summary, .hint, figcaption, .axes *")]
        .filter(one => !one.matches(data.slice(2)) && !one.closest(".flow, .keys-list") && one.children.length === 0)
        .map(one => one.textContent.trim()).filter(text => /[a-z]{4,}/i.test(text))""",
        data,
    )
    assert words == []  # no English words except names
    click(page, "[name=theme]")
    page.wait_for_selector("html[data-theme=dark]")
    assert page.evaluate(background) != light
    assert "lang=ko" in page.url
    assert "theme=dark" in page.url


def test_the_address_restores_the_view(open_server: Callable[[str], Server], visit: Any) -> None:
    server = open_server("decoder")
    page = visit(f"{server.address}#lang=en&theme=light")
    ask(page, TEXT)
    press(page, "Escape")
    click(page, page.locator(".head").nth(3))
    click(page, page.locator(".bar").first)
    page.wait_for_selector('.map[data-name="decoder.blocks.0.attn"][data-head="3"]')
    click(page, page.locator(".line .token").nth(2))
    page.mouse.move(5, 5)
    settled(page)
    page.wait_for_selector('.map[data-row="2"]')
    page.wait_for_selector(EXACT)
    address, numbers = page.url, page.inner_text(".numbers")
    other = visit(address)
    other.wait_for_selector('.map[data-name="decoder.blocks.0.attn"][data-head="3"][data-row="2"]')
    assert other.input_value("textarea") == TEXT
    assert other.inner_text(".numbers") == numbers
    broken = visit(f"{server.address}#layer=99&head=99&token=9999&stack=attic&temperature=hot&text=fox")
    assert broken.locator(EXACT).count() == 1  # wrong values in an address become the nearest valid ones


def test_unknown_tokens_are_underlined_and_counted(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(open_server("encoder").address)
    ask(page, "The fox Ω")
    page.wait_for_selector("text=is unknown to the vocabulary: 'Ω'")
    assert "Ω" in page.locator(".token.unknown").first.inner_text()


def test_bad_input_is_said_in_one_sentence(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(open_server("decoder").address, expect="status of 400")
    ask(page, "")
    page.wait_for_selector(".error:not([hidden])")
    sentence = page.inner_text(".error")
    assert "empty" in sentence
    assert "\n" not in sentence
    assert page.locator(".map:not([hidden])").count() == 1  # the previous view stays
    ask(page, "fox")
    page.wait_for_selector(".error", state="hidden")


def test_markup_in_the_text_stays_text(open_server: Callable[[str], Server], visit: Any) -> None:
    for kind in ("decoder", "encoder-decoder"):
        page = visit(open_server(kind).address)
        ask(page, NASTY)
        assert page.locator("main img").count() == 0
        assert page.locator("main script").count() == 0
        assert page.input_value("textarea") == NASTY


def test_the_next_token_is_filtered_drawn_and_taken_back(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(f"{open_server('decoder').address}#text=The+quick&lang=en")
    page.wait_for_selector("#output button.choice")
    kept = "#output p.hint.number"
    every = page.inner_text(kept)
    page.locator("[name=top_k]").fill("3")
    settled(page)
    page.wait_for_selector("#output .choice.dropped")
    assert page.inner_text(kept).startswith("3 candidates kept")
    assert page.inner_text(kept) != every
    page.locator("[name=top_k]").fill("1")
    settled(page)
    assert page.inner_text(kept).startswith("1 candidate kept")
    before = page.locator(".line .token").count()
    click(page, "#output .stepper .main")
    page.wait_for_selector(".line .token.written")
    assert page.locator(".line .token").count() == before + 1
    assert "continued=" in page.url
    click(page, "#output .stepper button:last-child")
    page.wait_for_selector(".line .token.written", state="detached")
    assert page.locator(".line .token").count() == before


def test_a_translation_grows_word_by_word(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(open_server("encoder-decoder").address)
    target = page.locator(".words [data-line=decoder]")
    whole = target.count()
    click(page, "#output .stepper button:first-child")
    page.wait_for_selector(f'.map[data-row="{whole - 2}"]')
    assert target.count() == whole - 1
    click(page, "#output .stepper button:nth-child(3)")
    page.wait_for_selector(f'.words [data-line=decoder][data-index="{whole - 1}"]')


def test_the_line_of_code_is_one_click_away(open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(open_server("encoder").address)
    click(page, ".strip.q")
    page.wait_for_selector(".values")
    assert page.inner_text(".tensor").endswith("attn.q")
    file, line = re.fullmatch(r"(\S+\.py):(\d+) →", page.inner_text(".code-link .link")).groups()  # type: ignore[union-attr]
    click(page, ".code-link .link")
    page.wait_for_selector("dialog[open] .code-line.lit")
    source = (Path(gf.__file__).parent / file).read_text().splitlines()
    assert page.locator(".code-line.lit span").nth(1).inner_text() == source[int(line) - 1]
    assert page.locator(".code-line").count() == len(source)
    press(page, "Escape")
    page.wait_for_selector("dialog", state="detached")


@pytest.mark.parametrize("kind", KINDS)
def test_the_walk_has_six_stops(kind: str, open_server: Callable[[str], Server], visit: Any) -> None:
    page = visit(f"{open_server(kind).address}#lang=ko", reduced_motion="reduce")
    click(page, "[name=walk]")
    stops = []
    while page.locator(".walk").count():
        page.wait_for_selector(".walked")
        stops.append(page.inner_text(".walk p"))
        click(page, ".walk .main")
    assert len(stops) == 6
    assert len(set(stops)) == len(stops)
    assert all(re.search("[가-힣]", stop) for stop in stops)
    assert page.locator(".walked").count() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_file_shows_the_same_with_no_network(
    kind: str, open_server: Callable[[str], Server], visit: Any, tmp_path: Path
) -> None:
    live = visit(f"{open_server(kind).address}#lang=en&theme=light")
    if kind not in ("image", "series", "caption", "prefix"):
        ask(live, NASTY)
    with live.expect_download() as download:
        click(live, "[name=export]")
    file = tmp_path / "page.html"
    download.value.save_as(file)
    requests: list[str] = []
    page = visit(file.as_uri() + "#lang=en&theme=light", offline=True)
    page.on("request", lambda request: requests.append(request.url))
    click(page, page.locator(".head").nth(1))
    click(live, live.locator(".head").nth(1))
    for one in (page, live):
        one.wait_for_selector('.map[data-head="1"]')
        one.wait_for_selector(EXACT)
    assert page.inner_text(".tensor") == live.inner_text(".tensor")
    for selector in (".keys-list li bdi", ".keys-list .number", "#reading .token", ".stage", "#output .choice-text"):
        there, here = (one.locator(selector).all_inner_texts() for one in (page, live))
        assert there[:5] == here[:5], selector
    assert page.locator(".strip.q").count() == 1
    click(page, ".code-link .link")
    page.wait_for_selector("dialog[open] .code-line.lit")
    assert page.locator(".code-line.lit span").nth(1).inner_text().strip() in page.inner_text("dialog pre")
    press(page, "Escape")
    assert page.locator(".error:not([hidden])").count() == 0
    assert page.locator("main img").count() == 0 or kind == "image"
    assert page.locator("[name=export], textarea").count() == 0
    assert [address for address in requests if not address.startswith(("file:", "data:", "blob:"))] == []
