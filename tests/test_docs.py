"""The code of every page runs and prints the output on the page; the Korean pages have the same code and output."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
spec = importlib.util.spec_from_file_location("docs_run", DOCS / "run.py")
assert spec is not None and spec.loader is not None  # noqa: PT018
docs_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(docs_run)

PAGES = sorted(DOCS.glob("*.md"))
KOREAN = [page for page in PAGES if page.name.endswith(".ko.md")]
WITHOUT_CODE = ("index.ko.md", "measured.ko.md", "not-here.ko.md", "results.ko.md")


def english_of(page: Path) -> Path:
    return page.with_name(page.name.replace(".ko.md", ".md"))


def blocks(page: Path) -> list[tuple[str, str]]:
    """The code of a page, and the output that the page shows."""
    return [(block["code"], block["output"]) for block in docs_run.BLOCK.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in KOREAN], ids=lambda page: page.name)
def test_a_page_prints_what_it_says(page: Path) -> None:
    assert docs_run.rendered(page, docs_run.run(page)) == page.read_text(encoding="utf-8")


def test_a_page_that_lies_is_found(tmp_path: Path) -> None:
    page = tmp_path / "lie.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", encoding="utf-8")
    assert docs_run.rendered(page, docs_run.run(page)) == "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n"


@pytest.mark.parametrize("page", KOREAN, ids=lambda page: page.name)
def test_english_and_korean_hold_the_same_code_and_output(page: Path) -> None:
    """Then the Korean page need not be run as well."""
    assert len(blocks(page)) > 3 or page.name in WITHOUT_CODE
    assert blocks(page) == blocks(english_of(page))
