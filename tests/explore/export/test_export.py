"""The exported file is complete, loads nothing from elsewhere, escapes text, and is small enough to email."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.explorer import read_maps
from helpers.tiny_models import TEXT, make
from torch import Tensor

from glassformer.errors import InputError
from glassformer.explore.export import export
from glassformer.explore.export.bundle import bundled
from glassformer.explore.export.export import exported, write_export
from glassformer.explore.view.routes import Routes
from glassformer.explore.view.session import Session
from glassformer.explore.view.slices import mixed
from glassformer.watch.names import StepName

KINDS = ["encoder-decoder", "decoder", "encoder", "image", "series", "caption", "ask", "prefix"]
NASTY = "<img src=x onerror=alert(1)></script><script>alert(2)</script><!-- \u2028 &lt;"


class Elements(HTMLParser):
    """A file as a browser parses it: its elements, and the contents of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.is_open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.append("")
        self.is_open = True

    def handle_endtag(self, tag: str) -> None:
        self.is_open = False

    def handle_data(self, data: str) -> None:
        if self.is_open:
            self.inside[-1] += data

    def of(self, tag: str, **having: str) -> list[tuple[dict[str, str | None], str]]:
        pairs = zip(self.tags, self.inside, strict=True)
        return [(a, text) for (t, a), text in pairs if t == tag and having.items() <= a.items()]


class Frozen:
    """Reads the parts of a file, as its page does."""

    def __init__(self, page: str) -> None:
        elements = Elements(page)
        ((_, index),) = elements.of("script", id="frozen-index")
        ((_, data),) = elements.of("script", id="frozen-data")
        self.index = json.loads(index)
        self.content = gzip.decompress(base64.b64decode(data))

    def part(self, path: str) -> tuple[dict[str, Any], bytes]:
        entry = self.index["parts"][path]
        return entry, self.content[entry["at"] : entry["at"] + entry["size"]]

    def json(self, path: str) -> Any:
        entry, content = self.part(path)
        assert entry["kind"] == "json"
        return json.loads(content)

    def vectors(self, path: str) -> Tensor:
        entry, content = self.part(path)
        scale = np.array(entry["scale"])[:, None, None]
        return torch.tensor(np.frombuffer(content, np.int8).reshape(entry["shape"]) * scale, dtype=torch.float32)


