"""The style sheet of every HTML page, in light and dark. Read next: `page.py`, the frame that includes it."""

from glassformer.figures.palette import DARK, DARK_SCALES, LIGHT, LIGHT_SCALES, css_properties, level_rules

COLOUR_VARIABLES = f"""
:root {{ color-scheme: light dark; {css_properties(LIGHT, {})} }}
{level_rules(LIGHT_SCALES["sequential"])}
@media (prefers-color-scheme: dark) {{
:root {{ {css_properties(DARK, {})} }} {level_rules(DARK_SCALES["sequential"])} }}
"""
PAGE_RULES = """\
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 3.5rem 1.25rem 5rem; max-width: 47rem; background: var(--surface); color: var(--ink);
  font: 1.0625rem/1.6 "Iowan Old Style", Charter, "Palatino Linotype", Palatino, Georgia, "Noto Serif KR", serif;
}
h1 { margin: 0; font-size: 2rem; font-weight: 500; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 3rem 0 0.75rem; font-size: 1.25rem; font-weight: 500; }
p { margin: 0.5rem 0; }
#en, #ko { position: absolute; opacity: 0; }
nav { float: right; }
#en + label, #ko + label {
  display: inline-block; padding: 0.1rem 0.7rem; border: 1px solid var(--line-strong); color: var(--muted);
  font: 0.8125rem/1.6 system-ui, sans-serif; cursor: pointer;
}
#en + label { border-radius: 5px 0 0 5px; border-right: 0; } #ko + label { border-radius: 0 5px 5px 0; }
input:checked + label { background: var(--accent-soft); color: var(--accent); }
input:focus-visible + label { outline: 2px solid var(--accent); outline-offset: 1px; }
body:has(#en:checked) [lang="ko"]:not(label), body:has(#ko:checked) [lang="en"]:not(label) { display: none; }
.over { margin: 0 0 0.35rem; color: var(--muted); font-variant-caps: all-small-caps; letter-spacing: 0.06em; }
.aside, .notes, .facts dt { color: var(--muted); font-size: 0.875rem; }
.notes { margin: 0.75rem 0 0; padding: 0; list-style: none; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 1.5rem 0 0; }
.facts dt { padding-top: 0.15rem; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9375rem; font-variant-numeric: lining-nums tabular-nums; }
th, td {
  padding: 0.4rem 0.75rem 0.4rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line);
}
thead th { color: var(--muted); font-weight: 400; font-size: 0.875rem; border-bottom-color: var(--muted); }
tbody th { font-weight: 400; }
.scores td, .scores thead th:not(:first-child) {
  text-align: right; white-space: nowrap; padding-right: 0; padding-left: 1rem;
}
.scores .ours > * { border-bottom-color: var(--muted); }
.best { font-weight: 700; }
.examples { table-layout: fixed; }
.examples td { white-space: pre-wrap; overflow-wrap: anywhere; }
.differs { color: var(--error); text-decoration: underline dotted; text-underline-offset: 0.2em; }
.settings { table-layout: fixed; }
.settings th, .settings td {
  overflow-wrap: anywhere; font: 0.8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
}
.confusion { width: auto; font-size: 0.8125rem; }
.confusion th, .confusion td {
  padding: 0.25rem 0.45rem; text-align: right; vertical-align: middle; border: 1px solid var(--line);
}
.confusion thead th, .confusion thead td { vertical-align: bottom; border: 0; }
.confusion thead span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 10rem; }
.confusion tbody th { border: 0; color: var(--muted); white-space: nowrap; }
.confusion .right { font-weight: 700; }
.weights td { min-width: 1.4rem; height: 1.4rem; padding: 0; }
.scale { display: inline-flex; align-items: center; gap: 0.5rem; font-size: 0.8125rem; color: var(--muted); }
.scale i { display: inline-block; width: 0.6rem; height: 0.7rem; }
.looked { display: flex; flex-wrap: wrap; gap: 1rem; }
.looked svg { width: 13rem; image-rendering: pixelated; } .looked svg.curve { width: 100%; }
.looked.words figure { margin: 0; text-align: center; } .looked.words svg { width: 6rem; }
img.seen { width: 4rem; image-rendering: pixelated; }
pre {
  margin: 0.5rem 0; padding: 0.75rem 1rem; background: var(--page); border-radius: 3px; overflow-x: auto;
  font: 0.8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
}
details { margin-top: 1rem; }
summary { cursor: pointer; color: var(--muted); font-size: 0.9375rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 1.75rem 1.5rem; }
figure { margin: 0; min-width: 0; }
figcaption { margin-bottom: 0.3rem; font-size: 0.9375rem; overflow-wrap: anywhere; }
.legend { float: right; font-size: 0.8125rem; }
.key { margin-left: 0.9em; color: var(--muted); white-space: nowrap; }
.key::before {
  content: ""; display: inline-block; width: 1em; margin-right: 0.35em; vertical-align: 0.25em; border-top: 2px solid;
}
.key.first::before { color: var(--accent); } .key.second::before { color: var(--other); }
.key.third::before { color: var(--muted); } .key.forecast::before { color: var(--mark); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
.grid { stroke: var(--line); } .axis { stroke: var(--muted); }
.tick { fill: var(--muted); font-size: 11px; font-variant-numeric: lining-nums tabular-nums; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.line.first { stroke: var(--accent); } .line.second { stroke: var(--other); } .line.third { stroke: var(--muted); }
.line.forecast { stroke: var(--mark); }
.dot.first { fill: var(--accent); } .dot.second { fill: var(--other); } .dot.third { fill: var(--muted); }
.dot.forecast { fill: var(--mark); }
.hover { fill: transparent; }
.hover.first:hover { fill: var(--accent); } .hover.second:hover { fill: var(--other); }
.hover.third:hover { fill: var(--muted); } .hover.forecast:hover { fill: var(--mark); }
footer {
  margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--muted); font-size: 0.875rem;
}
@media (max-width: 30rem) {
  body { padding: 2rem 1rem 3rem; font-size: 1rem; }
  .facts { grid-template-columns: 1fr; gap: 0; } .facts dt { padding-top: 0.5rem; }
}
@media print {
  body { padding: 0; max-width: none; }
  details, nav { display: none; }
}
"""
STYLE = COLOUR_VARIABLES + PAGE_RULES
