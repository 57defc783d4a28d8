"""The code of every page runs and prints what the page says; the Korean pages hold the same code."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
spec = importlib.util.spec_from_file_location("docs_run", DOCS / "run.py")
assert spec is not None and spec.loader is not None  # noqa: PT018
docs_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(docs_run)

PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_prints_what_it_says(page: Path) -> None:
    assert docs_run.rendered(page) == page.read_text(encoding="utf-8")


def test_a_page_that_lies_is_found(tmp_path: Path) -> None:
    page = tmp_path / "lie.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", encoding="utf-8")
    assert docs_run.rendered(page) == "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name.endswith(".ko.md")], ids=lambda page: page.name)
def test_english_and_korean_hold_the_same_code(page: Path) -> None:
    def blocks(path: Path) -> list[str]:
        return [match["code"] for match in docs_run.BLOCK.finditer(path.read_text(encoding="utf-8"))]

    english = page.with_name(page.name.replace(".ko.md", ".md"))
    assert len(blocks(page)) > 3
    assert blocks(page) == blocks(english)
