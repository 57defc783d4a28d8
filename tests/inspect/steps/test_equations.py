"""The equation of a step gives the step's numbers: the tests implement the arithmetic of each equation again."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from helpers.step_models import MODELS, labels_for, make, stack
from torch import Tensor, nn

import glassformer as gf
from glassformer.checkpoints.example import make_example
from glassformer.inspect.steps.step import step_of

MORE = {
    "halves": {"encoder": stack(sinusoids="halves", position_offset=2), "vocab_size": 17, "num_segments": 2},
    "closed halves": {"encoder": stack(sinusoids="closed_halves"), "vocab_size": 17, "embed_norm": True},
    "offset": {"decoder": stack(positions="learned", position_offset=2), "vocab_size": 17, "logit_scale": 0.5,
               "tie_embeddings": False},
    "narrow": {"decoder": stack(positions="none", norm_bias=False), "vocab_size": 17, "embed_dim": 5},
    "no first norm": {"encoder": stack(first_norm=False), "vocab_size": 17, "head": "class", "num_classes": 1,
                      "head_activation": "tanh", "pooling": "first"},
    "both at once": {"decoder": stack(block="parallel", norm_order="sandwich", attention_scale=0.7), "vocab_size": 17},
    "tied": {"decoder": stack(), "vocab_size": 17, "tie_embeddings": True, "head_bias": True, "logit_scale": 2.0},
    "two teachers": {"encoder": stack(positions="learned"), "head": "class", "num_classes": 4, "two_classifiers": True,
                     "image": gf.ImageConfig(size=6, patch=2, distillation_token=True)},
    "level": {"encoder": stack(positions="learned"), "series": gf.SeriesConfig(length=12, patch=4, horizon=3),
              "head": "forecast"},
}  # fmt: skip


@dataclass
class Env:
    """One step of a recorded pass, and its inputs by the names used in equations."""

    model: gf.Transformer
    seen: gf.record
    inputs: dict[str, Tensor]
    labels: Tensor
    name: str

    def __post_init__(self) -> None:
        words = self.name.split(".")
        self.stack = getattr(self.model, words[0]) if words[0] in ("encoder", "decoder") else None
        self.layer = int(words[2]) if words[1:2] == ["blocks"] else None
        self.block = None if self.layer is None else self.stack.block_of(self.layer)
        self.site = words[3].split("_")[0] if self.layer is not None else ""
        self.prefix = f"{words[0]}.blocks.{self.layer}." if self.layer is not None else f"{words[0]}."

    def at(self, step: str) -> Tensor:
        return self.seen[self.prefix + step]

    @property
    def stream(self) -> Tensor:
        """x, before this branch is added."""
        order = ["attn", *(["cross"] if self.stack.cross else []), "ffn"]
        before = order.index(self.site)
        if before:
            return self.at(f"{order[before - 1]}_residual")
        if self.layer == 0:
            return self.seen[f"{self.prefix.split('.')[0]}.placed"]
        last = "attn" if self.block.kind == "parallel" else "ffn"
        return self.seen[f"{self.prefix.split('.')[0]}.blocks.{self.layer - 1}.{last}_residual"]

    @property
    def x(self) -> Tensor:
        """The input of the branch: the residual stream, normalised or not."""
        shared = "attn" if self.block.kind == "parallel" else self.site
        normed = f"{self.prefix}{shared}_norm"
        return self.seen[normed] if self.block.norm_order != "post" and normed in self.seen else self.stream

    @property
    def memory(self) -> Tensor:
        """The encoder's output as the decoder reads it."""
        brought = next((name for name in ("memory.norm", "memory.project") if name in self.seen), None)
        return self.encoded if brought is None else self.seen[brought]

    @property
    def encoded(self) -> Tensor:
        return self.seen["encoder.norm"] if "encoder.norm" in self.seen else self.seen["encoder.blocks.1.ffn_residual"]

    @property
    def hidden(self) -> Tensor:
        """x of a head: the output of the last stack."""
        last = "decoder" if self.model.decoder is not None else "encoder"
        steps = [f"{last}.norm", f"{last}.blocks.1.ffn_residual", f"{last}.blocks.1.attn_residual"]
        whole = next(self.seen[step] for step in steps if step in self.seen)
        return whole[:, -self.inputs["decoder_input_ids"].shape[1] :] if self.model.config.prefix else whole

    @property
    def query_keep(self) -> Tensor | None:
        is_target = self.prefix.startswith("decoder") and self.model.encoder is not None
        return self.inputs.get("decoder_attention_mask" if is_target else "attention_mask")

    @property
    def last(self) -> Tensor:
        """The output of the last block."""
        ends = (f"{self.prefix.split('.')[0]}.blocks.1.{site}_residual" for site in ("ffn", "attn"))
        return next(self.seen[step] for step in ends if step in self.seen)

    def positions(self) -> Tensor:
        """The positions of the tokens that are not padding, counted from 0."""
        keep = self.query_keep
        if keep is None:
            return torch.arange(self.at("embed").shape[1])[None]
        return (keep.cumsum(dim=1) - 1).clamp(min=0)

    def ids(self) -> Tensor:
        is_target = self.prefix == "decoder." and self.model.encoder is not None
        return self.inputs["decoder_input_ids" if is_target else "input_ids"]


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def heads(x: Tensor, width: int) -> Tensor:
    return x.reshape(*x.shape[:2], -1, width).transpose(1, 2)


