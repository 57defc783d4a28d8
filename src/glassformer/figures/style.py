"""The look of the report: one style sheet, in light and dark. The frame around it is `page.py`."""

from glassformer.figures.palette import DARK, LIGHT


def variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


COLOURS = f"""
:root {{ color-scheme: light dark; {variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}
"""
LOOK = """\
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 3.5rem 1.25rem 5rem; max-width: 47rem; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.6 "Iowan Old Style", Charter, "Palatino Linotype", Palatino, Georgia, "Noto Serif KR", serif;
}
h1 { margin: 0; font-size: 2rem; font-weight: 500; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 3rem 0 0.75rem; font-size: 1.25rem; font-weight: 500; }
p { margin: 0.5rem 0; }
.over { margin: 0 0 0.35rem; color: var(--soft); font-variant-caps: all-small-caps; letter-spacing: 0.06em; }
.aside, .notes, .facts dt { color: var(--soft); font-size: 0.875rem; }
.notes { margin: 0.75rem 0 0; padding: 0; list-style: none; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 1.5rem 0 0; }
.facts dt { padding-top: 0.15rem; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9375rem; font-variant-numeric: lining-nums tabular-nums; }
th, td {
  padding: 0.4rem 0.75rem 0.4rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule);
}
thead th { color: var(--soft); font-weight: 400; font-size: 0.875rem; border-bottom-color: var(--soft); }
tbody th { font-weight: 400; }
.scores td, .scores thead th:not(:first-child) {
  text-align: right; white-space: nowrap; padding-right: 0; padding-left: 1rem;
}
.scores .ours > * { border-bottom-color: var(--soft); }
.best { font-weight: 700; }
.examples { table-layout: fixed; }
.examples td { white-space: pre-wrap; overflow-wrap: anywhere; }
.differs { color: var(--second); text-decoration: underline dotted; text-underline-offset: 0.2em; }
.settings { table-layout: fixed; }
.settings th, .settings td {
  overflow-wrap: anywhere; font: 0.8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
}
.confusion { width: auto; font-size: 0.8125rem; }
.confusion th, .confusion td {
  padding: 0.25rem 0.45rem; text-align: right; vertical-align: middle; border: 1px solid var(--rule);
}
.confusion thead th { vertical-align: bottom; border: 0; }
.confusion thead span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 10rem; }
.confusion tbody th { border: 0; color: var(--soft); white-space: nowrap; }
.confusion td { background: rgb(var(--accent-parts) / calc(var(--share, 0) * 0.5)); }
.confusion .right { font-weight: 700; }
pre {
  margin: 0.5rem 0; padding: 0.75rem 1rem; background: var(--shade); border-radius: 3px; overflow-x: auto;
  font: 0.8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
}
details { margin-top: 1rem; }
summary { cursor: pointer; color: var(--soft); font-size: 0.9375rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 1.75rem 1.5rem; }
figure { margin: 0; min-width: 0; }
figcaption { margin-bottom: 0.3rem; font-size: 0.9375rem; overflow-wrap: anywhere; }
.legend { float: right; font-size: 0.8125rem; }
.key { margin-left: 0.9em; color: var(--soft); white-space: nowrap; }
.key::before {
  content: ""; display: inline-block; width: 1em; margin-right: 0.35em; vertical-align: 0.25em; border-top: 2px solid;
}
.key.first::before { color: var(--accent); } .key.second::before { color: var(--second); }
.key.third::before { color: var(--soft); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); }
.tick { fill: var(--soft); font-size: 11px; font-variant-numeric: lining-nums tabular-nums; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.line.first { stroke: var(--accent); } .line.second { stroke: var(--second); } .line.third { stroke: var(--soft); }
.dot.first { fill: var(--accent); } .dot.second { fill: var(--second); } .dot.third { fill: var(--soft); }
.hover { fill: transparent; }
.hover.first:hover { fill: var(--accent); } .hover.second:hover { fill: var(--second); }
.hover.third:hover { fill: var(--soft); }
footer {
  margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--soft); font-size: 0.875rem;
}
@media (max-width: 30rem) {
  body { padding: 2rem 1rem 3rem; font-size: 1rem; }
  .facts { grid-template-columns: 1fr; gap: 0; } .facts dt { padding-top: 0.5rem; }
}
@media print { body { padding: 0; max-width: none; } details { display: none; } }
"""
STYLE = COLOURS + LOOK
