"""The explorer of one input as one file, which opens with no network and no server.

The page's style and modules stand in it, and the answers that the page would ask for. Two blocks of text hold these:

    <script type="application/json" id="frozen-index">    {"id", "layer", "state", "inside", "parts"}
    <script type="text/plain" id="frozen-data">           base64 of gzip of all parts, one after another

`state` is the fragment of the page's address when it was saved: it opens with the same language, layer, head and token.
`parts` says where each is: path -> {"kind", "at", "size", ...}, counted in bytes after unpacking.

    json      an answer under its own path: model, view/ID, view/ID/rollout?stack=..., source?file=...
    bytes     view/ID/heads?name=... and view/ID/map?name=...&head=..., as the server sends them (`view/slices.py`); the
              weights of a map have 16 bits where there is room, as no server will be there to ask for exact ones
    vectors   view/ID/vectors?stack=...&layer=...&of=attn.q (or k, v, mixed; of cross; ffn.hidden): "shape" (heads,
              tokens, numbers), "scale" one for each head, "shared" how many heads of the layer read each of these.
              value = scale * byte, signed. Under of=ffn.active there is JSON: a number for each token

`inside` says what was left out so that the file stays small enough to mail: {"maps": "all" | "layer" | "none",
"bits": 16 | 8, "vectors": "all" | "layer" | "none"}; "layer" is the one that was shown.
"""

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.explore.export.bundle import bundled
from glassformer.explore.export.destination import check_destination, write_page
from glassformer.explore.view.answers import sixes
from glassformer.explore.view.bounds import turn, within
from glassformer.explore.view.pair import PairSession
from glassformer.explore.view.query import number_of
from glassformer.explore.view.routes import Routes
from glassformer.explore.view.session import Session, View
from glassformer.explore.view.slices import Layer, heads_bytes, mixed, packed
from glassformer.explore.view.values import LENS, lens_length, lens_of
from glassformer.figures.palette import as_style_sheet
from glassformer.watch.names import StepName

PAGE = Path(__file__).parents[1] / "page"
MOST_LENS = 128  # tokens of a text whose lens is inside
SMALL = 3_000_000  # bytes of a file that is easily mailed
STYLES = {name: f'<link rel="stylesheet" href="{name}">' for name in ("palette.css", "style.css")}
SCRIPT = '<script type="module" src="main.js"></script>'


@dataclass(frozen=True)
class Choice:
    """How much goes into a file."""

    maps: str
    bits: int
    vectors: str

    @staticmethod
    def has(chosen: str, name: str, shown: int) -> bool:
        """Whether the layer of this name is inside, when all are, none, or the one that is shown."""
        return chosen == "all" or (chosen == "layer" and StepName.parse(name).layer == shown)


# From everything down, until the file is small.
CHOICES = (
    Choice("all", 16, "all"),
    Choice("all", 16, "layer"),
    Choice("all", 8, "layer"),
    Choice("layer", 16, "layer"),
    Choice("layer", 8, "layer"),
    Choice("none", 8, "layer"),
    Choice("none", 8, "none"),
)


class Parts:
    """Bytes one after another, with an index of where each is."""

    def __init__(self) -> None:
        self.index: dict[str, dict[str, Any]] = {}
        self.content: list[bytes] = []
        self.size = 0

    def add(self, path: str, kind: str, content: bytes, **more: Any) -> None:
        self.index[path] = {"kind": kind, "at": self.size, "size": len(content), **more}
        self.content.append(content)
        self.size += len(content)

    def copy(self) -> "Parts":
        same = Parts()
        same.index, same.content, same.size = dict(self.index), list(self.content), self.size
        return same

    def add_json(self, path: str, values: Any) -> None:
        self.add(path, "json", json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))


def exported(
    session: Session | PairSession, routes: Routes, view: View, layer: str | None = None, state: str = ""
) -> str:
    """The page with one view inside: all of it, or as much as stays small."""
    with torch.no_grad(), turn(routes.places), within(session.seconds):
        return fitted(session, routes, view, layer, state)


def fitted(session: Session | PairSession, routes: Routes, view: View, layer: str | None, state: str) -> str:
    layers = max(stack["num_layers"] for stack in session.of(view).describe()["stacks"].values())
    shown = number_of({} if layer is None else {"layer": layer}, "layer", layers, default=telling_layer(view, layers))
    page, always, found = whole_page(), always_inside(session, routes, view), ""
    for choice in CHOICES:
        if rough_size(view, shown, choice) > 3 * SMALL:
            continue
        parts = always.copy()
        add_chosen(parts, view, shown, choice)
        index = {"id": view.id, "layer": shown, "state": state, "inside": vars(choice), "parts": parts.index}
        found = filled(page, index, parts)
        if len(found.encode()) < SMALL:
            return found
    return found


def telling_layer(view: View, layers: int) -> int:
    """The layer that the page opens on, where nobody chose another."""
    best = view.shown["telling"]["best"]
    layer = StepName.parse(best["name"]).layer if best else None
    return layers - 1 if layer is None else layer


def rough_size(view: View, shown: int, choice: Choice) -> int:
    """Bytes of maps and vectors, so that nothing is computed that is much too large."""
    size = 0
    for name, layer in view.seen.layers.items():
        rows, keys = layer.size
        if choice.has(choice.maps, name, shown):
            size += (layer.num_heads + 1) * rows * keys * choice.bits // 8
        if choice.has(choice.vectors, name, shown):
            size += layer.bytes // 4 + layer.q.numel()
    return size