def projected(e: Env, part: str) -> Tensor:
    attention = getattr(e.block, e.site)
    reads = e.x if part == "q" or e.site == "attn" else e.memory
    return heads(linear(getattr(attention, part), reads), attention.head_dim)


def rms(module: nn.Module, x: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + module.eps).sqrt() * module.weight


def turned(e: Env, x: Tensor) -> Tensor:
    """As complex numbers: a pair (i, i + K/2) times e^(i pos / 10000^(2i/K))."""
    half = x.shape[-1] // 2
    angle = e.positions()[:, None, :, None] / 10_000 ** (torch.arange(half) / half)
    pairs = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([pairs.real, pairs.imag], dim=-1)


def normed_input(e: Env) -> tuple[nn.Module, Tensor]:
    """The module of a norm, and its input."""
    step = e.name.split(".")[-1]
    if e.name == "memory.norm":
        return e.model.memory.norm, e.seen["memory.project"]
    if e.layer is None:
        if step == "norm" and ".embed" not in e.name:
            return e.stack.norm, e.last
        return e.stack.embed.norm, e.at("embed") + e.at("embed.positions")
    module = getattr(e.block, step)
    if step.endswith("_post_norm"):
        branch = e.at(f"{e.site}.out" if e.site != "ffn" else "ffn.down")
        return module, branch + (e.at("ffn.down") if e.block.kind == "parallel" else 0)
    if e.block.norm_order == "post":
        return module, e.stream + e.at("ffn.down" if e.site == "ffn" else f"{e.site}.out")
    if e.block.kind == "parallel_two_norms" and e.site == "ffn":
        return module, Env(e.model, e.seen, e.inputs, e.labels, f"{e.prefix}attn").stream
    return module, e.stream


def layer_norm(e: Env) -> Tensor:
    module, x = normed_input(e)
    centred = x - x.mean(-1, keepdim=True)
    y = centred / (centred.pow(2).mean(-1, keepdim=True) + module.eps).sqrt() * module.weight
    return y if module.bias is None else y + module.bias


def rms_norm(e: Env) -> Tensor:
    return rms(*normed_input(e))


def rms_offset(e: Env) -> Tensor:
    module, x = normed_input(e)
    return x / (x.pow(2).mean(-1, keepdim=True) + module.eps).sqrt() * (1 + module.weight)


def product(e: Env) -> Tensor:
    q, k = e.at(f"{e.site}.q"), e.at(f"{e.site}.k")
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).transpose(2, 3)


def scaled(e: Env) -> Tensor:
    return product(e) / math.sqrt(e.at(f"{e.site}.q").shape[-1])


def distance(e: Env) -> Tensor:
    length = e.at(f"{e.site}.q").shape[2]
    return torch.arange(length)[None] - torch.arange(length)[:, None]  # j - i, without padding in between


def added(e: Env) -> Tensor:
    return e.at("ffn.down" if e.site == "ffn" else f"{e.site}.out")


def embedded(e: Env) -> Tensor:
    return e.stack.embed.tokens.weight[e.ids()]


