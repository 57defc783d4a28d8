"""The equations of one attention head for one token: query, keys, scores, softmax, values, output.

Only the keys with the largest weights are shown, and key and value are worked out for the largest alone. Sums run over
all keys.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.attention import Attention, split_heads
from glassformer.core.positions import Rotary
from glassformer.inspect.steps.step import SourceLine, line_of, step_of
from glassformer.inspect.walk.equations import SHOWN_TERMS, Equation, Numbers, Worked, numbers, products
from glassformer.inspect.walk.scene import RecordedPass, norm_rows, read_by, row_of_layer

SHOWN_KEYS = 5  # most keys to show


def attention_equations(scene: RecordedPass) -> list[Equation]:
    attention = getattr(scene.block, scene.site)
    assert isinstance(attention, Attention)
    group = scene.head * attention.num_kv_heads // attention.num_heads
    q = scene.vector(scene.at(f"{scene.site}.q"))[scene.head]  # (K)
    k, v = (scene.seen[scene.at(f"{scene.site}.{part}")][0, group] for part in "kv")  # (S, K), (S, K)
    scores = scene.seen[scene.at(f"{scene.site}.scores")][0, 0, 0]  # (S)
    weights = scene.seen[scene.at(scene.site)][0, 0, 0]  # (S)
    places = shown_keys(scene, weights)
    heaviest = sorted(places, key=lambda i: -float(weights[i]))[:SHOWN_TERMS]
    first = heaviest[0]
    mixed = scene.vector(scene.at(f"{scene.site}.mixed"))  # (H, K)
    rows_of_mixed: list[Numbers | Worked] = [
        products("mixed[0]", weights, v[:, 0], float(mixed[scene.head, 0]), first=heaviest),
        numbers("mixed", mixed[scene.head]),
    ]
    return [
        *projection_equations(scene, attention, "q", scene.row, q, [numbers("q", q)]),
        *projection_equations(scene, attention, "k", first, k[first], rows_of("k", k, places)),
        *projection_equations(scene, attention, "v", first, v[first], rows_of("v", v, places)),
        score_equation(scene, attention, q, k, scores, places),
        softmax_equation(scene, scores, weights, places),
        scene.equation(scene.at(f"{scene.site}.mixed"), "weighted values", rows_of_mixed),
        output_equation(scene, attention, mixed),
    ]


def shown_keys(scene: RecordedPass, weights: Tensor) -> dict[int, str]:
    """The keys with the largest weights, in order; with a causal mask also the first masked key."""
    chosen = set(weights.argsort(descending=True, stable=True)[:SHOWN_KEYS].tolist())
    if scene.site == "attn" and scene.stack.causal and scene.row + 1 < len(weights):
        chosen = {i for i in chosen if i <= scene.row} | {scene.row + 1}
    return {i: scene.keys[i] for i in sorted(chosen)}


def rows_of(part: str, vectors: Tensor, places: dict[int, str]) -> list[Numbers | Worked]:
    return [numbers(f"{part} of {name}", vectors[i]) for i, name in places.items()]


def projection_equations(
    scene: RecordedPass, attention: Attention, part: str, place: int, made: Tensor, last: Sequence[Numbers | Worked]
) -> list[Equation]:
    """x W, then the norm and the rotation if the layer has them, each with one number worked out.

    `part` is q, k or v, `place` the token, and `made` the recorded vector. The rows of `last` end the last equation.
    """
    name, layer = scene.at(f"{scene.site}.{part}"), getattr(attention, part)
    heads = attention.num_heads if part == "q" else attention.num_kv_heads
    head = scene.head * heads // attention.num_heads
    norm = getattr(attention, f"{part}_norm", None)
    has_norm = norm is not None and not isinstance(norm, nn.Identity)
    rotary = rotary_of(scene) if scene.site == "attn" and part != "v" else None
    read, x = read_at(scene, part, place)
    of = "" if part == "q" else f" of {scene.keys[place]}"
    raw = made  # (K)
    if has_norm or rotary is not None:  # the recorded vector is already normalised and rotated
        raw = split_heads(layer(x[None, None]), heads)[0, head, 0]
    product = row_of_layer(f"{part}[0]{of}", layer, head * attention.head_dim, x, raw)
    rows: list[Numbers | Worked] = [numbers(f"{read}{of}", x), product]
    line, title = line_of_product(scene, part), {"q": "query", "k": "keys", "v": "values"}[part]
    if raw is made:
        return [scene.equation(name, title, [*rows, *last], made=line)]
    bias = "" if layer.bias is None else " + b"
    rows.append(numbers(f"{part}{of}", raw))
    equations = [scene.equation(name, title, rows, made=line, said=f"{part} = {read} W_{part}{bias}")]
    whose = "the query" if part == "q" else f"the key{of}"
    normed = raw
    if has_norm:
        assert isinstance(norm, nn.Module)
        normed = norm(raw)
        said = step_of(scene.at("attn_norm"), scene.model.config).equation
        said = said.replace("y =", f"{part} =").replace("x", part)
        rows = [*norm_rows(norm, raw, normed), *(last if rotary is None else [])]
        line = line_of(function_of(scene, part), f"{part} = self.{part}_norm(")
        equations.append(scene.equation(name, f"{whose}, normalised", rows, made=line, said=said))
    if rotary is not None:
        said = f"{part}[i] = {part}[i] cos(pos w_i) - {part}[i + {rotary.dim // 2}] sin(pos w_i)"
        rows = [*turn_rows(rotary, f"{part}[0]{of}", place, len(scene.keys), normed, made), *last]
        equations.append(scene.equation(name, f"{whose}, rotated by its position", rows, said=said))
    return equations


def read_at(scene: RecordedPass, part: str, place: int) -> tuple[str, Tensor]:
    """The input of a layer for one token, with its name in the equation: cross-attention keys read the memory."""
    if scene.site == "cross" and part != "q":
        assert scene.memory is not None
        return "memory", scene.memory[place]
    return "x", scene.seen[read_by(scene, scene.site)][0, place]


def function_of(scene: RecordedPass, part: str) -> Callable[..., Any]:
    if scene.site == "attn":
        return Attention.queries_keys_and_values
    return Attention.forward if part == "q" else Attention.source_keys


def line_of_product(scene: RecordedPass, part: str) -> SourceLine:
    begins = {"q": "q = self.q_norm(", "k": "k = self.k_norm(", "v": "v = split_heads("}[part]
    return line_of(function_of(scene, part), "q, k, v = self.products(" if scene.site == "attn" else begins)


def turn_rows(rotary: Rotary, name: str, place: int, span: int, x: Tensor, made: Tensor) -> list[Numbers | Worked]:
    """The angles of a position, and the first dimension rotated by the first angle."""
    cos, sin = (turn[0, 0, 0] for turn in rotary(torch.tensor([[place]]), span))
    half = rotary.dim // 2
    values = [float(number) for number in (x[0], cos[0], x[half], sin[0])]
    return [
        numbers("position", float(place)),
        numbers("cos(angle)", cos[:half]),
        numbers("sin(angle)", sin[:half]),
        Worked(name, "{} * {} - {} * {}", values, float(made[0])),
    ]


def rotary_of(scene: RecordedPass) -> Rotary | None:
    """The rotary embedding of this layer, if it has one."""
    kinds = scene.stack.config.layer_kinds
    turns = dict(zip(scene.stack.kinds, scene.stack.rotaries, strict=False))
    rotary = turns.get(kinds[scene.layer % len(kinds)])
    assert rotary is None or isinstance(rotary, Rotary)
    return rotary


def score_equation(
    scene: RecordedPass, attention: Attention, q: Tensor, k: Tensor, scores: Tensor, places: dict[int, str]
) -> Equation:
    """q . k, scaled, capped and with its position bias, for the shown keys."""
    bias = None
    if scene.stack.position_bias is not None and scene.site == "attn":
        positions = torch.arange(len(k))[None]
        bias = scene.stack.position_bias(positions[:, [scene.row]], positions)[0, scene.head, 0]  # (S)
    scale = attention.scale
    rows: list[Numbers | Worked] = []
    for i, name in places.items():
        if scores[i] == -torch.inf:
            continue
        row = products(f"score of {name}", q, k[i], float(scores[i]), times=scale)
        template, values = row.template, row.values
        if attention.cap is not None:
            template, values = f"{{}} * tanh({template} / {{}})", [attention.cap, *values, attention.cap]
        if bias is not None:
            template, values = f"{template} + {{}}", [*values, float(bias[i])]
        rows.append(Worked(row.name, template, values, row.result))
    return scene.equation(
        scene.at(f"{scene.site}.scores"), "scores and mask", [*rows, numbers("scores", scores, places)]
    )


def softmax_equation(scene: RecordedPass, scores: Tensor, weights: Tensor, places: dict[int, str]) -> Equation:
    largest = float(scores.max())
    powers = (scores.double() - largest).exp()
    rows: list[Numbers | Worked] = [
        numbers("max", largest),
        numbers("exp(score - max)", powers, places),
        numbers("sum of all", float(powers.sum())),
        numbers("weights", weights, places),
    ]
    return scene.equation(scene.at(scene.site), "softmax", rows)


def output_equation(scene: RecordedPass, attention: Attention, mixed: Tensor) -> Equation:
    """The contribution of this head to the output, and that of the other heads."""
    out, width = scene.vector(scene.at(f"{scene.site}.out")), attention.head_dim
    row = attention.out.weight[0].unflatten(0, (-1, width))  # (H, K)
    shares = (mixed.double() * row.double()).sum(dim=1)  # (H)
    share = float(shares[scene.head])
    values = [share, float(shares.sum()) - share]
    if attention.out.bias is not None:
        values.append(float(attention.out.bias[0]))
    rows: list[Numbers | Worked] = [
        products(f"head {scene.head}'s part of out[0]", mixed[scene.head], row[scene.head], share),
        Worked("out[0]", " + ".join(["{}", "others({})", "{}"][: len(values)]), values, float(out[0])),
        numbers("out", out),
    ]
    return scene.equation(scene.at(f"{scene.site}.out"), "output", rows)
