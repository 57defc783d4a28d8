"""The frame of every HTML page that is written here: one file that needs nothing beside it, in light and dark."""

from collections.abc import Mapping
from html import escape

from glassformer.figures.style import STYLE


def framed(
    main: str, *, over: str, title: str, facts: Mapping[str, str], tab: str = "", style: str = "", footer: str = ""
) -> str:
    """A page around its `main` part, which is HTML; everything else is text, and is escaped.

    `over` stands small above the title, and `tab` is the title of the window if it is another one.
    """
    # The policy says to the browser what is true anyway: nothing is fetched, and no script runs.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(tab or title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<header>
<p class="over">{escape(over)}</p>
<h1>{escape(title)}</h1>
{fact_list(facts)}
</header>
<main>
{main}
</main>
{f"<footer>{escape(footer)}</footer>" if footer else ""}
</body>
</html>
"""


def fact_list(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f'<dl class="facts">{rows}</dl>'