def waves(e: Env, angle: Callable[[Tensor, int], Tensor], *, halves: bool) -> Tensor:
    width = e.at("embed").shape[-1]
    row = e.positions()[..., None] + e.stack.config.position_offset
    angles = row / 10_000 ** angle(torch.arange(math.ceil(width / 2)).double(), width)
    parts = [angles.sin(), angles.cos()]
    laid = torch.cat(parts, dim=-1) if halves else torch.stack(parts, dim=-1).flatten(-2)
    return laid[..., :width].float()


def pool(e: Env) -> Tensor:
    x, keep, how = e.hidden, e.inputs.get("attention_mask"), e.model.config.pooling
    if how == "first":
        return x[:, 0]
    keep = torch.ones(x.shape[:2]) if keep is None else keep
    return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)


def cross_entropy(e: Env) -> Tensor:
    logits = e.seen["logits"] if "logits" in e.seen else torch.stack([e.seen["start_logits"], e.seen["end_logits"]], 1)
    return -logits.log_softmax(-1).gather(-1, e.labels[..., None]).mean()


def table(e: Env) -> Tensor:
    return (e.model.decoder or e.model.encoder).embed.tokens.weight.T


HEAD: dict[str, Callable[[Env], Tensor]] = {
    "logits = x W + b": lambda e: linear(e.model.head.out, e.hidden),
    "logits = x table^T": lambda e: e.hidden @ table(e),
    "logits = 2 (x table^T + b)": lambda e: 2 * (e.hidden @ table(e) + e.model.head.out.bias),
    "logits = 0.5 x W": lambda e: 0.5 * linear(e.model.head.out, e.hidden),
    "logits = 9 tanh(x table^T / 9)": lambda e: 9 * torch.tanh(e.hidden @ table(e) / 9),
    "logits = project table^T": lambda e: e.seen["head.project"] @ table(e),
    "logits = normed table^T": lambda e: e.seen["head.norm"] @ table(e),
    "logits = pooled W + b": lambda e: linear(e.model.head.out, e.seen["head.pooled"]),
    "logits = (pooled W + b + x_1 W' + b') / 2": lambda e: (
        (linear(e.model.head.out, e.seen["head.pooled"]) + linear(e.model.head.second, e.hidden[:, 1])) / 2
    ),
    "project = x W + b": lambda e: linear(e.model.head.project, e.hidden),
    "project = first(x) W + b": lambda e: linear(e.model.head.project, e.hidden[:, 0]),
    "normed = norm(gelu(project))": lambda e: F.layer_norm(
        F.gelu(e.seen["head.project"]), (5,), e.model.head.norm.weight, e.model.head.norm.bias
    ),
    "pooled = mean(x)": pool,
    "pooled = first(x)": pool,
    "pooled = tanh(first(x) W + b)": lambda e: torch.tanh(e.seen["head.project"]),
    "future = flatten(x) W + b": lambda e: (
        linear(e.model.head.out, e.hidden.flatten(1)).reshape(2, 2, 3).transpose(1, 2)
    ),
    "future = (flatten(x) W + b) deviation + mean": lambda e: (
        linear(e.model.head.out, e.hidden.flatten(1)).reshape(2, 2, 3).transpose(1, 2)
        * (e.inputs["past_values"].var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        + e.inputs["past_values"].mean(1, keepdim=True)
    ),
    "loss = -mean(log softmax(logits)[label])": cross_entropy,
    "loss = -mean(log softmax(logits_t)[label_(t+1)])": lambda e: (
        -e.seen["logits"][:, :-1].log_softmax(-1).gather(-1, e.labels[:, 1:, None]).mean()
    ),
    "loss = mean((future - label)^2)": lambda e: (e.seen["logits"] - e.labels).pow(2).mean(),
    "loss = mean((logits - label)^2)": lambda e: (e.seen["logits"][:, 0] - e.labels).pow(2).mean(),
}
INPUT: dict[str, Callable[[Env], Tensor]] = {
    "x_t = table[token_t]": embedded,
    "x_t = sqrt(D) table[token_t]": lambda e: math.sqrt(12) * embedded(e),
    "PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same)": lambda e: waves(
        e, lambda i, width: 2 * i / width, halves=False
    ),
    "PE(pos, i) = sin((pos + 2) / 10000^(2i/D)), PE(pos, D/2 + i) = cos(the same)": lambda e: waves(
        e, lambda i, width: 2 * i / width, halves=True
    ),
    "PE(pos, i) = sin(pos / 10000^(i/(D/2 - 1))), PE(pos, D/2 + i) = cos(the same)": lambda e: waves(
        e, lambda i, width: i / (width / 2 - 1), halves=True
    ),
    "PE(pos) = table[pos]": lambda e: e.stack.embed.positions.weight[e.positions()],
    "PE(pos) = table[pos + 2]": lambda e: e.stack.embed.positions.weight[e.positions() + 2],
    "x = embed": lambda e: e.at("embed"),
    "x = embed + PE": lambda e: e.at("embed") + e.at("embed.positions"),
    "x = [memory; embed + PE]": lambda e: torch.cat([e.memory, e.at("embed") + e.at("embed.positions")], dim=1),
    "memory = x W + b": lambda e: linear(e.model.memory.project, e.encoded),
    "x = embed + segment + PE": lambda e: (
        e.at("embed") + e.stack.embed.segments.weight[e.inputs["token_type_ids"]] + e.at("embed.positions")
    ),
    "x = norm(embed + PE)": lambda e: e.at("embed.norm"),
    "x = norm(embed + PE) W + b": lambda e: linear(e.stack.embed.project, e.at("embed.norm")),
    "x = (embed) W + b": lambda e: linear(e.stack.embed.project, e.at("embed")),
}
BLOCK: dict[str, Callable[[Env], Tensor]] = {
    "y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias": layer_norm,
    "y = (x - mean(x)) / sqrt(var(x) + eps) * weight": layer_norm,
    "y = x / sqrt(mean(x^2) + eps) * weight": rms_norm,
    "y = x / sqrt(mean(x^2) + eps) * (1 + weight)": rms_offset,
    **{f"{part} = {of} W_{part}{bias}": lambda e, part=part: projected(e, part)  # type: ignore[misc]
       for part in "qkv" for of in ("x", "memory") for bias in ("", " + b")},
    **{f"{part} = x W_{part} + b, rotated by its position": lambda e, part=part: turned(e, projected(e, part))  # type: ignore[misc]
       for part in "qk"},
    **{f"{part} = norm(x W_{part}), rotated by its position": lambda e, part=part: turned(  # type: ignore[misc]
        e, rms(getattr(e.block.attn, f"{part}_norm"), projected(e, part))) for part in "qk"},
    "scores = q k^T / sqrt(K)": lambda e: scaled(e),
    "scores = 0.7 q k^T": lambda e: product(e) * 0.7,
    "scores = 5 tanh(q k^T / sqrt(K) / 5)": lambda e: 5 * torch.tanh(scaled(e) / 5),
    "scores = q k^T / sqrt(K) - slope |i - j|": lambda e: (
        scaled(e) - torch.tensor([2.0**-4, 2.0**-8, 2.0**-2])[:, None, None] * distance(e).abs()
    ),
    "scores = q k^T / sqrt(K) + bias[j - i]": lambda e: (
        scaled(e)
        + e.stack.position_bias.weight[e.stack.position_bias.bucket(distance(e))].permute(2, 0, 1)
    ),
    "weights = softmax(scores)": lambda e: e.at(f"{e.site}.scores").softmax(-1),
    "mixed = weights v": lambda e: e.at(e.site) @ e.at(f"{e.site}.v").repeat_interleave(
        e.at(e.site).shape[1] // e.at(f"{e.site}.v").shape[1], dim=1
    ),
    **dict.fromkeys(
        ("out = concat(heads) W_o + b", "out = concat(heads) W_o"),
        lambda e: linear(getattr(e.block, e.site).out, e.at(f"{e.site}.mixed").transpose(1, 2).flatten(2)),
    ),
    "up = x W_up + b": lambda e: linear(e.block.ffn.up, e.x),
    "gate = x W_gate + b": lambda e: linear(e.block.ffn.gate, e.x),
    "hidden = relu(up)": lambda e: e.at("ffn.up").clamp(min=0),
    "hidden = silu(gate) * up": lambda e: e.at("ffn.gate") * e.at("ffn.gate").sigmoid() * e.at("ffn.up"),
    "down = hidden W_down + b": lambda e: linear(e.block.ffn.down, e.at("ffn.hidden")),
    **{f"x = norm(x + {site}(x))": lambda e: e.at(f"{e.site}_norm") for site in ("attn", "cross", "ffn")},
    **{f"x = x + {site}({reads})": lambda e: e.stream + added(e)
       for site in ("attn", "cross", "ffn") for reads in ("norm(x)", "x", "norm(x before attn)")},
    **{f"x = x + norm({site}(norm(x)))": lambda e: e.stream + e.at(f"{e.site}_post_norm") for site in ("attn", "ffn")},
    "x = x + attn(norm(x)) + ffn(norm(x))": lambda e: e.stream + e.at("attn.out") + e.at("ffn.down"),
    "x = x + norm(attn(norm(x)) + ffn(norm(x)))": lambda e: e.stream + e.at("attn_post_norm"),
}  # fmt: skip


def patches(e: Env) -> Tensor:
    """Patches, flattened and projected: of an image, after its prefix tokens; of a series, per channel."""
    embed = e.stack.embed
    if e.model.config.series is not None:
        values = e.inputs["past_values"]
        if e.model.config.series.instance_norm:
            values = (values - values.mean(1, keepdim=True)) / (values.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        rows = values.transpose(1, 2).flatten(0, 1)  # (B*C, 12)
        if e.model.config.series.fold == 3:
            rows = torch.stack([row[first::3] for row in rows for first in range(3)])
            return linear(embed.patches, torch.stack([rows[:, i : i + 2] for i in range(3)], dim=1))
        return linear(embed.patches, rows.reshape(-1, 3, 4))
    pixels, side = e.inputs["pixel_values"], 2
    if e.model.config.image.stem:
        only = embed.stem.halves[0]
        filtered = F.pad(F.conv2d(pixels, only.weight, only.bias, padding=1).relu(), (1, 1, 1, 1))
        pixels, side = filtered.unfold(2, 3, 2).unfold(3, 3, 2).amax(dim=(-2, -1)), 1
    squares = F.unfold(pixels, side, stride=side).transpose(1, 2)
    made = squares @ embed.patches.weight.flatten(1).T + embed.patches.bias
    before = [token for token in (embed.class_token, embed.distillation_token) if token is not None]
    return torch.cat([*(token.expand(len(made), -1, -1) for token in before), made], dim=1)


EQUATIONS = {**HEAD, **INPUT, **BLOCK, "x_n = W patch_n + b": patches, "x_n = W stem(image)_n + b": patches}


def pass_of(name: str) -> tuple[gf.Transformer, dict[str, Tensor], Tensor, gf.record]:
    if name in MODELS:
        model = make(name)
    else:
        torch.manual_seed(0)
        model = gf.Transformer(gf.TransformerConfig(**{"decoder_start_token_id": 0, **MORE[name]})).eval()
    with torch.no_grad():  # random values reveal a forgotten bias or norm
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    inputs = make_example(model.config)
    labels = labels_for(model, inputs)
    labels = labels.float() if model.config.num_classes == 1 else labels
    with torch.no_grad(), gf.record(model, activations=["*"]) as seen:
        model(**inputs, labels=labels)
    return model, inputs, labels, seen


@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_an_equation_gives_the_numbers_of_its_step(name: str) -> None:
    model, inputs, labels, seen = pass_of(name)
    for step, recorded in seen.items():
        equation = step_of(step, model.config).equation
        assert equation in EQUATIONS, f"{step}: {equation!r} has no arithmetic here"
        e = Env(model, seen, inputs, labels, step)
        with torch.no_grad():
            expected = EQUATIONS[equation](e)
        if step.startswith(("start", "end")):
            expected = expected[..., 0 if step.startswith("start") else 1]
        expected = expected.expand_as(recorded) if expected.ndim == recorded.ndim else expected
        visible = recorded.isfinite()
        if step.endswith(".scores") and e.query_keep is not None:  # a padding row has no position
            before = recorded.shape[2] - e.query_keep.shape[1] if model.config.prefix else 0  # of the source
            visible = visible & F.pad(e.query_keep.bool(), (before, 0), value=True)[:, None, :, None]
        torch.testing.assert_close(
            recorded[visible], expected[visible], rtol=1e-4, atol=1e-5, msg=f"{step}: {equation}"
        )
