"""Bundles the page's modules into one script, so that an exported file needs no server: each module becomes a function
that returns its exports, called after the modules it imports.

Supports the forms that the page uses: `import { a, b as c } from "./x.js"`, `import * as x from "../state/x.js"`,
`import "./x.js"`, and `export` before a function, class or const. Any other form raises an error. A module's name is
its path from the page's folder.
"""

import re
from functools import partial
from pathlib import Path
from posixpath import dirname, join, normpath

IMPORT = re.compile(
    r'^import\s+(?:(\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"(\.{1,2}/[\w./-]+\.js)";?[ \t]*$', re.MULTILINE
)
EXPORT = re.compile(r"^export\s+((?:async\s+)?function\*?|class|const)\s+(\w+)", re.MULTILINE)
RENAMED = re.compile(r"(\w+)\s+as\s+(\w+)")
LEFT_OVER = re.compile(r"^(import|export)[ {*\"].*$", re.MULTILINE)


def bundled(folder: Path, first: str = "main.js") -> str:
    """The first module and every module it needs, as one script."""
    modules: dict[str, str] = {}
    add(folder, first, modules, ())
    return "\n".join(modules.values())


def add(folder: Path, name: str, modules: dict[str, str], above: tuple[str, ...]) -> None:
    """Adds a module after the modules it imports."""
    if name in modules:
        return
    if name in above:
        raise ValueError(f"{' imports '.join([*above, name])}: circular imports cannot be bundled")
    text = (folder / name).read_text(encoding="utf-8")
    for _, path in IMPORT.findall(text):
        add(folder, resolved(path, name), modules, (*above, name))
    modules[name] = wrap_module(name, text)


def resolved(path: str, importer: str) -> str:
    """`../words.js`, imported by `state/load.js`, is `words.js`."""
    name = normpath(join(dirname(importer), path))
    if name.startswith("../"):
        raise ValueError(f"{importer} imports {path}, which is outside the page's folder")
    return name


def wrap_module(name: str, text: str) -> str:
    body = IMPORT.sub(partial(assigned, name), text)
    exports = [found[2] for found in EXPORT.finditer(body)]
    body = EXPORT.sub(r"\1 \2", body)
    if wrong := LEFT_OVER.search(body):
        raise ValueError(f"{name}: {wrong[0].strip()!r} cannot be bundled")
    return f"const {variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"


def assigned(importer: str, found: re.Match[str]) -> str:
    """An import as an assignment: `{ a, b as c }` becomes `{ a, b: c }`."""
    names, module = found[1], variable(resolved(found[2], importer))
    if not names:
        return ""
    if names.startswith("*"):
        return f"const {names.split()[-1]} = {module};"
    renamed = RENAMED.sub(r"\1: \2", names)
    return f"const {renamed} = {module};"


def variable(module: str) -> str:
    return "module_" + re.sub(r"\W", "_", module.removesuffix(".js"))
