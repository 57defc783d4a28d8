"""Everything in backticks in comments and docstrings exists: files, folders, functions, classes and fields."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "glassformer"
PAGE = SOURCE / "explore" / "page"
FILES = sorted(file for file in SOURCE.rglob("*") if file.suffix in (".py", ".js"))
JS_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
PATH = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:py|js|md|toml|css|html)|(?:[\w-]+/)+")
NAME = re.compile(r"([A-Za-z]\w*(?:\.\w+)*)(?:\(.*\))?")
DATA = re.compile(r"\.(json|txt|model|bin|safetensors|gz|csv|jsonl|spm)$")  # files of models and data sets
# Examples of content of other people's files.
THEIRS = {"enable_thinking", "../words.js"}


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is only a string."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def prose_and_words(file: Path) -> tuple[list[str], set[str]]:
    """The docstrings and comments of a file, and every word of its code."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".js":
        return JS_COMMENT.findall(text), set(re.findall(r"\w+", JS_COMMENT.sub("", text)))
    docstrings = [node for node in ast.walk(ast.parse(text)) if is_docstring(node)]
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    prose = [node.value.value for node in docstrings]  # type: ignore[attr-defined]
    prose += [token.string for token in tokens if token.type == tokenize.COMMENT]
    lines = {node.lineno for node in docstrings}  # type: ignore[attr-defined]
    code = [t.string for t in tokens if t.type != tokenize.COMMENT and t.start[0] not in lines]
    return prose, set(re.findall(r"\w+", " ".join(code)))


def quoted(file: Path) -> Iterator[str]:
    for text in prose_and_words(file)[0]:
        yield from re.findall(r"`([^`\n]+)`", text)


def test_files_that_are_named_exist() -> None:
    """Relative to the package, the repository, the explorer's page, or a parent folder of the file."""
    lost = {}
    for file in FILES:
        places = [ROOT, PAGE, *(folder for folder in file.parents if folder.is_relative_to(SOURCE))]
        named = {path for path in quoted(file) if PATH.fullmatch(path) and path not in THEIRS}
        lost[file] = {path for path in named if not any((place / path).exists() for place in places)}
    assert {file: paths for file, paths in lost.items() if paths} == {}


def test_functions_that_are_named_exist() -> None:
    """A name that does not occur in the code was renamed or deleted."""
    words = {file.stem for file in FILES}.union(*(prose_and_words(file)[1] for file in FILES))
    lost = {}
    for file in FILES:
        found = (NAME.fullmatch(text) for text in quoted(file) if text not in THEIRS and not DATA.search(text))
        named = {match[1] for match in found if match and not PATH.fullmatch(match[1])}
        own = {name for name in named if not name.startswith(("torch.", "numpy."))}
        lost[file] = {name for name in own if not words.issuperset(name.split("."))}
    assert {file: names for file, names in lost.items() if names} == {}
