"""Prints a measured table and writes it between its markers in README.md and README.ko.md, or in other pages."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
READMES = (ROOT / "README.md", ROOT / "README.ko.md")


def write_table(
    name: str,
    header: list[str],
    rows: list[list[str]],
    *,
    optional: bool = False,
    dry: bool = False,
    pages: Sequence[Path] = READMES,
) -> None:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    print(table)
    if not dry:
        write(name, table, optional=optional, pages=pages)


def write(name: str, text: str, *, optional: bool = False, pages: Sequence[Path] = READMES) -> None:
    """Replaces what stands between `<!-- NAME -->` and `<!-- /NAME -->`, unless `--dry` was given.

    Where there is no such place that is an error, or `optional`.
    """
    if "--dry" in sys.argv:
        return
    for page in pages:
        old = page.read_text(encoding="utf-8")
        new, found = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", lambda m: f"{m[1]}{text}\n{m[2]}", old, flags=re.DOTALL
        )
        if not found and not optional:
            sys.exit(f"{page.name} has no place for {name!r}: add <!-- {name} --> and <!-- /{name} -->")
        page.write_text(new, encoding="utf-8")
