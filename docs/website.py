"""Builds the documentation as a website: static pages with search, in English and Korean, that work offline.

    python docs/website.py                                  builds site/; open site/index.html
    python docs/website.py --out DIR --runs DIR             other folders for the site and the trained models
    python docs/website.py --no-explorers                   trains no models
    python docs/website.py -- --steps 5                     flags for every training

The site has the pages of this folder with adapted links, README, CONTRIBUTING, SECURITY and the recipes. Zensical
renders them as HTML. Three models are trained for a minute each, unless `--runs` already holds them, and exported as
explorer pages.
"""

import argparse
import html
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
ENGLISH_ONLY = {"house": DOCS / "house.md", "contributing": ROOT / "CONTRIBUTING.md", "security": ROOT / "SECURITY.md"}
NAMES = {"../CONTRIBUTING.md": "contributing.md", "../SECURITY.md": "security.md", "../README.md": "readme.md",
         "../README.ko.md": "readme.ko.md"}  # fmt: skip
MINUTES = "1"  # of training for each explored model


class Language(NamedTuple):
    """The texts of a language, and its navigation: sections with the names of their pages."""

    code: str
    title: str
    sections: dict[str, tuple[str, ...]]
    names: dict[str, str]
    explorers: str
    explored: str
    skipped: str


LANGUAGES = (
    Language(
        "en", "Glassformer",
        {"Start": ("index", "readme"), "Understand": ("walk", "seeing", "pictures", "norms", "from-nn-transformer"),
         "Use": ("training", "checkpoints", "fast", "measured", "results", "recipes", "not-here"),
         "Look": ("explorers",), "Contribute": ("contributing", "house", "security")},
        {"index": "Where to begin", "readme": "At a glance"},
        "Explorers", "Models trained for a minute when this site was built. Click a word, a head or a layer.",
        "{name} is missing here. {reason}",
    ),
    Language(
        "ko", "Glassformer",
        {"시작": ("index", "readme"), "이해하기": ("walk", "seeing", "pictures", "norms", "from-nn-transformer"),
         "사용하기": ("training", "checkpoints", "fast", "measured", "results", "not-here"),
         "들여다보기": ("explorers",)},
        {"index": "읽는 순서", "readme": "한눈에 보기"},
        "탐색기", "이 사이트를 만들 때 1분씩 학습한 모델입니다. 단어나 헤드, 층을 눌러 보세요.",
        "{name}: 이 사이트에는 없습니다. {reason}",
    ),
)  # fmt: skip


class Explorer(NamedTuple):
    """A model to explore: its task, and its title in each language."""

    name: str
    task: str
    titles: dict[str, str]


EXPLORERS = (
    Explorer("dates", "translate", {"en": "English dates into Korean", "ko": "영어 날짜를 한국어로"}),
    Explorer("captions", "caption", {"en": "Image captions", "ko": "이미지 캡션"}),
    Explorer("forecast", "forecast", {"en": "Time series forecasts", "ko": "시계열 예측"}),
)


def main() -> None:
    arguments = read_arguments()
    if importlib.util.find_spec("zensical") is None:
        sys.exit("zensical is not installed. Run: pip install --constraint constraints.txt '.[docs]'")
    out: Path = arguments.out.resolve()
    with tempfile.TemporaryDirectory() as place:
        stage = Path(place)
        (stage / "explorers").mkdir()
        explored = {} if arguments.no_explorers else export_explorers(arguments.runs, stage, arguments.flags)
        for language in LANGUAGES:
            folder = stage / language.code
            write_pages(folder, language, explored)
            build(stage, language)
        shutil.copytree(stage / "explorers", stage / "site-en" / "explorers", dirs_exist_ok=True)
        shutil.copytree(stage / "site-ko", stage / "site-en" / "ko")
        if out.exists() and not (out / "404.html").is_file():
            sys.exit(f"--out {out} exists and is not a built site. Choose another folder")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(stage / "site-en", out)
    print(f"Built {out / 'index.html'}. Open it in a browser; no server is needed.")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="output folder of the website (default: site)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "site", help="folder of the trained models")
    parser.add_argument("--no-explorers", action="store_true", help="skip training and embedding models")
    parser.add_argument("flags", nargs="*", help="after --: flags for every training")
    return parser.parse_args()


# The explorers


