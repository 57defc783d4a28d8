"""The explorer shows what the model computes: maps match `gf.record`, answers match `gf.pipeline`."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.explorer import read_maps
from helpers.tiny_models import QUESTION, TEXT, make
from torch import Tensor

import glassformer as gf
from glassformer.errors import InputError
from glassformer.explore.view.routes import Routes
from glassformer.explore.view.session import Session, View
from glassformer.explore.view.shown import stream_of
from glassformer.figures.png import as_png
from glassformer.generation.loop import filtered
from glassformer.generation.plan import make_plan, resolve_options
from glassformer.inspect.ledger.ledger import ledger
from glassformer.inspect.looks.rollout import rollout_of
from glassformer.predict.images import Picture
from glassformer.watch.record import Record

RoutesOf = Callable[[str], Routes]
KINDS = ["encoder-decoder", "decoder", "encoder", "image", "series", "caption", "ask", "prefix"]
INPUTS: dict[str, dict[str, Any]] = {
    "image": {"example": 1},
    "series": {"example": 0, "channel": 0},
    "caption": {"example": 1},
    "prefix": {"example": 1},
    "ask": {"example": 1, "text": QUESTION},
    "fill": {"text": "The [MASK] fox [MASK]"},
    "span": {"text": "Who says?\nThe quick fox says hello."},
}


def open_view(routes: Routes, kind: str) -> View:
    return routes.session.view(INPUTS.get(kind, {"text": TEXT}))


def recorded(session: Session, view: View) -> Record:
    with torch.no_grad(), gf.record(session.model, activations="*") as seen:
        view.prepared.run(session.model)
    return seen


def read_map(content: Any) -> Tensor:
    (found,) = read_maps(content)
    return found


def norms_around(streams: Any, stack: str, layer: int, token: int) -> dict[str, float | None]:
    """A token's norms before and after each part of a block, as the page finds them."""
    steps, block = streams[stack]["steps"], streams[stack]["blocks"][layer]
    return {key: None if at is None else steps[at]["norms"][token] for key, at in block.items()}


def assert_within_a_step(shown: Tensor, exact: Tensor) -> None:
    """Within half a step of 8 bits of the square root: w = m c^2, so |dw| <= 2 m c / 510 + m / 510^2."""
    largest = exact.max()
    bound = 2 * (largest * exact).sqrt() / 510 + largest / 510**2 + 1e-6
    assert shown.shape == exact.shape
    assert ((shown - exact).abs() <= bound).all()


