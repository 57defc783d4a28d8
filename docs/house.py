"""Generates parts of `house.md` from the code: the import graph, the size of each package, and the list of files.

    python docs/house.py            check the page
    python docs/house.py --write    update the page

The layers come from the import contract in `pyproject.toml`; an arrow is an import. The walks are written by hand.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "glassformer"
PAGE = ROOT / "docs" / "house.md"


def layers() -> list[list[str]]:
    """The packages of each layer, the lowest layer first."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    return [[room.strip() for room in layer.split("|")] for layer in reversed(contract["contracts"][0]["layers"])]


def room_imports() -> dict[str, set[str]]:
    """The packages that each package imports, including imports inside functions and for type checking."""
    graph = grimp.build_graph("glassformer", cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in graph.modules - {"glassformer", "glassformer.__main__"}:
        room = module.split(".")[1]
        others = {other.split(".")[1] for other in graph.find_modules_directly_imported_by(module) if "." in other}
        found.setdefault(room, set()).update(others - {room})
    return found


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, or an empty list if there is none."""
    done: set[str] = set()

    def follow(room: str, above: list[str]) -> list[str]:
        if room in above:
            return [*above[above.index(room) :], room]
        if room not in done:
            for other in sorted(graph.get(room, ())):
                if found := follow(other, [*above, room]):
                    return found
            done.add(room)
        return []

    return next((found for room in sorted(graph) if (found := follow(room, []))), [])


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without imports that are implied by others (its transitive reduction)."""

    def reach(room: str) -> set[str]:
        return set().union(*({other} | reach(other) for other in graph.get(room, ())))

    return {room: {other for other in others if not any(other in reach(o) for o in others - {other})}
            for room, others in graph.items()}  # fmt: skip


def drawn() -> str:
    graph = room_imports()
    if found := cycle(graph):
        raise SystemExit(f"the packages import each other in a cycle: {' -> '.join(found)}")
    lines = ["```mermaid", "flowchart BT"]
    for number, rooms in enumerate(layers()):
        lines += [f"  subgraph layer{number}[ ]", "    direction LR", *(f"    {room}" for room in rooms), "  end"]
    arrows = sorted((room, other) for room, others in reduced(graph).items() for other in others)
    return "\n".join([*lines, *(f"  {room} --> {other}" for room, other in arrows), "```"])


def sizes() -> str:
    """The table of packages with their number of files and lines, including the explorer's scripts."""
    counted: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for file in SOURCE.rglob("*"):
        if file.suffix in (".py", ".js", ".css", ".html"):
            room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
            counted[room] += len(file.read_text(encoding="utf-8").splitlines())
            files[room] += 1
    rows = [
        f"| {number} | `{room}` | {says(room)} | {files[room]} | {counted[room]:,} |"
        for number, rooms in enumerate(layers())
        for room in rooms
    ]
    return "\n".join(["| layer | package | purpose | files | lines |", "| ---: | --- | --- | ---: | ---: |", *rows])


def says(room: str) -> str:
    file = SOURCE / room / "__init__.py"
    return first_sentence(file if file.is_file() else SOURCE / f"{room}.py")


def first_sentence(file: Path) -> str:
    """The first sentence of a file's docstring or header comment, without the full stop."""
    if file.suffix == ".py":
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    else:
        found = re.match(r"(// ?.*\n)+", file.read_text(encoding="utf-8"))
        text = "" if found is None else re.sub(r"(?m)^// ?", "", found[0])
    paragraph = " ".join(text.split("\n\n")[0].split())
    ends = re.match(r"(.+?\.)(?: |$)", paragraph)
    return (ends[1] if ends else paragraph).rstrip(".:").replace("|", "\\|")


def listed() -> str:
    """The list of files, each with its first sentence."""
    lines = ["```"]
    for rooms in layers():
        for room in rooms:
            if (SOURCE / f"{room}.py").is_file():
                lines.append(f"{room + '.py':34}{first_sentence(SOURCE / f'{room}.py')}")
                continue
            lines.append(f"{room}/")
            for file in sorted((SOURCE / room).rglob("*")):
                if file.suffix in (".py", ".js") and file.name != "__init__.py":
                    lines.append(f"  {file.relative_to(SOURCE / room).as_posix():32}{first_sentence(file)}")
    return "\n".join([*lines, "```"])


def written(text: str) -> str:
    """The page with its generated parts updated."""
    for name, make in (("graph", drawn), ("rooms", sizes), ("files", listed)):
        block = f"<!-- {name} -->\n{make()}\n<!-- /{name} -->"
        text = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, block=block: block, text, flags=re.DOTALL)
    return text


def main() -> None:
    before = PAGE.read_text(encoding="utf-8")
    after = written(before)
    if "--write" in sys.argv:
        PAGE.write_text(after, encoding="utf-8")
    elif after != before:
        raise SystemExit("docs/house.md is out of date: run `make docs`")


if __name__ == "__main__":
    main()