def export_of(routes: Routes, given: dict[str, Any] | None = None, layer: str | None = None) -> tuple[str, Any]:
    view = routes.session.view(given or routes.session.examples[0]["input"])
    return exported(routes.session, routes, view, layer), view


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_what_the_server_answers(kind: str, routes_of: Callable[[str], Routes]) -> None:
    routes = routes_of(kind)
    page, view = export_of(routes)
    frozen, at = Frozen(page), f"view/{view.id}"
    assert frozen.index["inside"] == {"maps": "all", "bits": 16, "vectors": "all"}
    assert frozen.json("model") == json.loads(json.dumps({**routes.session.describe(), "live": False}))
    assert frozen.json(at) == view.shown
    for step in routes.session.steps.values():
        assert step["code"] in frozen.json(f"source?file={step['file']}")["text"]
    for name, layer in view.seen.layers.items():
        exact = layer.weights(slice(0, layer.size[0]), None)
        for head, weights in [*enumerate(exact), ("mean", exact.mean(dim=0))]:
            _, content = frozen.part(f"{at}/map?name={name}&head={head}")
            assert (read_maps(content)[0] - weights).abs().max() < 2e-5
        assert frozen.part(f"{at}/heads?name={name}")[1] == routes.get(f"{at}/heads", {"name": name})
        place = StepName.parse(name)
        path = f"{at}/vectors?stack={place.stack}&layer={place.layer}"
        for part, values in (("q", layer.q[0]), ("k", layer.k[0]), ("v", layer.v[0]), ("mixed", mixed(layer))):
            shown = frozen.vectors(f"{path}&of={place.step}.{part}")
            assert ((shown - values).abs() <= values.abs().max() / 250).all()
            shared = frozen.part(f"{path}&of={place.step}.{part}")[0]["shared"]
            assert [head // shared for head in range(4)] == [head * len(values) // 4 for head in range(4)]
        if place.step == "attn":
            hidden = view.seen.hidden[str(place._replace(step="ffn.hidden"))]
            shown = frozen.vectors(f"{path}&of=ffn.hidden")[0]
            assert (shown - hidden).abs().max() <= hidden.abs().max() / 250
            active = view.seen.active[str(place._replace(step="ffn.hidden"))]
            torch.testing.assert_close(torch.tensor(frozen.json(f"{path}&of=ffn.active")), active, rtol=1e-5, atol=1e-6)
    for stack in view.shown["lines"]:
        assert frozen.json(f"{at}/rollout?stack={stack}") == routes.get(f"{at}/rollout", {"stack": stack})


def test_a_file_needs_nothing_from_elsewhere(routes_of: Callable[[str], Routes]) -> None:
    page, _ = export_of(routes_of("encoder-decoder"))
    elements = Elements(page)
    for tag, attributes in elements.tags:
        for name in ("src", "href", "action", "data", "srcset"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    ((_, style),) = elements.of("style")
    assert "url(" not in style.replace("url(data:", "")
    assert "@import" not in style
    ((script_attributes, script),) = elements.of("script", type="module")
    assert set(script_attributes) == {"type"}
    assert not re.search(r"^\s*(import|export)\s", script, re.MULTILINE)
    assert "https://" not in page.replace(script, "")
    ((policy, _),) = elements.of("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy["content"]).split(";"))
    assert rules["default-src"] == "'none'"
    for text, rule in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_text_stays_text(tmp_path: Path) -> None:
    """Markup in the input, the classes or the folder's name never becomes an element."""
    folder = make(tmp_path / "<b>encoder<", "encoder")
    routes = Routes(Session(folder))
    page, view = export_of(routes, {"text": NASTY})
    plain, _ = export_of(routes, {"text": "plain"})
    assert [tag for tag, _ in Elements(page).tags] == [tag for tag, _ in Elements(plain).tags]
    assert "onerror" not in page.replace(Elements(page).of("script", type="module")[0][1], "")
    assert Frozen(page).json(f"view/{view.id}")["input"]["text"] == NASTY
    index = Elements(page).of("script", id="frozen-index")[0][1]
    assert not set("<>&") & set(index)


def test_what_is_in_the_index_cannot_end_it() -> None:
    text = export.as_script({"</script>": "<!--", "&": "\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script>": "<!--", "&": "\u2028"}


@pytest.mark.slow
def test_64_tokens_of_a_base_model_are_small_enough_to_mail(tmp_path: Path) -> None:
    """12 layers of 12 heads, 768 wide, with random weights, which hardly compress."""
    sizes = {"d_model": 768, "num_layers": 12, "num_heads": 12, "d_ff": 64}
    routes = Routes(Session(make(tmp_path, "encoder", **sizes)))
    view = routes.session.view({"text": "a" * 62})
    assert len(view.shown["lines"]["encoder"]["tokens"]) == 64
    page = exported(routes.session, routes, view, "5")
    assert len(page.encode()) < 3_000_000
    frozen, at = Frozen(page), f"view/{view.id}"
    assert frozen.index["layer"] == 5
    assert frozen.index["inside"]["maps"] == "all"
    assert frozen.index["inside"]["vectors"] == "layer"
    for layer in range(12):
        assert f"{at}/map?name=encoder.blocks.{layer}.attn&head=11" in frozen.index["parts"]
        inside = f"{at}/vectors?stack=encoder&layer={layer}&of=attn.q" in frozen.index["parts"]
        assert inside == (layer == 5)


def test_a_long_text_leaves_out_and_says_so(tmp_path: Path) -> None:
    routes = Routes(Session(make(tmp_path, "decoder")))
    page, view = export_of(routes, {"text": "a" * 2048})
    assert len(page.encode()) < 3_000_000
    frozen = Frozen(page)
    assert frozen.index["inside"]["maps"] == "none"
    assert f"view/{view.id}/heads?name=decoder.blocks.0.attn" in frozen.index["parts"]
    with pytest.raises(InputError, match="layer is '9'"):
        exported(routes.session, routes, view, "9")


def test_modules_are_joined_in_the_order_of_need(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "main.js").write_text(
        'import { a as b, c } from "./far/x.js";\nimport * as y from "./y.js";\nb(c, y);\n'
    )
    (tmp_path / "far" / "x.js").write_text(
        'import {\n  d,\n} from "../y.js";\nimport "./x-2.js";\nexport const a = d;\nexport async function c() {}\n'
    )
    (tmp_path / "far" / "x-2.js").write_text('import { d } from "../far/../y.js";\nd();\n')
    (tmp_path / "y.js").write_text("export class E {}\nexport const d = { export: 1 };\n")
    text = bundled(tmp_path)
    order = ["module_y", "module_far_x_2", "module_far_x", "module_main"]
    assert re.findall(r"^const (module_\w+)", text, re.MULTILINE) == order
    assert "const { a: b, c } = module_far_x;" in text
    assert "const y = module_y;" in text
    assert "return { a, c };" in text
    (tmp_path / "y.js").write_text('import { a } from "./far/x.js";\nexport const d = a;\n')
    with pytest.raises(ValueError, match=r"main.js imports far/x.js imports y.js imports far/x.js"):
        bundled(tmp_path)
    (tmp_path / "y.js").write_text("export default 3;\n")
    with pytest.raises(ValueError, match="export default 3"):
        bundled(tmp_path)
    (tmp_path / "y.js").write_text('import { z } from "../z.js";\n')
    with pytest.raises(ValueError, match=r"y.js imports ../z.js, which is outside"):
        bundled(tmp_path)


def test_a_file_is_written_whole_or_not_at_all(routes_of: Callable[[str], Routes], tmp_path: Path) -> None:
    routes, file = routes_of("decoder"), tmp_path / "page.html"
    write_export(routes.session, routes, TEXT, file)
    assert Frozen(file.read_text(encoding="utf-8")).index["id"]
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(InputError, match="empty"):
        write_export(routes.session, routes, "", tmp_path / "other.html")
    with pytest.raises(InputError, match="no folder"):
        write_export(routes.session, routes, TEXT, tmp_path / "none" / "page.html")
    with pytest.raises(InputError, match="--text is for text models"):
        write_export(routes_of("image").session, routes_of("image"), TEXT, file)
    assert not (tmp_path / "other.html").exists()