@pytest.mark.parametrize("kind", KINDS)
def test_maps_rows_and_vectors_are_those_of_record(kind: str, routes_of: RoutesOf) -> None:
    routes = routes_of(kind)
    view = open_view(routes, kind)
    seen, at, row = recorded(routes.session, view), f"view/{view.id}", view.row
    attentions = [name for name in seen if name.endswith((".attn", ".cross"))]
    assert [entry["name"] for entry in view.shown["maps"]] == attentions
    for entry in view.shown["maps"]:
        name, exact = entry["name"], seen[entry["name"]][row]  # (H, T, S)
        assert entry["heads"] == len(exact)
        sizes = [len(view.shown["lines"][entry[side]]["tokens"]) for side in ("rows", "columns")]
        assert sizes == list(exact.shape[1:])
        for head in range(len(exact)):
            assert_within_a_step(read_map(routes.get(f"{at}/map", {"name": name, "head": str(head)})), exact[head])
        assert_within_a_step(read_map(routes.get(f"{at}/map", {"name": name, "head": "mean"})), exact.mean(dim=0))
        small = read_maps(routes.get(f"{at}/heads", {"name": name}))
        for head, whole in zip(small, exact, strict=True):
            assert_within_a_step(head, whole)
        found = routes.get(f"{at}/row", {"name": name, "head": "1", "row": "2"})
        assert isinstance(found, dict)
        torch.testing.assert_close(torch.tensor(found["weights"]), exact[1, 2], rtol=1e-4, atol=1e-6)
        scores = torch.tensor([-torch.inf if score is None else score for score in found["scores"]])
        torch.testing.assert_close(scores, seen[f"{name}.scores"][row, 1, 2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_record(kind: str, routes_of: RoutesOf) -> None:
    routes = routes_of(kind)
    view = open_view(routes, kind)
    seen, row = recorded(routes.session, view), view.row
    for entry in (entry for entry in view.shown["maps"] if entry["layer"] == 1):
        stack, site, name = entry["stack"], entry["step"], f"{entry['stack']}.blocks.1"
        query = {"stack": stack, "layer": "1", "site": site, "head": "1", "row": "2", "key": "0"}
        found: Any = routes.get(f"view/{view.id}/vectors", query)
        shared = seen[f"{name}.{site}.k"].shape[1] // seen[f"{name}.{site}.q"].shape[1]
        of_query_and_key = (("q", 1, 2), ("k", int(1 * shared), 0), ("v", int(1 * shared), 0), ("mixed", 1, 2))
        for part, head, token in of_query_and_key:
            exact = seen[f"{name}.{site}.{part}"][row, head, token]
            torch.testing.assert_close(torch.tensor(found[part]), exact, rtol=1e-4, atol=1e-5)
        hidden = seen[f"{name}.ffn.hidden"][row, 2]
        torch.testing.assert_close(torch.tensor(found["ffn"]["hidden"]), hidden, rtol=1e-4, atol=1e-5)
        assert found["ffn"]["active"] == pytest.approx(float((hidden > 0).float().mean()), abs=1e-5)
        norms = {
            "before": f"{stack}.blocks.0.ffn_residual",
            "after_attn": f"{name}.attn_residual",
            "after": f"{name}.ffn_residual",
        }
        for key, step in norms.items():
            around = norms_around(view.shown["stream"], stack, 1, 2)
            assert around[key] == pytest.approx(float(seen[step][row, 2].norm()), rel=1e-4)
        has_cross = norms_around(view.shown["stream"], stack, 1, 2)["after_cross"] is not None
        assert has_cross == (f"{name}.cross" in seen)


@pytest.mark.parametrize("kind", KINDS)
def test_the_flow_has_every_step_with_its_shape_and_cost(kind: str, routes_of: RoutesOf) -> None:
    routes = routes_of(kind)
    view = open_view(routes, kind)
    seen = recorded(routes.session, view)
    flow = {entry["name"]: tuple(entry["shape"]) for entry in view.shown["flow"]}
    assert flow == {name: tuple(value.shape) for name, value in seen.items()}
    lengths = [len(line["tokens"]) - line["before"] for line in view.shown["lines"].values()]
    names = ("length", "target_length")
    sizes = {} if kind in ("image", "series") else dict(zip(names, lengths, strict=False))
    if kind in ("caption", "ask", "prefix"):
        sizes = {"target_length": lengths[1]}
    lines = {line.name: line for line in ledger(routes.session.model, **sizes).lines}
    assert [flow[entry["name"]] for entry in view.shown["maps"]] == [
        tuple(entry["shape"]) for entry in view.shown["maps"]
    ]
    for entry in view.shown["flow"]:
        assert len(entry["axes"]) == len(entry["shape"]), entry
        assert set(entry["axes"]) <= set(routes.session.describe()["legend"]), entry
        assert entry["axes"][0] == ("B*C" if kind == "series" and entry["name"] != "logits" else "B"), entry
        assert (entry["parameters"], entry["flops"]) == (lines[entry["name"]].parameters, lines[entry["name"]].flops)
    assert json.loads(json.dumps(view.shown, allow_nan=False)) == view.shown


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "relative"},
        {"positions": "alibi"},
        {"positions": "learned"},
        {"positions": "rotary"},
        {"positions": "none", "norm_order": "post"},
        {"positions": "sinusoidal", "score_cap": 2.0, "num_kv_heads": 2},
        {"positions": "relative", "layer_kinds": (gf.LayerKind(window=4), gf.LayerKind())},
        {"positions": "rotary", "layer_kinds": (gf.LayerKind(window=3),), "num_blocks": 1},
    ],
    ids=lambda changes: "-".join(map(str, changes.values()))[:40],
)
def test_every_way_to_place_tokens(changes: dict[str, Any], tmp_path: Path) -> None:
    """Biases, windows, caps and shared blocks, also if rows are computed in several blocks."""
    routes = Routes(Session(make(tmp_path, "encoder-decoder", **changes)))
    view = open_view(routes, "encoder-decoder")
    seen = recorded(routes.session, view)
    for name, layer in view.seen.layers.items():
        for head in (0, layer.num_heads - 1):
            shown = read_map(routes.get(f"view/{view.id}/map", {"name": name, "head": str(head)}))
            assert_within_a_step(shown, seen[name][0, head])
        parts = [layer.weights(slice(at, at + 1), 1) for at in range(layer.size[0])]
        torch.testing.assert_close(torch.cat(parts, dim=1)[0], seen[name][0, 1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("tokens", [16, 512, pytest.param(2048, marks=pytest.mark.slow)])
def test_long_texts_keep_nothing_that_grows_with_their_square(
    tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = Routes(Session(make(tmp_path, "decoder", positions="alibi")))
    text = "a" * tokens  # one token per letter
    view = routes.session.view({"text": text})
    length = len(view.shown["lines"]["decoder"]["tokens"])
    assert length == tokens
    seen = view.seen
    per_token = seen.bytes / length
    assert per_token < 4 * (3 * 24 + 40 + 8) * 2 + 200
    for layer in seen.layers.values():
        assert not layer.mask._whole
        assert max(x.numel() for x in (layer.q, layer.k, layer.v)) <= 24 * length
    name = "decoder.blocks.1.attn"
    row: Any = routes.get(f"view/{view.id}/row", {"name": name, "head": "3", "row": str(length - 1)})
    shown = read_map(routes.get(f"view/{view.id}/map", {"name": name, "head": "3"}))
    assert shown.shape == (length, length)
    exact = torch.tensor(row["weights"])
    assert ((shown[-1] - exact).abs() <= 2 * (shown.max() * exact).sqrt() / 510 + 1e-4).all()
    small = read_maps(routes.get(f"view/{view.id}/heads", {"name": name}))
    side = min(64, length)
    assert small.shape == (4, side, side)
    torch.testing.assert_close(small[3].max(), shown.max(), rtol=1e-5, atol=1e-6)


def test_a_translation_is_the_pipelines(folder_of: Callable[[str], Path], routes_of: RoutesOf) -> None:
    session, predict = routes_of("encoder-decoder").session, gf.pipeline(folder_of("encoder-decoder"))
    for text in ("The quick brown fox", "Once upon a time"):
        shown = session.view({"text": text}).shown
        assert shown["text"] == predict([text])[0]
        decoder = shown["lines"]["decoder"]
        assert [token["id"] for token in decoder["writes"][:-1]] == [token["id"] for token in decoder["tokens"][1:]]
        best = [row[0]["id"] for row in shown["answer"]["candidates"]]
        assert [token["id"] for token in decoder["writes"]] == best  # decoding is greedy


def test_a_given_translation_is_read_as_labels_are(routes_of: RoutesOf) -> None:
    session = routes_of("encoder-decoder").session
    view = session.view({"text": "The fox", "target": "Once upon"})
    labels = session.preparer.tokenizer.encode(["Once upon"], target=True).input_ids  # type: ignore[union-attr]
    assert [token["id"] for token in view.shown["lines"]["decoder"]["writes"]] == labels[0].tolist()
    expected = session.model.shift_right(labels)
    assert torch.equal(view.prepared.arguments["decoder_input_ids"], expected)
    chosen = labels[0].tolist()[:2]
    again = session.view({"text": "The fox", "continued": chosen}).shown["lines"]["decoder"]
    assert [token["id"] for token in again["tokens"]] == [int(expected[0, 0]), *chosen]
    assert len(again["writes"]) == len(again["tokens"])


def test_a_picture_before_the_words_has_its_rows_in_their_stack(routes_of: RoutesOf) -> None:
    routes = routes_of("prefix")
    view, model = open_view(routes, "prefix"), routes.session.model
    source, line = (view.shown["lines"][stack] for stack in ("encoder", "decoder"))
    assert (line["before"], line["begins"], line["prompt"]) == (17, 17, 18)
    assert line["tokens"][:17] == line["writes"][:17] == source["tokens"]
    assert [token["id"] for token in line["tokens"][17:]] == view.prepared.written
    assert view.shown["telling"]["best"]["name"].startswith("decoder.")
    with torch.no_grad():
        logits = view.prepared.run(model).logits
    assert logits is not None
    assert view.shown["answer"]["candidates"][:17] == [[]] * 17
    found: Any = routes.get(f"view/{view.id}/next", {"row": "19", "top_k": "1"})
    best = int(logits[0, 2].argmax())
    assert found["drawn"]["id"] == view.shown["answer"]["candidates"][19][0]["id"] == best == line["writes"][19]["id"]
    with pytest.raises(InputError, match="row 3 is a patch of the image, which predicts no token"):
        routes.get(f"view/{view.id}/next", {"row": "3"})
    chosen = [token["id"] for token in line["writes"][17:19]]
    again = routes.session.view({"example": 1, "continued": chosen}).shown["lines"]["decoder"]
    assert [token["id"] for token in again["tokens"][18:]] == chosen


def test_a_decoder_goes_on_with_what_was_chosen(folder_of: Callable[[str], Path], routes_of: RoutesOf) -> None:
    """Appending the most probable token repeatedly gives the pipeline's text."""
    routes, text = routes_of("decoder"), "Once upon"
    chosen: list[int] = []
    for _ in range(5):
        view = routes.session.view({"text": text, "continued": chosen})
        line = view.shown["lines"]["decoder"]
        query = {"row": str(len(line["tokens"]) - 1), "top_k": "1"}
        found: Any = routes.get(f"view/{view.id}/next", query)
        assert found["kept"] == 1
        assert found["drawn"]["id"] == line["writes"][-1]["id"] == found["candidates"][0]["id"]
        chosen.append(found["drawn"]["id"])
    view = routes.session.view({"text": text, "continued": chosen})
    assert view.shown["lines"]["decoder"]["prompt"] == len(view.shown["lines"]["decoder"]["tokens"]) - 5
    predict = gf.pipeline(folder_of("decoder"))
    assert view.shown["text"] == predict([text], max_new_tokens=5, do_sample=False)[0]


def test_what_may_follow_is_filtered_as_generation_filters(routes_of: RoutesOf) -> None:
    routes = routes_of("decoder")
    view, model = open_view(routes, "decoder"), routes.session.model
    query = {"row": "3", "temperature": "0.7", "top_k": "9", "top_p": "0.8", "seed": "4"}
    found: Any = routes.get(f"view/{view.id}/next", query)
    ids = view.prepared.arguments["input_ids"]
    with torch.no_grad():
        logits = model(ids[:, :4]).logits[:, -1]
    choices = {"do_sample": True, "temperature": 0.7, "top_k": 9, "top_p": 0.8, "max_new_tokens": 1}
    plan = make_plan(model.config, resolve_options(model.config, choices), ids[:, :4], None, None)
    after = filtered(logits, ids[:, :4], plan).softmax(dim=1)[0]
    assert found["kept"] == int((after > 0).sum()) <= 9
    for candidate in found["candidates"]:
        assert candidate["score"] == pytest.approx(float(after[candidate["id"]]), rel=1e-3, abs=1e-6)
        raw = float(logits.softmax(dim=1)[0, candidate["id"]])
        assert candidate["raw"] == pytest.approx(raw, rel=1e-3)
        assert candidate["kept"] == (candidate["score"] > 0)
    assert found["drawn"]["id"] in [candidate["id"] for candidate in found["candidates"] if candidate["kept"]]
    assert routes.get(f"view/{view.id}/next", query) == found


def test_classes_masks_labels_spans_and_vectors_are_the_pipelines(
    folder_of: Callable[[str], Path], routes_of: RoutesOf
) -> None:
    answers = {kind: open_view(routes_of(kind), kind).shown["answer"] for kind in ("encoder", "fill", "label", "span")}
    label = gf.pipeline(folder_of("encoder"))([TEXT])[0]
    assert answers["encoder"]["kind"] == "classes"
    assert {entry["label"]: entry["score"] for entry in answers["encoder"]["classes"]} == pytest.approx(
        label.scores, rel=1e-4
    )
    assert len(answers["encoder"]["pooled"]["values"]) == 24
    guesses = gf.pipeline(folder_of("fill"))([INPUTS["fill"]["text"]], guesses=10)[0]
    assert len(answers["fill"]["masks"]) == 2
    for mask, row in zip(answers["fill"]["masks"], guesses, strict=True):
        expected = [guess.score for guess in row]
        assert [candidate["score"] for candidate in mask["candidates"]] == pytest.approx(expected, rel=1e-4)
    labels = gf.pipeline(folder_of("label"))([TEXT])[0]
    assert [entry["label"] for entry in answers["label"]["labels"][1:-1]] == [entry.label for entry in labels]
    question, text = INPUTS["span"]["text"].split("\n")
    answer = gf.pipeline(folder_of("span"))([text], question=question)[0]
    assert answers["span"]["score"] == pytest.approx(answer.score, rel=1e-4)
    twice = open_view(routes_of("twice"), "twice").shown
    assert {entry["label"]: entry["score"] for entry in twice["answer"]["classes"]} == pytest.approx(
        gf.pipeline(folder_of("twice"))([TEXT])[0].scores, rel=1e-4
    )
    assert {entry["kind"] for entry in twice["maps"] if entry["stack"] == "decoder"} == {"self", "cross"}
    values = np.cos(np.arange(48)).round(4).tolist()
    judged = routes_of("judge").session.view({"csv": ",".join(map(str, values))}).shown
    assert {entry["label"]: entry["score"] for entry in judged["answer"]["classes"]} == pytest.approx(
        gf.pipeline(folder_of("judge"))([values])[0].scores, rel=1e-4
    )
    assert judged["curve"]["future"] is None
    vector = open_view(routes_of("embed"), "embed").shown["answer"]
    expected = gf.pipeline(folder_of("embed"))([TEXT])[0]
    torch.testing.assert_close(torch.tensor(vector["values"]), expected, rtol=1e-4, atol=1e-5)


def test_an_image_is_seen_as_the_pipeline_sees_it(folder_of: Callable[[str], Path], routes_of: RoutesOf) -> None:
    pytest.importorskip("PIL", reason="the pipeline needs pillow to read images")
    session, predict = routes_of("image").session, gf.pipeline(folder_of("image"))
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 3
    expected = predict([Picture("it", pixels)])[0].scores
    url = "data:image/png;base64," + base64.b64encode(as_png(pixels)).decode()
    shown = session.view({"image": url}).shown
    assert {entry["label"]: entry["score"] for entry in shown["answer"]["classes"]} == pytest.approx(expected, rel=1e-4)
    assert shown["picture"]["grid"] == [4, 4]
    assert shown["picture"]["png"] == url  # the model's input, turned back into colours
    large = np.repeat(np.repeat(pixels, 3, axis=0), 3, axis=1)
    url = "data:image/png;base64," + base64.b64encode(as_png(np.stack([large] * 3, axis=2))).decode()
    shown = session.view({"image": url}).shown
    expected = predict([Picture("it", large)])[0].scores
    assert {entry["label"]: entry["score"] for entry in shown["answer"]["classes"]} == pytest.approx(expected, rel=1e-3)


def test_a_forecast_is_the_pipelines(folder_of: Callable[[str], Path], routes_of: RoutesOf) -> None:
    session, predict = routes_of("series").session, gf.pipeline(folder_of("series"))
    values = np.stack([np.sin(np.arange(60) / 5), np.arange(60) % 7], axis=1).astype(np.float32)
    expected = predict(values)
    text = "\n".join(f"{a:.9g},{b:.9g}" for a, b in values)
    for channel in (0, 1):
        view = session.view({"csv": text, "channel": channel})
        curve = view.shown["curve"]
        assert curve["future"] == pytest.approx(expected[:, channel].tolist(), rel=1e-3, abs=1e-4)
        assert curve["past"] == pytest.approx(values[-48:, channel].tolist(), rel=1e-5, abs=1e-6)
        assert curve["patches"][0] == [0, 8]
        assert curve["patches"][-1] == [40, 48]
        assert len(curve["patches"]) == len(view.shown["lines"]["encoder"]["tokens"])
    dated = "date,one,two\n" + "\n".join(
        f"2024-01-{1 + hour // 24:02} {hour % 24:02}:00,{a:.9g},{b:.9g}" for hour, (a, b) in enumerate(values)
    )
    curve = session.view({"csv": dated, "channel": 1}).shown["curve"]
    assert curve["names"] == ["one", "two"]
    assert curve["future"] == pytest.approx(expected[:, 1].tolist(), rel=1e-3, abs=1e-4)


def test_rollout_is_the_product_of_the_layers(routes_of: RoutesOf) -> None:
    """Abnar and Zuidema (2020): (A + I) / 2 of each layer, multiplied from the last to the first."""
    routes = routes_of("image")
    view = open_view(routes, "image")
    seen = recorded(routes.session, view)
    product = np.eye(17)
    for layer in range(2):
        product = (seen[f"encoder.blocks.{layer}.attn"][0].mean(dim=0).double().numpy() + np.eye(17)) / 2 @ product
    found: Any = routes.get(f"view/{view.id}/rollout", {"stack": "encoder"})
    np.testing.assert_allclose(found["weights"], product[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "image", "caption", "prefix"])
def test_rollout_is_the_one_that_inspect_draws(kind: str, routes_of: RoutesOf) -> None:
    """A row computed layer by layer equals the row of the full matrix."""
    routes = routes_of(kind)
    view = open_view(routes, kind)
    for stack in view.shown["lines"]:
        whole = rollout_of(routes.session.model, view.prepared.arguments, stack=stack)[0]
        for row in (0, len(whole) - 1):
            found: Any = routes.get(f"view/{view.id}/rollout", {"stack": stack, "row": str(row)})
            torch.testing.assert_close(torch.tensor(found["weights"]), whole[row], rtol=1e-5, atol=1e-6)


def test_an_input_is_computed_once_and_old_ones_make_room(
    folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(folder_of("decoder"))
    calls = []
    session.model.register_forward_hook(lambda *_: calls.append(1))
    first = session.view({"text": "Once"})
    assert session.view({"text": "Once"}) is first
    assert len(calls) == 1
    monkeypatch.setattr("glassformer.explore.view.session.MAX_VIEW_BYTES", first.bytes + 10)
    session.view({"text": "upon"})
    assert list(session.views) != [first.id]
    with pytest.raises(Exception, match="send the input again"):
        session.find(first.id)
    session.view({"text": "Once"})
    assert len(calls) == 3


@pytest.mark.parametrize("kind", [*KINDS, "span", "fill"])
def test_the_values_of_every_step_are_those_of_record(kind: str, routes_of: RoutesOf) -> None:
    routes = routes_of(kind)
    table = "\n".join(f"{at % 5},{at % 7},{at % 11}" for at in range(60))
    view = routes.session.view({"csv": table, "channel": 2}) if kind == "series" else open_view(routes, kind)
    seen, row = recorded(routes.session, view), view.row
    assert row == (2 if kind == "series" else 0)
    for entry in view.shown["flow"]:
        name, axes = entry["name"], entry["axes"]
        exact = seen[name][row if len(seen[name]) > 1 else 0]
        if axes[1] in ("H", "G"):
            exact = exact[1 * len(exact) // 4]
        if "Z" in axes:
            exact = exact[:, row]
        has_tokens = exact.ndim == 2
        exact = exact[1] if has_tokens else exact
        found: Any = routes.get(f"view/{view.id}/values", {"name": name, "token": "1", "head": "1"})
        assert found["name"] == name
        assert found["token"] == (1 if has_tokens else None), name
        assert found["axes"] == (["Z"] if "Z" in axes else axes[-1:]), name
        assert found["size"] == len(exact), name
        shown = torch.tensor([-torch.inf if value is None else value for value in found["values"]])
        torch.testing.assert_close(shown, exact[:64], rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}{text}")
        length = exact[exact.isfinite()].norm()
        assert found["length"] == pytest.approx(float(length), rel=1e-4, abs=1e-5), name
    assert view.bytes >= view.bytes_of_steps > 0


def test_the_values_of_a_step_are_computed_once_and_kept_within_bounds(
    folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = Routes(Session(folder_of("decoder")))
    view = routes.session.view({"text": TEXT})
    passes: list[int] = []
    routes.session.model.register_forward_hook(lambda *_: passes.append(1))

    def ask(name: str, token: int) -> Any:
        return routes.get(f"view/{view.id}/values", {"name": name, "token": str(token)})

    assert ask("decoder.placed", 0) != ask("decoder.placed", 1)
    ask("decoder.blocks.0.attn.q", 0)
    ask("decoder.blocks.1.attn.scores", 0)
    assert len(passes) == 1
    one = view.bytes_of_steps
    monkeypatch.setattr("glassformer.explore.view.values.MAX_STEP_BYTES", 2 * one)
    for name in ("decoder.norm", "decoder.blocks.0.attn.out"):
        ask(name, 0)
    assert list(view.steps) == ["decoder.norm", "decoder.blocks.0.attn.out"]
    monkeypatch.setattr("glassformer.explore.view.values.MAX_STEP_BYTES", one - 1)
    ask("decoder.blocks.1.attn.out", 0)  # too large to keep, but still answered
    assert "decoder.blocks.1.attn.out" not in view.steps


def test_a_wide_hidden_layer_says_that_it_is_pooled(tmp_path: Path, routes_of: RoutesOf) -> None:
    query = {"stack": "decoder", "layer": "1", "head": "0", "row": "0", "key": "0"}
    for routes, pooled, size, width in (
        (routes_of("decoder"), False, 40, 40),
        (Routes(Session(make(tmp_path, "decoder", d_ff=300))), True, 100, 300),
    ):
        view = routes.session.view({"text": TEXT})
        found: Any = routes.get(f"view/{view.id}/vectors", query)
        assert (found["ffn"]["pooled"], len(found["ffn"]["hidden"]), found["ffn"]["of"]) == (pooled, size, width)


def test_the_stream_before_the_first_block_is_of_its_own_stack(routes_of: RoutesOf) -> None:
    routes = routes_of("encoder-decoder")
    view = open_view(routes, "encoder-decoder")
    seen = recorded(routes.session, view)
    assert norms_around(view.shown["stream"], "decoder", 0, 1)["before"] == pytest.approx(
        float(seen["decoder.placed"][0, 1].norm()), rel=1e-4
    )
    norms = {name: norm for name, norm in view.seen.norms.items() if not name.endswith(".placed")}
    without = stream_of(replace(view.seen, norms=norms))
    assert norms_around(without, "decoder", 0, 1)["before"] is None
    assert norms_around(without, "encoder", 0, 1)["before"] is None


@pytest.mark.parametrize("kind", [*KINDS, "span", "label"])
def test_stack_layer_and_step_are_sent_with_every_name(kind: str, routes_of: RoutesOf) -> None:
    shown = open_view(routes_of(kind), kind).shown
    stream = [step for stack in shown["stream"].values() for step in stack["steps"]]
    for entry in (*shown["maps"], *shown["flow"], *stream):
        block = [] if entry["layer"] is None else ["blocks", str(entry["layer"])]
        stack = [] if entry["stack"] is None else [entry["stack"]]
        assert ".".join([*stack, *block, entry["step"]]) == entry["name"]
        assert entry["stack"] in (None, *shown["lines"])


def test_a_text_before_the_words_is_refused(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    model, tokenizer = gf.load(folder_of("encoder-decoder")), gf.load_tokenizer(folder_of("encoder-decoder"))
    other = gf.Transformer(model.config.replace(memory="prefix"))
    gf.save(other.eval(), tmp_path / "model", tokenizer=tokenizer)
    with pytest.raises(InputError, match="which the explorer shows only for image models"):
        Session(tmp_path / "model")
