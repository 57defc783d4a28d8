"""The documentation as a website: its links lead somewhere, its search finds, and it asks nothing of the network."""

import importlib.util
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest
from helpers.command import python

ROOT = Path(__file__).parent.parent
TINY = ("--minutes", "0.3", "--d-model", "16", "--num-layers", "1", "--num-heads", "2")


@pytest.fixture(scope="module")
def website() -> ModuleType:
    spec = importlib.util.spec_from_file_location("website", ROOT / "docs" / "website.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("link", "english", "korean"),
    [
        ("walk.md", "walk.md", "../walk.html"),
        ("walk.ko.md", "ko/walk.html", "walk.md"),
        ("fast.ko.md#a", "ko/fast.html#a", "fast.md#a"),
        ("../CONTRIBUTING.md", "contributing.md", "../contributing.html"),
        ("../README.ko.md", "ko/readme.html", "readme.md"),
        ("../recipes/nsmc.toml", "recipes.md#nsmc", "../recipes.html#nsmc"),
        ("images/norms.png", "images/norms.png", "images/norms.png"),
        ("https://semver.org", "https://semver.org", "https://semver.org"),
    ],
)
def test_a_link_leads_to_the_page_of_the_website(website: ModuleType, link: str, english: str, korean: str) -> None:
    assert website.adapted_link(link, "en") == english
    assert website.adapted_link(link, "ko") == korean


def test_the_layers_are_drawn_without_a_script_from_elsewhere(website: ModuleType) -> None:
    page = website.adapted((ROOT / "docs" / "house.md").read_text(encoding="utf-8"), "en")
    assert "mermaid" not in page
    assert page.index("<b>cli</b>") < page.index("<b>core</b>") < page.index("<b>errors</b>")


def test_every_page_is_in_the_navigation(website: ModuleType) -> None:
    pages = {page.name.split(".")[0] for page in (ROOT / "docs").glob("*.md")}
    for language in website.LANGUAGES:
        listed = {page for section in language.sections.values() for page in section}
        assert pages - {"house" if language.code == "ko" else ""} <= listed


def test_what_is_skipped_is_said(website: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    unknown = website.Explorer("paintings", "paint", {"en": "Paintings", "ko": "회화"})
    assert website.export_explorer(unknown, tmp_path, tmp_path, []) == "This version has no `glassformer train paint`."
    assert "paintings: skipped" in capsys.readouterr().out


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.links, self.ids = list[str](), set[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name == "id" and value:
                self.ids.add(value)


def broken_links(site: Path) -> list[str]:
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in site.rglob("*.html") if page.name != "404.html"}
    broken = []
    for page, found in pages.items():
        for link in found.links:
            path, _, anchor = unquote(link).partition("#")
            if re.match(r"\w+:", path):
                continue
            target = (page.parent / path).resolve() if path else page
            known = target in pages and target.parent.name != "explorers"
            if not target.exists() or (anchor and known and anchor not in pages[target].ids):
                broken.append(f"{page.relative_to(site)}: {link}")
    return broken


@pytest.mark.slow
def test_the_website_opens_without_a_network(tmp_path: Path, visit: Callable[..., Any]) -> None:
    pytest.importorskip(
        "zensical", reason="zensical is not installed. Run: pip install --constraint constraints.txt '.[docs]'"
    )
    site = tmp_path / "site"
    python(ROOT / "docs" / "website.py", "--out", site, "--runs", tmp_path / "runs", "--", *TINY, patience=1200)
    assert broken_links(site) == []

    page = visit((site / "index.html").as_uri(), offline=True, settle=False)
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.click(".md-search__button")
    page.get_by_placeholder("Search").fill("alignment")
    page.locator("a[href*='measured.html?h=alignment']").first.wait_for()

    page.goto((site / "walk.html").as_uri())
    assert page.locator(".md-select__link[hreflang=ko]").get_attribute("href") == "ko/walk.html"
    page.locator("article a", has_text="한국어").click()
    assert page.url.endswith("/ko/walk.html")
    assert page.locator("html").get_attribute("lang") == "ko"

    page.goto((site / "ko" / "explorers.html").as_uri())
    for name in ("dates", "captions", "forecast"):
        page.locator(f"iframe[src*='{name}']").scroll_into_view_if_needed()  # it is loaded when it is seen
        frame = page.frame_locator(f"iframe[src*='{name}']")
        frame.locator("main[aria-busy=false]").wait_for(state="attached")
        assert frame.locator("html").get_attribute("lang") == "ko"
    page.goto((site / "house.html").as_uri())
    assert page.locator(".room b", has_text="core").is_visible()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
