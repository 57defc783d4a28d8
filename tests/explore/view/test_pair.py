"""A pair of models: the table of images and texts is the same as in `predict`, and each tower is a model of its own."""

import base64
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from PIL import Image

import glassformer as gf
from glassformer.errors import InputError
from glassformer.explore.export.export import exported
from glassformer.explore.view.pair import PairSession
from glassformer.explore.view.routes import Routes
from glassformer.predict.images import Picture

RoutesOf = Callable[[str], Routes]
TEXTS = "a red circle\na blue square\na red circle\n\n 빨간 원 "


def session_of(routes: Routes) -> PairSession:
    assert isinstance(routes.session, PairSession)
    return routes.session


def test_the_table_is_that_of_the_vectors_of_predict(routes_of: RoutesOf, folder_of: Callable[[str], Any]) -> None:
    session = session_of(routes_of("match"))
    shown = session.view({"tower": "image", "example": 2, "text": TEXTS}).shown
    pair, predict = shown["pair"], gf.pipeline(folder_of("match"))
    assert pair["texts"] == ["a red circle", "a blue square", "빨간 원"]  # no duplicates, no empty lines
    images = predict([Picture(name, pixels) for name, pixels in session.pictures])
    expected = images @ predict(pair["texts"]).T
    torch.testing.assert_close(torch.tensor(pair["similarity"]), expected, rtol=1e-4, atol=1e-5)
    assert pair["scale"] == pytest.approx(float(session.pair.logit_scale.detach().exp()), rel=1e-4)
    assert shown["answer"]["values"] == pytest.approx(images[2].tolist(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("tower", ["image", "text"])
def test_a_tower_is_seen_as_a_model_alone(tower: str, routes_of: RoutesOf) -> None:
    routes = routes_of("match")
    session = session_of(routes)
    view = session.view({"tower": tower, "example": 1})
    model = getattr(session.pair, tower)
    with torch.no_grad(), gf.record(model, activations="*") as seen:
        view.prepared.run(model)
    assert {entry["name"]: tuple(entry["shape"]) for entry in view.shown["flow"]} == {
        name: tuple(value.shape) for name, value in seen.items()
    }
    name = view.shown["maps"][-1]["name"]
    row: Any = routes.get(f"view/{view.id}/row", {"name": name, "head": "1", "row": "3"})
    assert row["weights"] == pytest.approx(seen[name][0, 1, 3].tolist(), rel=1e-4, abs=1e-6)
    values: Any = routes.get(f"view/{view.id}/values", {"name": "head.pooled"})
    assert values["values"] == pytest.approx(seen["head.pooled"][0].tolist(), rel=1e-4, abs=1e-5)
    described: Any = routes.get("model", {"tower": tower})
    assert described["tower"] == tower
    assert set(described["stacks"]) == {"encoder"} if tower == "image" else {"decoder"}
    page = exported(session, routes, view)
    assert len(page) < 3_000_000


def test_a_picture_of_ones_own_stands_before_the_others(routes_of: RoutesOf) -> None:
    session, content = session_of(routes_of("match")), io.BytesIO()
    Image.new("RGB", (20, 20), (200, 30, 30)).save(content, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    own = session.view({"tower": "image", "example": 0, "image": url}).shown
    assert len(own["pair"]["pictures"]) == len(session.pictures) + 1
    second = session.view({"tower": "image", "example": 1, "image": url}).shown
    first = session.view({"tower": "image", "example": 0}).shown
    assert second["answer"] == first["answer"] != own["answer"]
    for row, expected in zip(second["pair"]["similarity"][1:], first["pair"]["similarity"], strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tower": "moon"}, "tower is 'moon': expected image or text"),
        ({"tower": "image", "example": 99}, "example is 99: expected"),
        ({"tower": "text", "text": " \n "}, "the text is empty"),
        ({"tower": "text", "text": "\n".join(map(str, range(40)))}, "40 texts given: expected at most 32"),
        ({"words": "a"}, "the input has 'words'"),
    ],
)
def test_what_is_refused(given: dict[str, Any], why: str, routes_of: RoutesOf) -> None:
    with pytest.raises(InputError, match=why):
        session_of(routes_of("match")).view(given)
