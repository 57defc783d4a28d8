"""The ranking of heads, the worked example, the lens and heads left out match the rest of the package."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.tiny_models import QUESTION, TEXT

import glassformer as gf
from glassformer.errors import InputError
from glassformer.explore.view.routes import Routes
from glassformer.inspect.looks.lens import logit_lens

RoutesOf = Callable[[str], Routes]
INPUTS: dict[str, dict[str, Any]] = {
    "image": {"example": 1},
    "series": {"example": 0},
    "caption": {"example": 1},
    "prefix": {"example": 1},
    "ask": {"example": 1, "text": QUESTION},
    "fill": {"text": "The [MASK] fox"},
}


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "fill", "image", "series", "caption", "ask", "prefix"])
def test_every_head_is_ranked_and_the_best_is_named(kind: str, routes_of: RoutesOf) -> None:
    view = routes_of(kind).session.view(INPUTS.get(kind, {"text": TEXT}))
    telling, lines = view.shown["telling"], view.shown["lines"]
    scores = {}
    for entry in view.shown["maps"]:
        heads = telling["maps"][entry["name"]]
        assert len(heads) == entry["heads"]
        weights = view.seen.layers[entry["name"]].weights(slice(0, entry["shape"][2]), None)  # (H, T, S)
        for number, head in enumerate(heads):
            assert 0 <= head["score"] <= 1
            assert head["weight"] == pytest.approx(float(weights[number, head["row"], head["key"]]), abs=1e-3)
            over_source = entry["kind"] == "cross" or (kind == "prefix" and entry["stack"] == "decoder")
            if "decoder" not in lines or "encoder" not in lines or over_source:
                scores[entry["name"], number] = head["score"]
    best = (telling["best"]["name"], telling["best"]["head"])
    assert scores[best] == max(scores.values())
    shown = telling["maps"][best[0]][best[1]]
    if kind == "fill":
        assert lines["encoder"]["tokens"][shown["row"]]["text"] == "[MASK]"
    if kind == "image":
        assert shown["row"] == 0  # the class token, from which the answer is computed


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "caption", "prefix"])
def test_the_worked_sum_is_the_one_of_record(kind: str, routes_of: RoutesOf) -> None:
    routes = routes_of(kind)
    view = routes.session.view(INPUTS.get(kind, {"text": TEXT}))
    site = "attn" if kind in ("decoder", "prefix") else "cross"
    name = f"decoder.blocks.1.{site}"
    query = {"stack": "decoder", "layer": "1", "site": site, "head": "2", "row": "3"}
    found: Any = routes.get(f"view/{view.id}/worked", query)
    with torch.no_grad(), gf.record(routes.session.model, activations=[f"{name}.*"]) as seen:
        view.prepared.run(routes.session.model)
    weights, scores = seen[name][0, 2, 3], seen[f"{name}.scores"][0, 2, 3]
    best = weights.topk(min(6, int((weights > 0).sum()))).indices.tolist()
    assert [one["key"] for one in found["keys"]] == best
    for one in found["keys"]:
        assert one["weight"] == pytest.approx(float(weights[one["key"]]), rel=1e-4)
        assert one["score"] == pytest.approx(float(scores[one["key"]]), rel=1e-4, abs=1e-5)
        assert one["product"] * found["scale"] == pytest.approx(one["score"], rel=1e-4, abs=1e-5)
    assert sum(one["weight"] for one in found["keys"]) + found["rest"] == pytest.approx(1.0, abs=1e-4)
    torch.testing.assert_close(torch.tensor(found["mixed"]), seen[f"{name}.mixed"][0, 2, 3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "fill", "caption", "ask", "prefix"])
def test_the_lens_is_the_one_that_inspect_draws(kind: str, routes_of: RoutesOf) -> None:
    routes = routes_of(kind)
    view = routes.session.view(INPUTS.get(kind, {"text": TEXT}))
    found: Any = routes.get(f"view/{view.id}/lens", {"first": "0"})
    arguments = view.prepared.arguments
    lens = logit_lens(routes.session.model, **arguments)
    for row, (ids, likely) in zip(found["layers"], zip(lens.tokens, lens.probabilities, strict=True), strict=True):
        assert [one["id"] for one in row] == ids[0, :32, 0].tolist()
        assert [one["score"] for one in row] == pytest.approx(likely[0, :32, 0].tolist(), rel=1e-4)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "encoder", "image", "series", "caption"])
def test_heads_left_out_are_those_of_ablate(kind: str, routes_of: RoutesOf) -> None:
    routes = routes_of(kind)
    session, given = routes.session, INPUTS.get(kind, {"text": TEXT})
    whole = session.view(given)
    heads = [f"{whole.shown['maps'][-1]['name']}.{head}" for head in (0, 2)]
    view = session.view({**given, "without": heads})
    with torch.no_grad(), gf.ablate(session.model, heads):
        expected = view.prepared.run(session.model)
        stack = "decoder" if kind in ("decoder", "encoder-decoder") else "encoder"
        last: Any = routes.get(f"view/{view.id}/values", {"name": f"{stack}.norm", "token": "1"})
    assert view.id != whole.id
    assert view.shown["changed"]["answer"]["kind"] == whole.shown["answer"]["kind"]
    if kind in ("encoder", "image"):
        scores = sorted(expected.logits[0].softmax(dim=0).tolist(), reverse=True)
        assert [one["score"] for one in view.shown["answer"]["classes"]] == pytest.approx(scores, rel=1e-4)
        assert view.shown["answer"] != whole.shown["answer"]
    if expected.last_hidden_state is not None and kind == "decoder":
        torch.testing.assert_close(
            torch.tensor(last["values"]), expected.last_hidden_state[0, 1, :64], rtol=1e-4, atol=1e-5
        )
    if view.shown["changed"]["maps"] is not None:
        assert all(0 <= by <= 1 for heads in view.shown["changed"]["maps"].values() for by in heads)
    again = session.view(given)
    assert again.shown["answer"] == whole.shown["answer"]  # the model itself is unchanged
    assert session.view({**given, "without": []}).id == whole.id
    with pytest.raises(InputError, match="is not a head"):
        session.view({**given, "without": ["*"]})
