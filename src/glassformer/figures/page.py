"""Parts of every HTML page that is written here."""

from collections.abc import Mapping
from html import escape


def facts(said: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in said.items())
    return f'<dl class="facts">{rows}</dl>'
