"""A Transformer in NumPy, from the weights alone, and the rows that its walkthrough must show.

Only the package's config is used: the formulas are those of the papers, in float64.
"""

from math import erf, floor, log, log2, sqrt
from typing import Any

import numpy as np

from glassformer.config import StackConfig, TransformerConfig

Array = np.ndarray[Any, Any]
Row = tuple[str, list[float], float | None]  # name, its numbers, and the result of its formula
SHOWN, KEYS = 4, 5

FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(erf)(np.asarray(x) / sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "sqrt": np.sqrt,
}


class NumpyStack:
    """Runs one stack on one text; `made` holds every step of every layer, for all tokens."""

    def __init__(
        self, weights: dict[str, Array], config: TransformerConfig, name: str, ids: list[int], memory: Array | None
    ) -> None:
        self.weights, self.name, self.ids, self.memory = weights, name, ids, memory
        self.whole, self.config = config, getattr(config, name)
        self.made: dict[str, Array] = {}
        x = self.enter()
        for layer in range(self.config.num_layers):
            x = self.layer(layer, x)
        self.last = self.made["norm"] = self.norm(f"{name}.norm", x) if self.config.final_norm else x

    def get(self, name: str) -> Array | None:
        return self.weights.get(name)

    def linear(self, name: str, x: Array) -> Array:
        bias = self.get(f"{name}.bias")
        return x @ self.weights[f"{name}.weight"].T + (0 if bias is None else bias)

    def norm(self, name: str, x: Array) -> Array:
        weight, bias, eps = self.weights[f"{name}.weight"], self.get(f"{name}.bias"), self.config.norm_eps
        if self.config.norm == "layer":
            scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight
            return scaled + (0 if bias is None else bias)
        scaled = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
        return scaled * (1 + weight if self.config.norm == "rms_offset" else weight)

    def enter(self) -> Array:
        table, start = self.weights[f"{self.name}.embed.tokens.weight"], f"{self.name}.embed"
        x = self.made["embed"] = table[self.ids] * self.scale
        if (segments := self.get(f"{start}.segments.weight")) is not None:
            x = x + segments[0]
        if self.config.positions in ("sinusoidal", "learned"):
            self.made["positions"] = self.positions(x.shape[1])
            x = x + self.made["positions"]
        self.made["sum"] = x
        if f"{start}.norm.weight" in self.weights:
            x = self.made["embed.norm"] = self.norm(f"{start}.norm", x)
        self.made["placed"] = self.linear(f"{start}.project", x) if f"{start}.project.weight" in self.weights else x
        return self.made["placed"]

    @property
    def scale(self) -> float:
        return sqrt(self.config.d_model) if self.whole.scale_embeddings else 1.0

    def positions(self, width: int) -> Array:
        place = np.arange(len(self.ids))
        if self.config.positions == "learned":
            return self.weights[f"{self.name}.embed.positions.weight"][place + self.config.position_offset]
        angle = place[:, None] / 10_000 ** (np.arange(0, width, 2) / width)
        return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(place), width)

    def layer(self, layer: int, x: Array) -> Array:
        config, prefix = self.config, f"{self.name}.blocks.{layer}"

        def branch(site: str, stream: Array, reads: Array) -> Array:
            if config.norm_order != "post":
                reads = self.made[f"{layer}.{site}_norm"] = self.norm(f"{prefix}.{site}_norm", reads)
            self.made[f"{layer}.{site}.reads"], self.made[f"{layer}.{site}.stream"] = reads, stream
            out = self.feed_forward(layer, reads) if site == "ffn" else self.attention(layer, site, reads)
            if config.block == "parallel":
                out = out + self.feed_forward(layer, reads)
            if config.norm_order == "sandwich":
                out = self.made[f"{layer}.{site}_post_norm"] = self.norm(f"{prefix}.{site}_post_norm", out)
            total = self.made[f"{layer}.{site}.total"] = stream + out
            made = self.norm(f"{prefix}.{site}_norm", total) if config.norm_order == "post" else total
            self.made[f"{layer}.{site}_residual"] = made
            return made

        before, x = x, branch("attn", x, x)
        if self.memory is not None:
            x = branch("cross", x, x)
        if config.block != "parallel":
            x = branch("ffn", x, before if config.block == "parallel_two_norms" else x)
        self.made[f"{layer}.out"] = x
        return x

    def attention(self, layer: int, site: str, x: Array) -> Array:
        config, prefix, key = self.config, f"{self.name}.blocks.{layer}.{site}", f"{layer}.{site}"
        source = x if site == "attn" else self.memory
        assert source is not None
        parts = {}
        for part, read, heads in (
            ("q", x, config.num_heads), ("k", source, config.num_kv_heads), ("v", source, config.num_kv_heads)
        ):  # fmt: skip
            rows = self.linear(f"{prefix}.{part}", read).reshape(len(read), heads, config.head_dim).swapaxes(0, 1)
            self.made[f"{key}.{part}.linear"] = rows  # (H, T, K)
            if config.qk_norm and part != "v":
                rows = self.made[f"{key}.{part}.normed"] = self.norm(f"{prefix}.{part}_norm", rows)
            if config.positions == "rotary" and part != "v" and site == "attn":
                rows = rotated(rows, config, layer)
            parts[part] = self.made[f"{key}.{part}"] = rows
        k, v = (np.repeat(parts[part], config.num_heads // config.num_kv_heads, axis=0) for part in "kv")
        self.made[f"{key}.k"], self.made[f"{key}.v"] = k, v
        scores = parts["q"] @ k.swapaxes(1, 2) * config.attention_scale
        if config.score_cap:
            scores = config.score_cap * np.tanh(scores / config.score_cap)
        if site == "attn" and config.positions in ("relative", "alibi"):
            self.made[f"{key}.bias"] = self.bias(len(x))
            scores = scores + self.made[f"{key}.bias"]
        if site == "attn" and self.name == "decoder":
            scores = np.where(np.tril(np.ones((len(x), len(x)), dtype=bool)), scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        mixed = weights @ v  # (H, T, K)
        out = self.linear(f"{prefix}.out", mixed.swapaxes(0, 1).reshape(len(x), -1))
        found = {"scores": scores, "powers": powers, "weights": weights, "mixed": mixed, "out": out}
        self.made |= {f"{key}.{name}": value for name, value in found.items()}
        return out

    def bias(self, length: int) -> Array:
        distance = np.arange(length) - np.arange(length)[:, None]  # j - i
        if self.config.positions == "alibi":
            whole = 2 ** floor(log2(self.config.num_heads))
            assert whole == self.config.num_heads
            return -np.array([2.0 ** (-8 * (h + 1) / whole) for h in range(whole)])[:, None, None] * abs(distance)
        table = self.weights[f"{self.name}.position_bias.weight"]
        return np.array([[table[self.bucket(d)] for d in row] for row in distance.tolist()]).transpose(2, 0, 1)

    def bucket(self, distance: int) -> int:
        buckets, start, back = self.config.relative_buckets, 0, max(-distance, 0)
        if self.name == "encoder":
            buckets //= 2
            start, back = (buckets if distance > 0 else 0), abs(distance)
        exact = buckets // 2
        if back < exact:
            return start + back
        growth = log(back / exact) / log(self.config.relative_max_distance / exact)
        return start + min(buckets - 1, exact + int(growth * (buckets - exact)))

    def feed_forward(self, layer: int, x: Array) -> Array:
        prefix, act = f"{self.name}.blocks.{layer}.ffn", FUNCTIONS[self.config.activation]
        up = self.made[f"{layer}.up"] = self.linear(f"{prefix}.up", x)
        if self.config.gated:
            gate = self.made[f"{layer}.gate"] = self.linear(f"{prefix}.gate", x)
        hidden = self.made[f"{layer}.hidden"] = act(gate) * up if self.config.gated else act(up)
        down = self.made[f"{layer}.down"] = self.linear(f"{prefix}.down", hidden)
        return down


def angles(config: StackConfig, layer: int, place: Array) -> Array:
    base = config.layer_kinds[layer % len(config.layer_kinds)].rotary_base
    return place[:, None] / base ** (np.arange(0, config.rotary_dim, 2) / config.rotary_dim)


def rotated(x: Array, config: StackConfig, layer: int) -> Array:
    angle, half = angles(config, layer, np.arange(x.shape[1])), config.rotary_dim // 2
    one, two, still = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([one * cos - two * sin, two * cos + one * sin, still], axis=-1)


def numbers(name: str, vector: Any, places: list[int] | None = None) -> Row:
    values = np.atleast_1d(np.asarray(vector, dtype=float))
    return name, (values[:SHOWN] if places is None else values[places]).tolist(), None


def dot(
    name: str,
    left: Array,
    right: Array,
    result: float,
    *,
    times: float | None = None,
    added: list[float] | None = None,
    first: list[int] | None = None,
) -> Row:
    terms = left * right
    first = list(range(min(SHOWN, len(terms)))) if first is None else first
    values = [float(factor) for i in first for factor in (left[i], right[i])]
    if len(terms) > len(first):
        values.append(float(terms.sum() - terms[first].sum()))
    return name, [*values, *([] if times is None else [times]), *(added or [])], float(result)


def expected_norm(weights: dict[str, Array], config: StackConfig, path: str, x: Array, y: Array) -> list[Row]:
    weight, bias = weights[f"{path}.weight"][0], weights.get(f"{path}.bias")
    if config.norm == "layer":
        rows = [numbers("mean(x)", x.mean()), numbers("var(x)", x.var())]
        values = [x[0], x.mean(), x.var(), config.norm_eps, weight]
    else:
        rows = [numbers("mean(x^2)", (x**2).mean())]
        values = [x[0], (x**2).mean(), config.norm_eps, weight]
    values += [] if bias is None else [bias[0]]
    return [*rows, ("y[0]", [float(value) for value in values], float(y[0])), numbers("y", y)]


class Expected:
    """The rows of a walk, as (title, rows), from a stack in NumPy."""

    def __init__(self, stack: NumpyStack, *, site: str, layer: int, head: int, row: int, names: list[str]) -> None:
        self.stack, self.site, self.layer, self.head, self.row, self.names = stack, site, layer, head, row, names
        self.config, self.weights = stack.config, stack.weights

    def at(self, name: str) -> Array:
        """The vector of this token at a step."""
        return self.stack.made[name][self.row]

    def unit(self, name: str, path: str, unit: int, x: Array, y: float) -> Row:
        bias = self.weights.get(f"{path}.bias")
        return dot(
            name, x, self.weights[f"{path}.weight"][unit], y, added=None if bias is None else [float(bias[unit])]
        )

    def norm(self, path: str, x: Array, y: Array) -> list[Row]:
        return expected_norm(self.weights, self.config, path, x, y)

    def walk(self) -> list[tuple[str, list[Row]]]:
        found = [*self.input(), *self.block()]
        last, name = self.config.num_layers - 1, self.stack.name
        if self.layer < last:
            found.append(self.passed(self.layer + 1, last))
        if self.config.final_norm:
            x, y = self.at(f"{last}.out"), self.at("norm")
            found.append(("final norm", [numbers("x", x), *self.norm(f"{name}.norm", x, y)]))
        return found

    def passed(self, first: int, last: int) -> tuple[str, list[Row]]:
        title = f"layers {first} to {last}" if first < last else f"layer {last}"
        return f"{title}, in the same way", [numbers(f"x after layer {last}", self.at(f"{last}.out"))]

    def input(self) -> list[tuple[str, list[Row]]]:
        start, made, token = f"{self.stack.name}.embed", self.stack.made, self.stack.ids[self.row]
        row, x = self.weights[f"{start}.tokens.weight"][token], self.at("embed")
        rows = [numbers(f"table[{token}]", row)]
        if self.stack.scale != 1:
            rows.append(("x[0]", [float(row[0]), self.stack.scale], float(x[0])))
        found = [("the token", [*rows, numbers("x", x)])]
        parts = [x[0]]
        if f"{start}.segments.weight" in self.weights:
            parts.append(self.weights[f"{start}.segments.weight"][0, 0])
        if "positions" in made:
            parts.append(self.at("positions")[0])
            found.append(("its position", [numbers("position", self.row), numbers("PE", self.at("positions"))]))
        total, rows = self.at("sum"), []
        if len(parts) > 1:
            rows = [("x[0]", [float(part) for part in parts], float(total[0]))]
        if "embed.norm" in made:
            if rows:
                found.append(("the sum", [*rows, numbers("x", total)]))
            normed = self.at("embed.norm")
            found.append(("its norm", [numbers("x", total), *self.norm(f"{start}.norm", total, normed)]))
            total, rows = normed, []
        if f"{start}.project.weight" in self.weights:
            rows = [*rows, self.unit("placed[0]", f"{start}.project", 0, total, self.at("placed")[0])]
        if rows:
            found.append(("input of the first block", [*rows, numbers("placed", self.at("placed"))]))
        return [*found, *([self.passed(0, self.layer - 1)] if self.layer else [])]

    def block(self) -> list[tuple[str, list[Row]]]:
        crosses = self.stack.memory is not None
        found = [self.residual("attn")] if self.site == "cross" else []
        found += [*self.branch_norm(self.site), *self.attention()]
        if self.config.block == "parallel":
            return [*found, *self.feed_forward("attn"), self.residual("attn")]
        found.append(self.residual(self.site))
        if crosses and self.site == "attn":
            found.append(self.residual("cross"))
        return [*found, *self.branch_norm("ffn"), *self.feed_forward("ffn"), self.residual("ffn")]

    def branch_norm(self, site: str) -> list[tuple[str, list[Row]]]:
        if self.config.norm_order == "post":
            return []
        reads = "attn" if self.config.block == "parallel_two_norms" else site
        x, y = self.at(f"{self.layer}.{reads}.stream"), self.at(f"{self.layer}.{site}_norm")
        path = f"{self.stack.name}.blocks.{self.layer}.{site}_norm"
        return [("norm", [numbers("x", x), *self.norm(path, x, y)])]

    def attention(self) -> list[tuple[str, list[Row]]]:
        key, path = f"{self.layer}.{self.site}", f"{self.stack.name}.blocks.{self.layer}.{self.site}"
        made, config, h, row = self.stack.made, self.config, self.head, self.row
        q, k, v = made[f"{key}.q"][h, row], made[f"{key}.k"][h], made[f"{key}.v"][h]
        scores, powers, weights = (made[f"{key}.{name}"][h, row] for name in ("scores", "powers", "weights"))
        places = sorted(np.argsort(-weights, kind="stable")[:KEYS].tolist())
        if self.site == "attn" and self.stack.name == "decoder" and row + 1 < len(weights):
            places = [i for i in places if i <= row] + [row + 1]
        heavy = sorted(places, key=lambda i: -weights[i])[:SHOWN]
        names = [f"{i} {self.names[i]!r}" for i in places]
        told = []
        for i, name in zip(places, names, strict=True):
            if scores[i] > -np.inf:
                _, values, _ = dot("", q, k[i], 0, times=config.attention_scale)
                if config.score_cap:
                    values = [config.score_cap, *values, config.score_cap]
                if f"{key}.bias" in made:
                    values.append(float(made[f"{key}.bias"][h, row, i]))
                told.append((f"score of {name}", values, float(scores[i])))
        mixed, out = made[f"{key}.mixed"][:, row], self.at(f"{key}.out")
        columns = self.weights[f"{path}.out.weight"][0].reshape(config.num_heads, -1)
        shares, bias = (mixed * columns).sum(1), self.weights.get(f"{path}.out.bias")
        parts = [shares[h], shares.sum() - shares[h], *([] if bias is None else [bias[0]])]
        return [
            *self.projection("q", row, [numbers("q", q)]),
            *self.projection(
                "k", heavy[0], [numbers(f"k of {name}", k[i]) for i, name in zip(places, names, strict=True)]
            ),
            *self.projection(
                "v", heavy[0], [numbers(f"v of {name}", v[i]) for i, name in zip(places, names, strict=True)]
            ),
            ("scores and mask", [*told, numbers("scores", scores, places)]),
            ("softmax", [
                numbers("max", scores.max()), numbers("exp(score - max)", powers, places),
                numbers("sum of all", powers.sum()), numbers("weights", weights, places),
            ]),
            ("weighted values", [
                dot("mixed[0]", weights, v[:, 0], mixed[h, 0], first=heavy), numbers("mixed", mixed[h]),
            ]),
            ("output", [
                dot(f"head {h}'s part of out[0]", mixed[h], columns[h], shares[h]),
                ("out[0]", [float(part) for part in parts], float(out[0])), numbers("out", out),
            ]),
        ]  # fmt: skip

    def projection(self, part: str, place: int, last: list[Row]) -> list[tuple[str, list[Row]]]:
        """The computation of q of this token, or k or v of another: the product, then its norm and rotation."""
        key, path = f"{self.layer}.{self.site}", f"{self.stack.name}.blocks.{self.layer}.{self.site}"
        made, config = self.stack.made, self.config
        heads = config.num_heads if part == "q" else config.num_kv_heads
        head = self.head // (config.num_heads // heads)
        remembers = self.site == "cross" and part != "q"
        x = self.stack.memory[place] if remembers else made[f"{key}.reads"][place]  # type: ignore[index]
        of = "" if part == "q" else f" of {place} {self.names[place]!r}"
        raw = made[f"{key}.{part}.linear"][head, place]
        rows = [
            numbers(f"{'memory' if remembers else 'x'}{of}", x),
            self.unit(f"{part}[0]{of}", f"{path}.{part}", head * config.head_dim, x, raw[0]),
        ]
        found = [({"q": "query", "k": "keys", "v": "values"}[part], rows)]
        turns, whose = (
            config.positions == "rotary" and self.site == "attn",
            "the query" if part == "q" else f"the key{of}",
        )
        if part != "v" and (turns or config.qk_norm):
            rows.append(numbers(f"{part}{of}", raw))
        if config.qk_norm and part != "v":
            normed = made[f"{key}.{part}.normed"][head, place]
            found.append((f"{whose}, normalised", self.norm(f"{path}.{part}_norm", raw, normed)))
            raw = normed
        if turns and part != "v":
            angle, half = angles(config, self.layer, np.array([place]))[0], config.rotary_dim // 2
            cos, sin = np.cos(angle), np.sin(angle)
            end = made[f"{key}.{part}"][self.head, place]
            found.append((f"{whose}, rotated by its position", [
                numbers("position", place), numbers("cos(angle)", cos), numbers("sin(angle)", sin),
                (f"{part}[0]{of}", [float(n) for n in (raw[0], cos[0], raw[half], sin[0])], float(end[0])),
            ]))  # fmt: skip
        found[-1][1].extend(last)
        return found

    def residual(self, site: str) -> tuple[str, list[Row]]:
        layer, made = self.layer, self.stack.made
        stream, total = self.at(f"{layer}.{site}.stream"), self.at(f"{layer}.{site}.total")
        if f"{layer}.{site}_post_norm" in made:
            branches = [self.at(f"{layer}.{site}_post_norm")]
        else:
            branches = [self.at(f"{layer}.down" if site == "ffn" else f"{layer}.{site}.out")]
            branches += [self.at(f"{layer}.down")] if self.config.block == "parallel" else []
        rows = [numbers("x", stream), *(numbers("branch", branch) for branch in branches)]
        rows.append(("x[0]", [float(part[0]) for part in (stream, *branches)], float(total[0])))
        end = self.at(f"{layer}.{site}_residual")
        if self.config.norm_order == "post":
            rows += self.norm(f"{self.stack.name}.blocks.{layer}.{site}_norm", total, end)
        else:
            rows.append(numbers("x", end))
        title = {"attn": "self-attention", "cross": "cross-attention", "ffn": "feed-forward"}[site]
        return f"residual stream after {title}", rows

    def feed_forward(self, site: str) -> list[tuple[str, list[Row]]]:
        layer, path, x = self.layer, f"{self.stack.name}.blocks.{self.layer}.ffn", self.at(f"{self.layer}.{site}.reads")
        up, hidden, down = (self.at(f"{layer}.{name}") for name in ("up", "hidden", "down"))
        found, bent = [("up", [self.unit("up[0]", f"{path}.up", 0, x, up[0]), numbers("up", up)])], [float(up[0])]
        if self.config.gated:
            gate = self.at(f"{layer}.gate")
            found.append(("gate", [self.unit("gate[0]", f"{path}.gate", 0, x, gate[0]), numbers("gate", gate)]))
            bent = [float(gate[0]), *bent]
        return [
            *found,
            ("activation", [("hidden[0]", bent, float(hidden[0])), numbers("hidden", hidden)]),
            ("down", [self.unit("down[0]", f"{path}.down", 0, hidden, down[0]), numbers("down", down)]),
        ]


def expected_answer(stack: NumpyStack, row: int, vocabulary: list[str]) -> list[tuple[str, list[Row]]]:
    """The head's own layers, logits and probabilities, for a token or for a text pooled by its first token."""
    weights, config = stack.weights, stack.whole
    x, found = stack.last[0 if config.head == "class" else row], []
    if config.head == "class":
        found.append(("one vector for the text", [numbers("first(x)", x)]))
    if "head.project.weight" in weights:
        projected = stack.linear("head.project", x)
        bias = weights.get("head.project.bias")
        added = None if bias is None else [float(bias[0])]
        product = dot("project[0]", x, weights["head.project.weight"][0], projected[0], added=added)
        found.append(("the head's dense layer", [numbers("x", x), product, numbers("project", projected)]))
        x = projected
    if config.head_activation is not None:
        bent = FUNCTIONS[config.head_activation](x)
        rows: list[Row] = [("activated[0]", [float(x[0])], float(bent[0])), numbers("activated", bent)]
        found.append(("the head's activation", rows))
        x = bent
    if "head.norm.weight" in weights:
        normed = stack.norm("head.norm", x)
        found.append(("the head's norm", expected_norm(weights, config.last_stack, "head.norm", x, normed)))
        x = normed
    if config.head == "span":
        scores, matrix, bias = stack.linear("head.out", x), weights["head.out.weight"], weights["head.out.bias"]
        both = [dot(name, x, matrix[i], scores[i], added=[float(bias[i])]) for i, name in enumerate(("start", "end"))]
        return [*found, ("logits of the start and the end", [numbers("x", x), *both])]
    logits = stack.linear("head.out", x) * (config.logit_scale if config.head == "language" else 1)
    if config.logit_cap:
        logits = config.logit_cap * np.tanh(logits / config.logit_cap)
    best = np.argsort(-logits, kind="stable")[:KEYS].tolist()
    bias = weights.get("head.out.bias")
    _, values, _ = dot("", x, weights["head.out.weight"][best[0]], 0)
    values += [] if bias is None else [float(bias[best[0]])]
    values += [config.logit_scale] if config.head == "language" and config.logit_scale != 1 else []
    values = [config.logit_cap, *values, config.logit_cap] if config.logit_cap else values
    top: Row = (f"logit of {vocabulary[best[0]]!r}", values, float(logits[best[0]]))
    powers = np.exp(logits - logits.max())
    chances = [
        numbers("max", logits.max()), numbers("exp(logit - max)", powers, best),
        numbers("sum of all", powers.sum()), numbers("p", powers / powers.sum(), best),
    ]  # fmt: skip
    return [*found, ("logits", [numbers("x", x), top, numbers("logits", logits, best)]), ("probabilities", chances)]