def export_explorers(runs: Path, stage: Path, flags: list[str]) -> dict[str, str]:
    """Trains and exports every explorer. Returns for each the reason why it is missing, or an empty string."""
    return {explorer.name: export_explorer(explorer, runs, stage, flags) for explorer in EXPLORERS}


def export_explorer(explorer: Explorer, runs: Path, stage: Path, flags: list[str]) -> str:
    """Trains a model and exports its page to `stage`. Returns the reason if it was skipped, or an empty string."""
    from glassformer.tasks.registry import TASKS

    if explorer.task not in TASKS:
        reason = f"This version has no `glassformer train {explorer.task}`."
        print(f"{explorer.name}: skipped. {reason}")
        return reason
    run = runs / explorer.name
    if not (run / "model.safetensors").is_file():
        print(f"{explorer.name}: training with {' '.join(flags) or f'--minutes {MINUTES}'}", flush=True)
        glassformer("train", explorer.task, "--out", run, "--overwrite", *(flags or ("--minutes", MINUTES)))
    glassformer("explore", run, "--export", stage / "explorers" / f"{explorer.name}.html")
    return ""


def glassformer(*words: str | Path) -> None:
    command = [sys.executable, "-m", "glassformer", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


# The pages


def write_pages(folder: Path, language: Language, explored: dict[str, str]) -> None:
    """Writes the Markdown pages of a language for Zensical."""
    folder.mkdir()
    shutil.copytree(DOCS / "images", folder / "images")
    shutil.copy(ROOT / "CITATION.cff", folder)
    end = ".md" if language.code == "en" else f".{language.code}.md"
    pages = {page.name.removesuffix(end): page for page in sorted(DOCS.glob(f"*{end}")) if is_of(page, end)}
    pages["readme"] = ROOT / f"README{end}"
    if language.code == "en":
        pages.update(ENGLISH_ONLY)
    for name, page in pages.items():
        text = page.read_text(encoding="utf-8")
        if page.parent == ROOT:
            text = re.sub(r"\]\((?!docs/|\w+://|#)", "](../", text).replace("](docs/", "](")
        (folder / f"{name}.md").write_text(adapted(text, language.code), encoding="utf-8")
    if language.code == "en":
        (folder / "recipes.md").write_text(recipes(), encoding="utf-8")
    (folder / "explorers.md").write_text(explorers_page(language, explored), encoding="utf-8")


def is_of(page: Path, end: str) -> bool:
    return page.name.count(".") == end.count(".")


def adapted(text: str, code: str) -> str:
    """A page with the website's links, and the layers as HTML: Mermaid would load a script from the network."""
    text = re.sub(r"\]\(([^)\s]+)\)", lambda link: f"]({adapted_link(link[1], code)})", text)
    return re.sub(r"```mermaid\n.*?```", lambda _: rooms_as_html(), text, flags=re.DOTALL)


def adapted_link(link: str, code: str) -> str:
    if "://" in link or link.startswith("#"):
        return link
    path, _, anchor = link.partition("#")
    anchor = f"#{anchor}" if anchor else ""
    if path.startswith("../recipes"):
        name = Path(path).stem if path.endswith(".toml") else ""
        path, anchor = "recipes.md", f"#{name}" if name else ""
    path = NAMES.get(path, path.removeprefix("../"))
    if not path.endswith(".md"):
        return path + anchor
    korean = path.endswith(".ko.md")
    name = path.removesuffix(".md").removesuffix(".ko")
    if code == "ko":
        return f"{name}.md{anchor}" if korean else f"../{name}.html{anchor}"
    return f"ko/{name}.html{anchor}" if korean else f"{name}.md{anchor}"


def rooms_as_html() -> str:
    """The layers as rows of boxes, the highest first; each box lists the imports of a package."""
    house = load_house()
    imports = house.reduced(house.room_imports())
    rows = []
    for layer in reversed(house.layers()):
        boxes = "".join(
            f'<div class="room"><b>{room}</b><span>{html.escape(", ".join(sorted(imports.get(room, ()))))}</span></div>'
            for room in layer
        )
        rows.append(f'<div class="layer">{boxes}</div>')
    return f'<div class="rooms">{"".join(rows)}</div>'


def load_house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", DOCS / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recipes() -> str:
    """All recipes on one page."""
    parts = ["# Recipes\n\nOne commented settings file per public data set. Run one with "
             "`glassformer train TASK --config recipes/NAME.toml`.\n"]  # fmt: skip
    for file in sorted((ROOT / "recipes").glob("*.toml")):
        parts.append(f"## {file.stem}\n\n```toml\n{file.read_text(encoding='utf-8')}```\n")
    return "\n".join(parts)


def explorers_page(language: Language, explored: dict[str, str]) -> str:
    up = "" if language.code == "en" else "../"
    lines = [f"# {language.explorers}", language.explored]
    for explorer in EXPLORERS:
        title = explorer.titles[language.code]
        reason = explored.get(explorer.name, "`--no-explorers`")
        if reason:
            lines.append(language.skipped.format(name=title, reason=reason))
            continue
        page = f"{up}explorers/{explorer.name}.html#lang={language.code}"
        lines += [f"## {title}", f'<iframe class="explorer" title="{title}" src="{page}" loading="lazy"></iframe>']
    return "\n\n".join(lines) + "\n"


# The build

SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*></script>')
ALTERNATE = re.compile(r'<link rel="alternate"[^>]*hreflang[^>]*>')  # would make the page request a sitemap
CHOICE = re.compile(r'<a href="[^"]*" hreflang="(\w+)" class="md-select__link">')
FEATURES = ["content.code.copy", "navigation.sections", "navigation.footer", "navigation.top", "search.highlight"]
EXTENSIONS = """
[project.markdown_extensions]
attr_list = {}
md_in_html = {}
tables = {}
toc.permalink = true
toc.slugify = { object = "pymdownx.slugs.slugify", kwds = { case = "lower" } }
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {}
pymdownx.inlinehilite = {}
"""


def build(stage: Path, language: Language) -> None:
    """Runs Zensical on the pages of a language, into `stage/site-CODE`."""
    for file in (DOCS / "site").iterdir():
        shutil.copy(file, stage / language.code)
    config = stage / f"{language.code}.toml"
    config.write_text(configuration(language), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--config-file", str(config), "--clean"]
    done = subprocess.run(command, cwd=stage, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"zensical failed on the pages of {language.code}:\n{done.stdout}{done.stderr}")
    for page in (stage / f"site-{language.code}").glob("*.html"):
        page.write_text(self_contained(page.read_text(encoding="utf-8"), page.name, language.code), encoding="utf-8")


def self_contained(page: str, name: str, code: str) -> str:
    """A page that makes no network requests, and whose language menu links to the same page in the other language."""
    page = ALTERNATE.sub("", SHIM.sub('<script src="worker.js"></script>', page))
    both = (DOCS / f"{name.removesuffix('.html')}.ko.md").is_file() or name in ("readme.html", "explorers.html")
    name = name if both else "index.html"
    places = {"en": "", "ko": "ko/"} if code == "en" else {"en": "../", "ko": ""}
    return CHOICE.sub(lambda a: f'<a href="{places[a[1]]}{name}" hreflang="{a[1]}" class="md-select__link">', page)


def configuration(language: Language) -> str:
    nav = ", ".join(
        f'{{ "{section}" = [{", ".join(entry(page, language) for page in pages)}] }}'
        for section, pages in language.sections.items()
    )
    alternates = "".join(
        f'\n[[project.extra.alternate]]\nname = "{name}"\nlang = "{code}"\nlink = "index.html"\n'
        for code, name in (("en", "English"), ("ko", "한국어"))
    )
    palettes = "".join(
        f'\n[[project.theme.palette]]\nmedia = "(prefers-color-scheme: {media})"\nscheme = "{scheme}"\n'
        for media, scheme in (("light", "default"), ("dark", "slate"))
    )
    return f"""[project]
site_name = "{language.title}"
docs_dir = "{language.code}"
site_dir = "site-{language.code}"
use_directory_urls = false
extra_css = ["site.css"]
nav = [{nav}]

[project.theme]
language = "{language.code}"
font = false
features = {json.dumps(FEATURES)}
{palettes}
[project.plugins.offline]
[project.plugins.search]
{EXTENSIONS}{alternates}"""


def entry(page: str, language: Language) -> str:
    """The navigation entry of a page: its own title, unless `names` has another."""
    return f'{{ "{language.names[page]}" = "{page}.md" }}' if page in language.names else f'"{page}.md"'


if __name__ == "__main__":
    main()
