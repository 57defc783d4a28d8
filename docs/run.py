"""Runs the Python code of every page in this folder, and checks its output against the page.

    python docs/run.py            check the pages (the tests do this too)
    python docs/run.py --write    write the output into the pages

A page is one program: its ```python blocks run in order and share their variables. A ```text block right after one
holds its output. A Korean page with the same code as the English one is not run again.
"""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)


def code_of(page: Path) -> tuple[str, ...]:
    return tuple(block["code"] for block in BLOCK.finditer(page.read_text(encoding="utf-8")))


def run(page: Path) -> list[str]:
    """The output of each code block."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": page.stem}
    outputs = []
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + block["code"], str(page), "exec"), names)
        outputs.append(printed.getvalue().rstrip())
    return outputs


def rendered(page: Path, outputs: list[str]) -> str:
    """The page with the given outputs in place of the old ones."""
    following = iter(outputs)

    def with_output(block: re.Match[str]) -> str:
        output = next(following)
        return f"```python\n{block['code']}```\n" + (f"\n```text\n{output}\n```\n" if output else "")

    return BLOCK.sub(with_output, page.read_text(encoding="utf-8"))


def main() -> None:
    stale, printed = [], dict[tuple[str, ...], list[str]]()
    for page in sorted(PAGES.glob("*.md")):
        if code_of(page) not in printed:
            printed[code_of(page)] = run(page)
        now = rendered(page, printed[code_of(page)])
        if now == page.read_text(encoding="utf-8"):
            continue
        stale.append(page.name)
        if "--write" in sys.argv:
            page.write_text(now, encoding="utf-8")
    if stale:
        print("updated:" if "--write" in sys.argv else "the output differs from the page in:", ", ".join(stale))
    sys.exit(bool(stale) and "--write" not in sys.argv)


if __name__ == "__main__":
    main()
