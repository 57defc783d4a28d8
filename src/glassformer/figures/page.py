"""The frame of every HTML page: a single self-contained file, in light and dark."""

from collections.abc import Mapping
from html import escape

from glassformer.figures.korean import bilingual, system_is_korean
from glassformer.figures.style import STYLE


def make_page(
    main: str,
    *,
    over: str,
    title: str,
    facts: Mapping[str, str],
    tab: str = "",
    style: str = "",
    footer: str = "",
    in_both: bool = False,
) -> str:
    """A complete page around `main`, which is HTML; all other texts are escaped.

    `over` is a small line above the title; `tab` is the title of the browser tab if it differs. With `in_both`, the
    page has a language switch that needs no script and starts with the system's language.
    """
    # A second line of defence: the page fetches nothing and runs no script anyway.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{escape(tab or title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<header>
{switch() if in_both else ""}<p class="over">{escape(over)}</p>
<h1>{escape(title)}</h1>
{fact_list(facts, in_both)}
</header>
<main>
{main}
</main>
{f"<footer>{bilingual(footer) if in_both else escape(footer)}</footer>" if footer else ""}
</body>
</html>
"""


def switch() -> str:
    """Two radio buttons; the style sheet hides the texts of the other language."""
    chosen = "ko" if system_is_korean() else "en"
    choices = "".join(
        f'<input type="radio" name="language" id="{code}"{" checked" if code == chosen else ""}>'
        f'<label for="{code}" lang="{code}">{name}</label>'
        for code, name in (("en", "English"), ("ko", "한국어"))
    )
    return f'<nav aria-label="Language (언어)">{choices}</nav>\n'


def fact_list(facts: Mapping[str, str], in_both: bool = False) -> str:
    say = bilingual if in_both else escape
    rows = "".join(f"<dt>{say(name)}</dt><dd>{say(value)}</dd>" for name, value in facts.items())
    return f'<dl class="facts">{rows}</dl>'
