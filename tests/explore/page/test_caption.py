"""A picture beside the words that are written about it: what a word looked at, and who looked at a patch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.browsing import click, overflow, press, recorded, settled
from helpers.tiny_models import QUESTION
from torch import Tensor

from glassformer.explore.export.export import exported
from glassformer.explore.view.routes import Routes
from glassformer.serve.server import Server

pytestmark = pytest.mark.slow

Open = Callable[[str], Server]
WORDS = ".caption-words .token"
# The share of patches that a canvas shows otherwise than the plain picture does, and where the change is greatest.
GLOWS = """([over, plain]) => {
  const of = (canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const [a, b] = [of(over), of(plain)];
  let changed = 0;
  for (let i = 0; i < a.length; i++) changed += Math.abs(a[i] - b[i]) > 4;
  return changed / a.length;
}"""


def glows(page: Any) -> float:
    over, plain = (page.locator(f".caption-pictures canvas >> nth={i}").element_handle() for i in (0, 1))
    return float(page.evaluate(GLOWS, [over, plain]))


def hover_patch(page: Any, row: int, column: int, side: int = 4) -> None:
    canvas = page.locator(".caption-pictures canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + (column + 0.5) * box["width"] / side, box["y"] + (row + 0.5) * box["height"] / side)
    settled(page)


def words_on_patches(server: Server, kind: str) -> Tensor:
    """Of layer 1, head 2: what each word gave to the class token and to each patch, (T, S)."""
    site = "attn" if kind == "prefix" else "cross"
    before = 17 if kind == "prefix" else 0  # the picture's own rows
    return recorded(server, {"example": 1})[f"decoder.blocks.1.{site}"][0, 2, before:, :17]


@pytest.mark.parametrize("kind", ["caption", "prefix"])
def test_a_word_lights_the_patches_it_looked_at(kind: str, open_server: Open, visit: Any) -> None:
    server = open_server(kind)
    page = visit(f"{server.address}#example=1&layer=1&head=2")
    weights = words_on_patches(server, kind)  # (T, S)
    names = [token["text"] for token in server.session.view({"example": 1}).shown["lines"]["encoder"]["tokens"]]
    assert glows(page) > 0.3
    for row in (0, 4):
        page.locator(WORDS).nth(row).hover()
        settled(page)
        best = int(weights[row].argmax())
        readout = page.inner_text(".picture-side > .hint.number")
        assert readout.endswith(f"{names[best]} {float(weights[row, best]):.3g}".rstrip("0"))
        assert page.get_attribute(f"{WORDS} >> nth={row}", "class").split()[-1] == "row"


@pytest.mark.parametrize("kind", ["caption", "prefix"])
def test_a_patch_lights_the_words_that_looked_at_it(kind: str, open_server: Open, visit: Any) -> None:
    server = open_server(kind)
    page = visit(f"{server.address}#example=1&layer=1&head=2")
    weights = words_on_patches(server, kind)
    site = "attn" if kind == "prefix" else "cross"
    largest = recorded(server, {"example": 1})[f"decoder.blocks.1.{site}"][0, 2].max()
    hover_patch(page, 2, 3)
    column = weights[:, 1 + 2 * 4 + 3]  # behind the class token
    lit = page.locator(WORDS).evaluate_all("chips => chips.map((chip) => chip.style.backgroundColor !== '')")
    assert lit == (column > 0.004 * largest).tolist()
    assert page.get_attribute(".map", "data-column") == str(1 + 2 * 4 + 3)  # the same key in the map
    page.mouse.click(*centre(page, 2, 3))
    settled(page)
    assert "key=12" in page.evaluate("location.hash")


def centre(page: Any, row: int, column: int, side: int = 4) -> tuple[float, float]:
    box = page.locator(".caption-pictures canvas").first.bounding_box()
    return box["x"] + (column + 0.5) * box["width"] / side, box["y"] + (row + 0.5) * box["height"] / side


def test_the_words_grow_one_by_one(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('caption').address}#example=1&step=3")
    assert page.locator(f"{WORDS}:visible").count() == 3
    click(page, page.get_by_role("button", name="Forward", exact=True))
    assert page.locator(f"{WORDS}:visible").count() == 4
    assert page.inner_text("#output .stepper .number").startswith("4 of")


def test_a_question_is_read_and_its_answer_stepped_through(open_server: Open, visit: Any) -> None:
    server = open_server("ask")
    page = visit(server.address, expect="400")
    page.fill("#asking textarea", QUESTION)
    click(page, "#asking [type=submit]")
    view = server.session.view({"example": 0, "text": QUESTION}).shown
    begins = view["lines"]["decoder"]["begins"]
    assert page.locator(".caption-question .token").count() == begins
    assert page.locator(WORDS).count() == len(view["lines"]["decoder"]["writes"]) - begins
    assert page.inner_text(".written").split() == view["text"].split()
    page.locator(".caption-question .token").nth(2).hover()
    settled(page)
    assert page.get_attribute(".map", "data-row") == "2"
    page.locator("#asking textarea").fill("")
    click(page, "#asking [type=submit]")
    assert "empty" in page.inner_text("#asking .error")


def test_another_word_is_written_and_the_picture_stays(open_server: Open, visit: Any) -> None:
    server = open_server("ask")
    page = visit(f"{server.address}#example=2&text={QUESTION.replace(' ', '%20')}")
    begins = server.session.view({"example": 2, "text": QUESTION}).shown["lines"]["decoder"]["begins"]
    page.locator(WORDS).first.click()
    settled(page)
    second = page.locator("#output button.choice").nth(1)
    name = second.locator("bdi, span").first.inner_text()
    click(page, second)
    assert "example=2" in page.evaluate("location.hash")
    assert "continued=" in page.evaluate("location.hash")
    written = page.locator(".caption-words .token").first.inner_text().strip()
    assert written == name.strip()
    assert page.locator(".caption-question .token").count() == begins


def test_a_caption_is_forced(open_server: Open, visit: Any) -> None:
    page = visit(open_server("caption").address)
    page.click("#asking summary >> nth=0")
    page.fill("#asking [name=target]", "a red circle")
    click(page, "#asking [type=submit]")
    assert "target=" in page.evaluate("location.hash")
    assert page.inner_text(".written").strip() == "a red circle"


def test_the_maps_of_each_stack_are_laid_over_the_picture(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('caption').address}#example=1&stack=encoder&layer=0")
    assert page.inner_text(".tensor") == "encoder.blocks.0.attn"
    hover_patch(page, 0, 1)
    assert page.get_attribute(".map", "data-row") == "2"
    page.check("[name=rollout]")
    settled(page)
    page.locator(WORDS).nth(1).click()  # a word belongs to the decoder: its cross-attention opens
    settled(page)
    assert page.inner_text(".tensor").endswith(".cross")
    click(page, "[data-kind=self]")
    press(page, "ArrowLeft")
    assert page.inner_text(".tensor").endswith(".attn")


def test_a_picture_before_the_words_is_named_in_the_map_and_in_the_flow(open_server: Open, visit: Any) -> None:
    server = open_server("prefix")
    page = visit(f"{server.address}#example=1&layer=1&head=2&key=3")
    line = server.session.view({"example": 1}).shown["lines"]["decoder"]
    assert page.locator(WORDS).count() == len(line["tokens"]) - 17
    assert page.inner_text(".tensor") == "decoder.blocks.1.attn"
    assert page.get_attribute(".map", "data-column") == "3"
    assert "Before the words" in page.inner_text("#flow")
    assert f"T={len(line['tokens']) - 17}" in page.inner_text("#flow [data-stack=decoder]")
    assert "Cross-attention" not in page.inner_text("body")
    assert "of the words that looked at a patch" in page.inner_text(".caption-scales")
    page.locator(WORDS).nth(2).hover()  # now the words that it looked back at are lit
    settled(page)
    assert "of the words it looked back at" in page.inner_text(".caption-scales")
    click(page, "[data-focus='decoder.embed']")  # of the words alone: the row of the token that is kept
    page.locator(WORDS).nth(1).click()
    settled(page)
    assert page.get_attribute(".numbers", "data-token") == "1"
    assert page.inner_text("#output .stepper .number").startswith(f"{len(line['tokens']) - 17} of")
    click(page, page.get_by_role("button", name="Back", exact=True))
    assert page.locator(f"{WORDS}:visible").count() == len(line["tokens"]) - 18


@pytest.mark.parametrize("kind", ["caption", "ask", "prefix"])
def test_an_exported_page_does_the_same_without_a_network(
    kind: str, open_server: Open, visit: Any, tmp_path: Path
) -> None:
    server = open_server(kind)
    view = server.session.view(server.session.examples[1]["input"])
    file = tmp_path / "page.html"
    file.write_text(exported(server.session, Routes(server.session), view), encoding="utf-8")
    page = visit(file.as_uri(), offline=True)
    page.locator(WORDS).nth(2).hover()
    settled(page)
    assert glows(page) > 0.3
    hover_patch(page, 1, 1)
    assert page.locator(WORDS).evaluate_all("chips => chips.some((chip) => chip.style.backgroundColor !== '')")
    if kind == "ask":
        assert page.inner_text("#asking blockquote") == view.shown["input"]["text"]


def test_a_picture_of_ones_own_keeps_the_question(open_server: Open, visit: Any, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (30, 20), (200, 40, 40)).save(tmp_path / "mine.png")
    page = visit(open_server("ask").address)
    page.fill("#asking textarea", QUESTION)
    page.set_input_files("input[type=file]", tmp_path / "mine.png")
    settled(page)
    page.wait_for_selector(".caption-question")
    assert page.input_value("#asking textarea") == QUESTION
    assert overflow(page) == 0


def test_korean_speaks_of_the_picture(open_server: Open, visit: Any) -> None:
    page = visit(f"{open_server('ask').address}#lang=ko", expect="400")
    assert "이미지와 각 단어가 본 곳" in page.inner_text("#reading")
    page.fill("#asking textarea", " ")
    click(page, "#asking [type=submit]")
    assert "비어 있습니다" in page.inner_text("#asking .error")