def always_inside(session: Session | PairSession, routes: Routes, view: View) -> Parts:
    parts, at = Parts(), f"view/{view.id}"
    model = session.describe(view.shown["pair"]["tower"]) if isinstance(session, PairSession) else session.describe()
    parts.add_json("model", {**model, "live": False})
    parts.add_json(at, view.shown)
    for file in sorted({step["file"] for step in session.steps.values()}):
        parts.add_json(f"source?file={file}", routes.answer("source", {"file": file}))
    for stack in view.shown["lines"]:
        parts.add_json(f"{at}/rollout?stack={stack}", routes.answer(f"{at}/rollout", {"stack": stack}))
    if model["lens"] and lens_length(view) <= MOST_LENS:
        for first in range(0, lens_length(view), LENS):
            parts.add_json(f"{at}/lens?first={first}", lens_of(session.of(view), view, first))
    for name, layer in view.seen.layers.items():
        parts.add(f"{at}/heads?name={name}", "bytes", heads_bytes(layer))
    return parts


def add_chosen(parts: Parts, view: View, shown: int, choice: Choice) -> None:
    """Maps and vectors, of all layers or of the one that is shown."""
    at = f"view/{view.id}"
    for name, layer in view.seen.layers.items():
        if choice.has(choice.maps, name, shown):
            add_maps(parts, f"{at}/map?name={name}", layer, choice.bits)
        if choice.has(choice.vectors, name, shown):
            add_vectors(parts, at, view, name)


def add_maps(parts: Parts, path: str, layer: Layer, bits: int) -> None:
    """Each head, and the mean of all."""
    weights = torch.cat([layer.weights(part, None) for part in layer.blocks()], dim=1)  # (H, T, S)
    for head, one in enumerate(weights):
        parts.add(f"{path}&head={head}", "bytes", packed(one[None], bits))
    parts.add(f"{path}&head=mean", "bytes", packed(weights.mean(dim=0, keepdim=True), bits))


def add_vectors(parts: Parts, at: str, view: View, name: str) -> None:
    """Those of an attention; with the one that reads its own tokens, also the feed-forward's of its layer."""
    stack, number, site = StepName.parse(name)
    path, layer = f"{at}/vectors?stack={stack}&layer={number}", view.seen.layers[name]
    named = {"q": layer.q[0], "k": layer.k[0], "v": layer.v[0], "mixed": mixed(layer)}
    for part, values in named.items():
        add_vector(parts, f"{path}&of={site}.{part}", values, layer.num_heads)
    if site == "attn":
        hidden = str(StepName(stack, number, "ffn.hidden"))
        add_vector(parts, f"{path}&of=ffn.hidden", view.seen.hidden[hidden][None], layer.num_heads)
        parts.add_json(f"{path}&of=ffn.active", sixes(view.seen.active[hidden]))


def add_vector(parts: Parts, path: str, values: Tensor, heads: int) -> None:
    """(heads, tokens, numbers) as signed bytes, with a scale for each head."""
    scale = (values.abs().amax(dim=(1, 2)) / 127).clamp(min=1e-30)  # (H)
    content = (values / scale[:, None, None]).round().to(torch.int8).numpy().tobytes()
    scales = [float(f"{x:.9g}") for x in scale.tolist()]
    parts.add(path, "vectors", content, shape=list(values.shape), scale=scales, shared=heads // len(values))


def whole_page() -> str:
    """The page with its style and its modules inside, and a policy that lets nothing else run."""
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    style = as_style_sheet() + (PAGE / "style.css").read_text(encoding="utf-8")
    script = bundled(PAGE)
    for part in (*STYLES.values(), SCRIPT):
        if page.count(part) != 1:
            raise ValueError(f"index.html has not exactly one {part}")
    if "</style" in style.lower() or "</script" in script.lower():
        raise ValueError("the page's style or script holds an end tag, and would end there")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = page.replace(STYLES["palette.css"], "").replace(STYLES["style.css"], f"<style>{style}</style>")
    page = page.replace(SCRIPT, f'@@data@@<script type="module">{script}</script>')
    return page.replace("<head>", f'<head>\n    <meta http-equiv="Content-Security-Policy" content="{policy}">', 1)


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def filled(page: str, index: dict[str, Any], parts: Parts) -> str:
    data = base64.b64encode(gzip.compress(b"".join(parts.content), 9, mtime=0)).decode()
    return page.replace(
        "@@data@@",
        f'<script type="application/json" id="frozen-index">{as_script(index)}</script>\n'
        f'    <script type="text/plain" id="frozen-data">{data}</script>\n    ',
        1,
    )


def as_script(values: Any) -> str:
    """JSON that cannot end the element it stands in, whatever text is in it."""
    text = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_export(session: Session | PairSession, routes: Routes, text: str | None, file: Path) -> None:
    """Runs the model on a text, or on its first example, and writes the page whole or not at all."""
    check_destination(file)
    kind = session.preparer.kind
    if text is not None and kind not in ("text", "ask", "match"):
        reads = {"series": "series"}.get(kind, "images")
        raise InputError(f"--text is for a model of texts, and this one reads {reads}: leave it out")
    if text is None and not session.examples:
        raise InputError("this model has no examples: give an input with --text")
    given = session.examples[0]["input"] if text is None or kind != "text" else {}
    view = session.view(given if text is None else {**given, "text": text})
    write_page(file, exported(session, routes, view))
