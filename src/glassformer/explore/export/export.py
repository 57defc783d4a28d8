"""The explorer for one input as one file, which opens without a network or server.

It contains the page's style and modules, and the answers that the page would request, in two blocks of text:

    <script type="application/json" id="frozen-index">    {"id", "layer", "state", "inside", "parts"}
    <script type="text/plain" id="frozen-data">           base64 of gzip of all parts, one after another

`state` is the fragment of the page's address when it was saved: it opens with the same language, layer, head and token.
`parts` locates each part: path -> {"kind", "at", "size", ...}, in bytes after unpacking.

    json      an answer under its own path: model, view/ID, view/ID/rollout?stack=..., source?file=...
    bytes     view/ID/heads?name=... and view/ID/map?name=...&head=..., as the server sends them (`view/slices.py`); the
              weights of a map have 16 bits if they fit, because there is no server to ask for exact ones
    vectors   view/ID/vectors?stack=...&layer=...&of=attn.q (or k, v, mixed; of cross; ffn.hidden): "shape" (heads,
              tokens, numbers), "scale" one per head, "shared" how many of the layer's heads share each of these.
              value = scale * byte, signed. of=ffn.active is JSON: one number per token

`inside` says what the file contains, so that it stays small enough to email: {"maps": "all" | "layer" | "none",
"bits": 16 | 8, "vectors": "all" | "layer" | "none"}; "layer" is the layer that was shown.
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
from glassformer.explore.export.destination import check_destination, replace_page
from glassformer.explore.view.answers import sixes
from glassformer.explore.view.bounds import slot, time_limit
from glassformer.explore.view.pair import PairSession
from glassformer.explore.view.query import number_of
from glassformer.explore.view.routes import Routes
from glassformer.explore.view.session import Session, View
from glassformer.explore.view.slices import AttentionInputs, heads_bytes, mixed, pack_map
from glassformer.explore.view.values import LENS, lens_length, lens_of
from glassformer.figures.palette import as_style_sheet
from glassformer.watch.names import StepName

PAGE = Path(__file__).parents[1] / "page"
MAX_LENS = 128  # longest text, in tokens, whose lens is included
MAILABLE_BYTES = 3_000_000  # bytes: small enough to email
STYLE_LINKS = {name: f'<link rel="stylesheet" href="{name}">' for name in ("palette.css", "style.css")}
SCRIPT = '<script type="module" src="main.js"></script>'


@dataclass(frozen=True)
class Choice:
    """What to include in a file."""

    maps: str
    bits: int
    vectors: str

    @staticmethod
    def has(chosen: str, name: str, shown: int) -> bool:
        """Whether `chosen` ("all", "layer" or "none") includes the layer of this name."""
        return chosen == "all" or (chosen == "layer" and StepName.parse(name).layer == shown)


# Tried in order, until the file is small enough.
EXPORT_CHOICES = (
    Choice("all", 16, "all"),
    Choice("all", 16, "layer"),
    Choice("all", 8, "layer"),
    Choice("layer", 16, "layer"),
    Choice("layer", 8, "layer"),
    Choice("none", 8, "layer"),
    Choice("none", 8, "none"),
)


class Parts:
    """Concatenated bytes, with an index of the parts."""

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
    """The page with one view: complete, or reduced until the file is small enough."""
    with torch.no_grad(), slot(routes.places), time_limit(session.seconds):
        return largest_fitting_page(session, routes, view, layer, state)


def largest_fitting_page(
    session: Session | PairSession, routes: Routes, view: View, layer: str | None, state: str
) -> str:
    layers = max(stack["num_layers"] for stack in session.of(view).describe()["stacks"].values())
    shown = number_of({} if layer is None else {"layer": layer}, "layer", layers, default=telling_layer(view, layers))
    page, always, found = whole_page(), always_inside(session, routes, view), ""
    for choice in EXPORT_CHOICES:
        if rough_size(view, shown, choice) > 3 * MAILABLE_BYTES:
            continue
        parts = always.copy()
        add_chosen(parts, view, shown, choice)
        index = {"id": view.id, "layer": shown, "state": state, "inside": vars(choice), "parts": parts.index}
        found = fill_page(page, index, parts)
        if len(found.encode()) < MAILABLE_BYTES:
            return found
    return found


def telling_layer(view: View, layers: int) -> int:
    """The layer that the page opens with by default."""
    best = view.shown["telling"]["best"]
    layer = StepName.parse(best["name"]).layer if best else None
    return layers - 1 if layer is None else layer


def rough_size(view: View, shown: int, choice: Choice) -> int:
    """Estimates the bytes of maps and vectors, to skip choices that are much too large."""
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
    if model["lens"] and lens_length(view) <= MAX_LENS:
        for first in range(0, lens_length(view), LENS):
            parts.add_json(f"{at}/lens?first={first}", lens_of(session.of(view), view, first))
    for name, layer in view.seen.layers.items():
        parts.add(f"{at}/heads?name={name}", "bytes", heads_bytes(layer))
    return parts


def add_chosen(parts: Parts, view: View, shown: int, choice: Choice) -> None:
    """Adds maps and vectors, of all layers or of the layer shown."""
    at = f"view/{view.id}"
    for name, layer in view.seen.layers.items():
        if choice.has(choice.maps, name, shown):
            add_maps(parts, f"{at}/map?name={name}", layer, choice.bits)
        if choice.has(choice.vectors, name, shown):
            add_vectors(parts, at, view, name)


def add_maps(parts: Parts, path: str, layer: AttentionInputs, bits: int) -> None:
    """Adds the map of each head, and the mean of all heads."""
    weights = torch.cat([layer.weights(part, None) for part in layer.blocks()], dim=1)  # (H, T, S)
    for head, one in enumerate(weights):
        parts.add(f"{path}&head={head}", "bytes", pack_map(one[None], bits))
    parts.add(f"{path}&head=mean", "bytes", pack_map(weights.mean(dim=0, keepdim=True), bits))


def add_vectors(parts: Parts, at: str, view: View, name: str) -> None:
    """Adds the vectors of an attention; with self-attention, also the layer's feed-forward."""
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
    """Adds (heads, tokens, numbers) as signed bytes, with one scale per head."""
    scale = (values.abs().amax(dim=(1, 2)) / 127).clamp(min=1e-30)  # (H)
    content = (values / scale[:, None, None]).round().to(torch.int8).numpy().tobytes()
    scales = [float(f"{x:.9g}") for x in scale.tolist()]
    parts.add(path, "vectors", content, shape=list(values.shape), scale=scales, shared=heads // len(values))


def whole_page() -> str:
    """The page with its style and modules inline, and a content security policy that blocks everything else."""
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    style = as_style_sheet() + (PAGE / "style.css").read_text(encoding="utf-8")
    script = bundled(PAGE)
    for part in (*STYLE_LINKS.values(), SCRIPT):
        if page.count(part) != 1:
            raise ValueError(f"index.html must contain {part} exactly once")
    if "</style" in style.lower() or "</script" in script.lower():
        raise ValueError("the page's style or script contains an end tag, which would end it early")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = page.replace(STYLE_LINKS["palette.css"], "").replace(STYLE_LINKS["style.css"], f"<style>{style}</style>")
    page = page.replace(SCRIPT, f'@@data@@<script type="module">{script}</script>')
    return page.replace("<head>", f'<head>\n    <meta http-equiv="Content-Security-Policy" content="{policy}">', 1)


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def fill_page(page: str, index: dict[str, Any], parts: Parts) -> str:
    data = base64.b64encode(gzip.compress(b"".join(parts.content), 9, mtime=0)).decode()
    return page.replace(
        "@@data@@",
        f'<script type="application/json" id="frozen-index">{as_script(index)}</script>\n'
        f'    <script type="text/plain" id="frozen-data">{data}</script>\n    ',
        1,
    )


def as_script(values: Any) -> str:
    """JSON, escaped so that no text in it can end the script element."""
    text = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_export(session: Session | PairSession, routes: Routes, text: str | None, file: Path) -> None:
    """Runs the model on a text, or on its first example, and writes the page completely or not at all."""
    check_destination(file)
    kind = session.preparer.kind
    if text is not None and kind not in ("text", "ask", "match"):
        reads = {"series": "series"}.get(kind, "images")
        raise InputError(f"--text is for text models, and this model reads {reads}: leave it out")
    if text is None and not session.examples:
        raise InputError("this model has no examples: give an input with --text")
    given = session.examples[0]["input"] if text is None or kind != "text" else {}
    view = session.view(given if text is None else {**given, "text": text})
    replace_page(file, exported(session, routes, view))
