"""The texts of the explorer's page: each in both languages, each used, none missing. Also its modules' imports."""

import re
import shutil
import subprocess
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest

import glassformer

PAGE = Path(glassformer.__file__).parent / "explore" / "page"
PAIR = re.compile(r'^  "?([\w-]+)"?: \["(.*)", "(.*)"\],$', re.MULTILINE)
WORDS = {key: (english, korean) for key, english, korean in PAIR.findall((PAGE / "words.js").read_text("utf-8"))}
SCRIPTS = {file.relative_to(PAGE).as_posix(): file.read_text("utf-8") for file in PAGE.rglob("*.js")}
MODULES = {name: text for name, text in SCRIPTS.items() if name != "words.js"}
IMPORT = re.compile(r'import \{([^}]*)\} from "([\w./-]+)"')
LAYERS = (
    "words.js",
    "state",
    "drawing",
    "views",
    "panels",
    "main.js",
)  # a folder imports only from itself and the folders before it
# Keys that are composed or come from data: kinds of models, parts of an export, themes.
COMPOSED = {"encoder-decoder", "encoder", "decoder", "image", "image-text", "series", "self", "cross", "light", "dark"}


def test_every_line_of_the_table_is_read() -> None:
    text = (PAGE / "words.js").read_text("utf-8")
    table = text[text.index("const WORDS") : text.index("\n};")]
    lines = [line for line in table.splitlines()[1:] if not line.strip().startswith("//")]
    assert len(lines) == len(WORDS)


@pytest.mark.parametrize("key", sorted(WORDS))
def test_a_sentence_says_the_same_in_both_languages(key: str) -> None:
    english, korean = WORDS[key]
    assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", korean))
    assert re.search("[가-힣]", korean) or not re.search("[a-z]{3}", re.sub(r"\{\w+\}", "", korean))
    assert not re.search("[가-힣]", english)


def test_every_key_is_known_and_every_sentence_is_used() -> None:
    said = {key for text in MODULES.values() for key in re.findall(r'\bsay\("([\w-]+)"', text)}
    assert said <= set(WORDS)
    quoted = {key for text in MODULES.values() for key in re.findall(r'"([\w-]+)"', text)}
    composed = COMPOSED | {key for key in WORDS if re.search("(Elsewhere|Absent)$", key)}
    assert set(WORDS) - said - quoted - composed == set()


def test_no_module_writes_markup_from_data() -> None:
    for name, text in MODULES.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text), (
            name
        )
        assert not re.search(r"https?://", text), name


def test_what_a_module_exports_another_one_takes() -> None:
    taken = {
        (normpath(join(dirname(module), path)), one.split(" as ")[0].strip())
        for module, text in SCRIPTS.items()
        for names, path in IMPORT.findall(text)
        for one in names.split(",")
        if one.strip()
    }
    given = {
        (module, found)
        for module, text in SCRIPTS.items()
        for found in re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", text, re.MULTILINE)
    }
    assert given == taken


def test_the_folders_stand_in_layers() -> None:
    """Like the packages: state, then drawing, then the parts of the page."""
    for module, text in SCRIPTS.items():
        own = LAYERS.index(module.split("/")[0])
        for _, path in IMPORT.findall(text):
            other = normpath(join(dirname(module), path))
            assert LAYERS.index(other.split("/")[0]) <= own, (module, other)


def test_no_module_takes_the_name_of_a_step_apart() -> None:
    """The server sends stack, layer and step with every name."""
    apart = re.compile(r'[^.]\.blocks\b|blocks\\\.|\.split\("\."\)\[')
    assert [name for name, text in MODULES.items() if apart.search(text)] == []


def test_the_style_sheet_can_be_read() -> None:
    assert max(len(line) for line in (PAGE / "style.css").read_text("utf-8").splitlines()) <= 120


REFUSED_FORMS = {
    "a line over 120 characters": r"^.{121,}$",
    "a tab, or a space at the end of a line": r"\t|[ ]$",
    "var": r"\bvar\s",
    "== or != instead of === or !==": r"[^=!<>]==[^=]|!=[^=]",
    "single quotes": r"(?<![\w\"`’])'[^'\"`]*'(?![\w\"])",
    "console output": r"console\.(log|info|debug|warn)",
    "a debugger": r"\bdebugger\b",
}


@pytest.mark.parametrize("form", REFUSED_FORMS)
def test_the_modules_are_written_in_one_style(form: str) -> None:
    """Except words.js: a text and its translation share one line, however long."""
    found = [
        f"{name}: {line}"
        for name, text in MODULES.items()
        for line in text.splitlines()
        if re.search(REFUSED_FORMS[form], line if "line" in form else re.sub(r"\s*//.*", "", line))
    ]
    assert found == []


def test_the_modules_pass_the_type_check() -> None:
    checker = shutil.which("tsc")
    if checker is None:
        pytest.skip("needs tsc: npm install --global typescript")
    found = subprocess.run([checker, "-p", PAGE.parent / "jsconfig.json"], capture_output=True, text=True, check=False)
    assert found.stdout == ""


REFUSED = [
    "the text is empty: write at least one word",
    "the text has 5,000 tokens: expected at most 4,096. Shorten it",
    "the image has 9000 x 9000 pixels: expected at most 4096 x 4096. Make it smaller",
    "the model is busy with another input: try again in a moment",
    "this took longer than 60 seconds: give the model a shorter input",
    "the table is empty: expected lines of numbers, or a CSV with a date first",
    "the series has 9 values, and this model reads the last 48: give at least that many",
    "the series has 9 values: expected 48 numbers, without the label",
    "line 3: 'x' is not a number. Expected the values of a series, separated by commas",
    "40 texts given: expected at most 32, one per line",
    "this view is no longer in memory: send the input again",
]


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_the_server_refuses_is_said_in_korean(sentence: str) -> None:
    table = SCRIPTS["words.js"].split("const REFUSALS = [")[1].split("];")[0]
    patterns = re.findall(r"^  \[/(.+)/, \"(.+)\"\],$", table, re.MULTILINE)
    (korean,) = [text for pattern, text in patterns if re.search(pattern, sentence)]
    assert re.search("[가-힣]", korean)
    assert not re.search("[a-z]{4,}", korean)
