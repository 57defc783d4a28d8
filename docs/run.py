"""Runs the Python of every page in this folder, and checks that it prints what the page says it prints.

    python docs/run.py            check (the tests do this, too)
    python docs/run.py --write    write what was printed into the pages

A page is one program: its ```python blocks run in order and share their names. A ```text block right after one holds
what it prints.
"""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)


def rendered(page: Path) -> str:
    """The page with each output replaced by what its code prints now."""
    names: dict[str, Any] = {"__name__": page.stem}

    def run(block: re.Match[str]) -> str:
        line = page.read_text(encoding="utf-8")[: block.start()].count("\n") + 1
        code = compile("\n" * line + block["code"], str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        output = f"\n```text\n{printed.getvalue().rstrip()}\n```\n" if printed.getvalue() else ""
        return f"```python\n{block['code']}```\n{output}"

    return BLOCK.sub(run, page.read_text(encoding="utf-8"))


def main() -> None:
    stale = []
    for page in sorted(PAGES.glob("*.md")):
        now = rendered(page)
        if now == page.read_text(encoding="utf-8"):
            continue
        stale.append(page.name)
        if "--write" in sys.argv:
            page.write_text(now, encoding="utf-8")
    if stale:
        print("written:" if "--write" in sys.argv else "these pages do not print what they say:", ", ".join(stale))
    sys.exit(bool(stale) and "--write" not in sys.argv)


if __name__ == "__main__":
    main()
