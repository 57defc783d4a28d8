"""Random clicks and keys: the resulting state survives a reload, a change of language and an export, and the console
stays empty."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.browsing import settled

from glassformer.serve.server import Server

pytestmark = pytest.mark.slow
KINDS = ("encoder-decoder", "decoder", "fill", "image", "series", "caption", "ask", "prefix")
ACTIONS, CHECKS = 300, 6
KEYS = ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "[", "]", ",", ".", "m", "Escape")
TEXTS = ("The quick [MASK] fox", "Once upon a time 🦊", "안녕 small model", "a")
CLICKED = (
    ".head", ".silencer", ".bar", ".stage", "[data-kind]", ".token", ".strip", ".lens-cell", ".stepper button",
    ".choice", "[data-example]", "[name=theme]", "[name=walk]", ".walk button", "[name=readBy]", ".pages button",
    "#steps summary", "#steps .name", "#silenced button", "[name=rollout]", "[name=mean]", ".segments button",
    ".sum-row .token",
)  # fmt: skip
SHOWN = """() => {
  const all = (selector, read) => [...document.querySelectorAll(selector)].filter((one) => one.offsetParent).map(read);
  const { name, head, row, column } = document.querySelector(".map").dataset;
  return JSON.stringify({
    map: [name, head, row, column],
    tensor: all(".tensor", (one) => one.textContent),
    words: all(".words .token, .line .token", (one) => [...one.classList].sort().join() + one.textContent),
    numbers: all("#side .values span, #side .keys-list .number", (one) => one.textContent),
    strips: all(".strip .readout", (one) => one.textContent.replace(/[^0-9.]/g, "")),
    heads: all(".one-head", (one) => one.className),
    output: all("#output .choice-text, #output .written", (one) => one.textContent),
    stop: all(".walk-foot .hint", (one) => one.textContent.match(/\\d+/)?.[0]),
    lens: all("#lens .lens-cell bdi", (one) => one.textContent).length,
    theme: document.documentElement.dataset.theme,
  });
}"""

TRAVEL = """(way) => new Promise((done) => {
  if (!(way === "back" ? navigation.canGoBack : navigation.canGoForward)) return done();
  addEventListener("popstate", () => done(), { once: true });
  history[way]();
})"""


def act(page: Any, chance: random.Random) -> None:
    """One random click, key, slider move or text, if the page has that control."""
    way = chance.random()
    if way < 0.3:
        page.keyboard.press(chance.choice(KEYS))
    elif way < 0.36 and page.locator("textarea").count():
        page.fill("textarea", chance.choice(TEXTS))
        page.keyboard.press("Enter")
    elif way < 0.42:
        sliders = page.locator("input[type=range]:not(:disabled)")
        if count := sliders.count():
            sliders.nth(chance.randrange(count)).evaluate(
                """(one, share) => {
                  one.value = Number(one.min) + share * (one.max - one.min);
                  one.dispatchEvent(new Event("input", { bubbles: true }));
                }""",
                chance.random(),
            )
    elif way < 0.5:
        page.evaluate(TRAVEL, "back" if chance.random() < 0.7 else "forward")
    elif way < 0.6:
        place = page.locator(".overlay").bounding_box()
        if place:
            page.mouse.move(
                place["x"] + chance.random() * place["width"], place["y"] + chance.random() * place["height"]
            )
            if chance.random() < 0.5:
                page.mouse.down()
                page.mouse.up()
    else:
        page.evaluate(
            """([selector, share]) => {
              const found = [...document.querySelectorAll(selector)].filter((one) => one.offsetParent && !one.disabled);
              found[Math.floor(share * found.length)]?.click();
            }""",
            [chance.choice(CLICKED), chance.random()],
        )


def shown_by(page: Any) -> str:
    """The contents of the page, once it is settled."""
    page.mouse.move(2, 2)
    page.evaluate("document.activeElement.blur()")
    return str(settled(page).evaluate(SHOWN))


def assert_same(shown: str, expected: str, where: str) -> None:
    now, then = json.loads(shown), json.loads(expected)
    assert {key: now[key] for key in now if now[key] != then[key]} == {
        key: then[key] for key in now if now[key] != then[key]
    }, where


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_survives(kind: str, open_server: Callable[[str], Server], visit: Any, tmp_path: Path) -> None:
    chance = random.Random(kind)
    page = visit(f"{open_server(kind).address}#lang=en", reduced_motion="reduce")
    for check in range(CHECKS):
        for _ in range(ACTIONS // CHECKS):
            act(page, chance)
        shown, address = shown_by(page), page.url
        assert page.locator("#failure:not([hidden])").count() == 0, address
        page.reload()
        assert_same(shown_by(page), shown, f"after reload: {address}")
        other = "ko" if "lang=en" in address else "en"
        page.evaluate("lang => document.querySelector(`.tools [lang=${lang}]`).click()", other)
        assert_same(shown_by(page), shown, f"in the other language: {address}")
        if check % 2:
            continue
        with page.expect_download() as download:
            page.evaluate("document.querySelector('[name=export]').click()")
        file = tmp_path / f"{check}.html"
        download.value.save_as(file)
        saved = visit(file.as_uri(), offline=True, reduced_motion="reduce")
        now, then = json.loads(shown_by(saved)), json.loads(shown)
        for key in ("map", "tensor", "words", "stop", "theme", "lens"):
            assert now[key] == then[key], f"{key} in the saved page: {address}"
        saved.context.close()
