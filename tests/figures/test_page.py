"""The frame of a page: user input stays text, and the page fetches and runs nothing."""

from html.parser import HTMLParser
from pathlib import Path

from glassformer.figures import page
from glassformer.figures.page import make_page

SOURCE = Path(page.__file__).parents[1]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_what_is_given_as_text_stays_text() -> None:
    evil = "<script>alert(1)</script> & 한국어"
    for footer in ("", evil):
        text = make_page("<p>main</p>", over=evil, title=evil, facts={evil: evil}, footer=footer)
        tags = Tags()
        tags.feed(text)
        assert not tags.open, "every tag is closed"
        assert "script" not in tags.seen
        assert ("footer" in tags.seen) == bool(footer)
        assert "default-src 'none'" in text
        assert "한국어" in text


def test_the_window_has_a_title_of_its_own_where_one_is_given() -> None:
    named = make_page("", over="a", title="b", facts={}, tab="c", style=".own { color: red; }")
    assert "<title>c</title>" in named
    assert "<h1>b</h1>" in named
    assert ".own { color: red; }</style>" in named
    assert "<title>b</title>" in make_page("", over="a", title="b", facts={})


def test_there_is_one_frame() -> None:
    files = [file.name for file in SOURCE.rglob("*.py") if "<!doctype" in file.read_text(encoding="utf-8").lower()]
    assert files == ["page.py"]
