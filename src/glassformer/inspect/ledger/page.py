"""The ledger as a self-contained HTML page in the style of a run's report.

On a narrow screen each step becomes a card, so that nothing is hidden or scrolls sideways.
"""

from collections.abc import Iterator
from html import escape
from itertools import groupby

from glassformer.figures.page import make_page
from glassformer.inspect.ledger.ledger import Ledger, LedgerLine, layer_name, readable_number, step_name
from glassformer.inspect.ledger.memory import readable_bytes

LEDGER_STYLE = """
body { max-width: 72rem; }
main { margin-top: 2rem; }
.ledger td, .ledger thead th:not(:first-child) { text-align: right; white-space: nowrap; }
.ledger .shape, .ledger thead th:nth-child(2) { text-align: left; }
.ledger tbody th { overflow-wrap: anywhere; }
.ledger tbody.layer th:not(.title) { padding-left: 1rem; }
.ledger .title { padding-top: 1.25rem; color: var(--muted); }
.ledger small { display: block; color: var(--muted); font-size: 0.8125rem; }
.ledger td.share {
  background: linear-gradient(to right, var(--accent) calc(var(--share) * 100%), var(--line) 0) no-repeat;
  background-position: bottom; background-size: 100% 3px;
}
.fused { color: var(--muted); }
@media (max-width: 40rem) {
  .ledger thead { display: none; }
  .ledger tbody tr { display: grid; grid-template-columns: 1fr 1fr; border-bottom: 1px solid var(--line); }
  .ledger th, .ledger td { border: 0; padding: 0.1rem 0; }
  .ledger tbody.layer th:not(.title) { padding-left: 0; }
  .ledger tbody th, .ledger .shape { grid-column: 1 / -1; white-space: normal; }
  .ledger td:empty { display: none; }
  .ledger td:not(.shape) { text-align: left; }
  .ledger td:not(.shape)::before { content: attr(data-name) " "; color: var(--muted); font-size: 0.8125rem; }
}
"""


def ledger_page(ledger: Ledger, title: str) -> str:
    parameters, flops = max(1, ledger.total_parameters), max(1, ledger.total_flops)
    names = "".join(
        f'<th scope="col">{name}</th>' for name in ("step", "shape", "parameters", "FLOPs", "bytes", "cache")
    )

    def cell(name: str, text: str, kind: str = "", share: float = 0.0) -> str:
        bar = f' style="--share:{share:.3f}"' if share else ""
        kinds = " ".join(filter(None, [kind, "share" if share else ""]))
        return f'<td data-name="{name}" class="{kinds}"{bar}>{text}</td>'

    def row(line: LedgerLine) -> str:
        shared = f"<small>{line.shared:,} shared</small>" if line.shared else ""
        own = (f"{line.parameters:,}" if line.parameters else "") + shared
        parts = [
            f'<th scope="row">{escape(step_name(line))}<small>{escape(line.equation)}</small></th>',
            cell("shape", escape(line.legend), "shape"),
            cell("parameters", own, share=line.parameters * line.times / parameters),
            cell("FLOPs", readable_number(line.flops) if line.flops else "", share=line.flops * line.times / flops),
            cell("bytes", readable_bytes(line.bytes), "fused" if line.is_fused else ""),
            cell("cache", readable_bytes(line.cache_bytes) if line.cache_bytes else ""),
        ]
        return f"<tr>{''.join(parts)}</tr>"

    def bodies() -> Iterator[str]:
        for layer, found in groupby(ledger.lines, layer_name):
            lines = list(found)
            rows = "\n".join(map(row, lines))
            times = f", {lines[0].times} times" if lines[0].times > 1 else ""
            head = f'<tr><th class="title" colspan="6">{escape(layer)}{times}</th></tr>\n' if layer else ""
            kind = ' class="layer"' if layer else ""
            yield f"<tbody{kind}>\n{head}{rows}\n</tbody>"

    body = "\n".join(bodies())
    legend = ", ".join(f"{letter} {escape(meaning)}" for letter, meaning in ledger.legend.items())
    main = f"""<section>
<p class="aside">From the input to the loss. Numbers are per layer. A bar shows the share of the whole model,
summed over all layers of the line. Grey bytes are never stored whole: the fused kernel computes them in blocks.</p>
<p class="aside">{legend}.</p>
<table class="ledger"><thead><tr>{names}</tr></thead>
{body}
</table>
</section>"""
    return make_page(main, over="ledger", title=title, facts=ledger.summary(), style=LEDGER_STYLE)
