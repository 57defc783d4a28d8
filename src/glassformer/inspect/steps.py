"""What every step of a Transformer is: its axes, its equation, a sentence on it, and the line that computes it.

    step = step_of("decoder.blocks.2.cross.q", model.config)
    step.axes, step.equation, step.place      # ("B", "H", "T", "K"), "q = x W_q", core/attention.py:143

The letters are those of `core/__init__.py`. A place is found by the beginning of its statement, so that it moves with
the code; a test runs the model and checks that this very line makes what is recorded under the step's name.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import glassformer
from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.attention import Attention, attend, attention_scores, attention_weights
from glassformer.core.block import Block
from glassformer.core.embeddings import Embedding, PatchEmbedding, SeriesEmbedding, TokenEmbedding
from glassformer.core.feedforward import FeedForward
from glassformer.core.heads import ClassHead, ForecastHead, Head, LanguageHead, SpanHead, TokenHead
from glassformer.core.model import Transformer
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.positions import Learned, Sinusoidal
from glassformer.errors import InputError

LEGEND = {
    "B": ("batch", "배치"),
    "T": ("query length", "질의 길이"),
    "S": ("key length", "키 길이"),
    "D": ("d_model", "모델 너비"),
    "E": ("embedding width", "임베딩 너비"),
    "H": ("heads", "헤드"),
    "G": ("kv heads", "키·값 헤드"),
    "K": ("head_dim", "헤드 너비"),
    "F": ("d_ff", "피드포워드 너비"),
    "V": ("vocabulary", "어휘"),
    "N": ("patches", "패치"),
    "L": ("length of the series", "시계열 길이"),
    "C": ("channels, or classes", "채널 또는 클래스"),
    "Z": ("horizon", "예측 구간"),
}


@dataclass(frozen=True)
class Place:
    """A line of the package: its file, counted from src/glassformer, its number, and what stands there."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Step:
    """One step: what its tensor's axes are, how it is computed, what it means, and where."""

    axes: tuple[str, ...]
    equation: str
    english: str
    korean: str
    function: Callable[..., Any]  # in which it is computed
    statement: str  # that computes it, or how that begins

    @cached_property
    def place(self) -> Place:
        return place_of(self.function, self.statement)


@cache
def place_of(function: Callable[..., Any], statement: str) -> Place:
    """Where a statement of a function stands: it begins so on one line, and on no other."""
    lines, first = inspect.getsourcelines(function)
    found = [i for i, line in enumerate(lines) if line.strip().startswith(statement)]
    if len(found) != 1:
        raise LookupError(f"{statement!r} begins {len(found)} lines of {function.__qualname__}: expected one")
    file = Path(inspect.getsourcefile(function) or "").relative_to(Path(glassformer.__file__).parent)
    return Place(file.as_posix(), first + found[0], lines[found[0]].strip())


def step_of(name: str, config: TransformerConfig) -> Step:
    """The step that a name of `record` stands for, as this model computes it."""
    words = name.split(".")
    stack = getattr(config, words[0]) if words[0] in ("encoder", "decoder") else None
    inner = ".".join(words[3:] if words[1:2] == ["blocks"] else words[1:])
    found = answer_step(name, config) if stack is None else stack_step(inner, words[0], stack, config)
    if found is None:
        raise InputError(f"there is no step {name!r}: expected a name as gf.record gives it")
    return found


def key_of(name: str) -> str:
    """decoder.blocks.2.cross.q -> decoder.cross.q: steps of the same key are described alike."""
    words = name.split(".")
    return ".".join([words[0], *words[3:]] if words[1:2] == ["blocks"] else words)


def stack_step(inner: str, name: str, stack: StackConfig, config: TransformerConfig) -> Step | None:
    site, _, part = inner.partition(".")
    if site in ("attn", "cross"):
        return attention_step(part, site == "cross", stack)
    if site == "ffn":
        return feedforward_step(part, stack)
    if inner.endswith("_residual"):
        return residual_step(inner.removesuffix("_residual"), stack)
    if inner.endswith("norm"):
        return norm_step(inner, stack, width="E" if site == "embed" and config.embed_dim else "D")
    return input_step(inner, name, stack, config)


def input_step(inner: str, name: str, stack: StackConfig, config: TransformerConfig) -> Step | None:
    patches = config.patches is not None and name == "encoder"
    if inner == "embed" and config.image and patches:
        axes: tuple[str, ...] = ("B", "T", "D")
        english = "Each square of the image, flattened and projected, behind the class token."
        korean = "이미지의 각 조각을 펴서 사영하고, 그 앞에 클래스 토큰을 둔다."
        return Step(axes, "x_n = W patch_n + b", english, korean, PatchEmbedding.forward, "return torch.cat(")
    if inner == "embed" and patches:
        english = "Each patch of the series, projected; every channel is a row of its own."
        korean = "시계열의 각 조각을 사영한다. 채널마다 한 줄이다."
        axes = ("B*C", "N", "D")
        return Step(axes, "x_n = W patch_n + b", english, korean, SeriesEmbedding.forward, "return self.patches(")
    axes = ("B*C", "N", "D") if config.series and patches else ("B", "T", "E" if config.embed_dim else "D")
    if inner == "embed":
        scale = "sqrt(D) " if config.scale_embeddings else ""
        english, korean = "Each token looks up its row of a table.", "각 토큰이 표에서 자기 줄을 찾는다."
        return Step(axes, f"x_t = {scale}table[token_t]", english, korean, TokenEmbedding.forward, "return look_up(")
    if inner == "embed.positions" and stack.positions == "sinusoidal":
        english = "Where the token stands, as waves of falling frequency."
        korean = "토큰의 자리를 점점 느려지는 파동으로 나타낸다."
        equation = "PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same)"
        return Step(axes, equation, english, korean, Sinusoidal.forward, "return F.embedding(")
    if inner == "embed.positions":
        english, korean = "Where the token stands: a trained row for each position.", "자리마다 학습된 한 줄."
        return Step(axes, "PE(pos) = table[pos]", english, korean, Learned.forward, "return F.embedding(")
    added = "x = embed + PE" if stack.positions in ("sinusoidal", "learned") else "x = embed"
    if inner in ("placed", "embed.project"):
        english = "What enters the first block: meaning and place in one vector."
        korean = "첫 블록에 들어가는 것. 뜻과 자리가 한 벡터에 있다."
        return Step((*axes[:-1], "D"), added, english, korean, Embedding.place, "return self.project(")
    return None


def norm_step(inner: str, stack: StackConfig, width: str) -> Step:
    if stack.norm == "layer":
        equation = "y = (x - mean(x)) / sqrt(var(x) + eps) * weight" + (" + bias" if stack.norm_bias else "")
        made: tuple[Callable[..., Any], str] = LayerNorm.forward, "return F.layer_norm("
    elif stack.norm == "rms":
        equation, made = "y = x / sqrt(mean(x^2) + eps) * weight", (RMSNorm.forward, "return (wide * scale).to")
    else:
        equation = "y = x / sqrt(mean(x^2) + eps) * (1 + weight)"
        made = RMSNorm.forward, "return (wide * scale * (1.0"
    english = "Each token's vector brought to one size, so that depth does not blow it up."
    korean = "토큰마다 벡터의 크기를 고르게 한다. 깊어져도 커지지 않는다."
    if inner == "norm":
        english, korean = (
            "The stream, normed once more behind the last block.",
            "마지막 블록 뒤에서 한 번 더 정규화한다.",
        )
    return Step(("B", "T", width), equation, english, korean, *made)


def attention_step(part: str, cross: bool, stack: StackConfig) -> Step | None:
    turns = stack.positions == "rotary" and not cross
    bias = {True: " + b", False: ""}[stack.qkv_bias]
    rows, of = ("B", "H", "T"), "memory" if cross else "x"
    if part in ("q", "k", "v"):
        axes = (*rows, "K") if part == "q" else ("B", "G", "S", "K")
        turned = ", turned by its position" if turns and part != "v" else ""
        equation = f"{part} = {'x' if part == 'q' else of} W_{part}{bias}{turned}"
        return Step(axes, equation, *QKV[part], *line_of_projection(part, cross, turns))
    if part == "scores":
        equation = "scores = q k^T / sqrt(K)"
        if abs(stack.attention_scale - stack.head_dim**-0.5) > 1e-9:
            equation = f"scores = {stack.attention_scale:g} q k^T"
        equation = f"cap tanh(({equation.removeprefix('scores = ')}) / cap)" if stack.score_cap else equation
        added = {"relative": " + bias[j - i]", "alibi": " - slope |i - j|"}.get(stack.positions, "")
        english = "How well each query fits each key; where it may not look, minus infinity."
        korean = "질의가 각 키와 얼마나 맞는지. 볼 수 없는 곳은 음의 무한대."
        made = attention_scores, "scores = q @ k.transpose"
        return Step((*rows, "S"), equation + ("" if cross else added), english, korean, *made)
    if part == "":
        english = "The scores as shares: each row sums to 1."
        korean = "점수를 몫으로 바꾼 것. 각 줄의 합은 1이다."
        made = attention_weights, "return scores.masked_fill(nothing, 0.0).softmax("
        return Step((*rows, "S"), "weights = softmax(scores)", english, korean, *made)
    if part == "mixed":
        english, korean = "The values, mixed by these shares.", "그 몫대로 섞은 값들."
        line = "return F.scaled_dot_product_attention(" if stack.score_cap is None else "return weights @ v"
        return Step((*rows, "K"), "mixed = weights v", english, korean, attend, line)
    if part == "out":
        english = "What the heads bring back, side by side, mixed by one more matrix."
        korean = "헤드들이 가져온 것을 나란히 놓고 행렬 하나로 섞는다."
        equation = "out = concat(heads) W_o" + (" + b" if stack.out_bias else "")
        return Step(("B", "T", "D"), equation, english, korean, Attention.forward, "return self.out(")
    return None


QKV = {
    "q": ("What each token asks.", "각 토큰이 묻는 것(질의)."),
    "k": ("What each token answers to.", "각 토큰이 답하는 것(키)."),
    "v": ("What each token gives.", "각 토큰이 내어주는 것(값)."),
}


def line_of_projection(part: str, cross: bool, turns: bool) -> tuple[Callable[..., Any], str]:
    if turns and part != "v":
        return Attention.forward, "q, k = rotate(q"
    if not cross:
        begins = {"q": "q = self.q_norm(", "k": "k = self.k_norm(", "v": "return q, k, split_heads(v"}
        return Attention.queries_keys_and_values, begins[part]
    if part == "q":
        return Attention.forward, "q = self.q_norm("
    return Attention.source_keys, {"k": "k = self.k_norm(", "v": "v = split_heads("}[part]


def residual_step(branch: str, stack: StackConfig) -> Step:
    english = "The stream with what this branch added. It runs through the whole stack."
    korean = "이 가지가 더해진 흐름. 스택 전체를 지나간다."
    added = f"{branch}(x)" + (" + ffn(x)" if stack.block == "parallel" else "")
    if stack.norm_order == "post":
        return Step(("B", "T", "D"), f"x = norm(x + {added})", english, korean, Block.add, "x = norm(x + ")
    equation = f"x = x + {added.replace('(x)', '(norm(x))')}"
    if stack.norm_order == "sandwich":
        equation = f"x = x + norm({branch}(norm(x)))"
    return Step(("B", "T", "D"), equation, english, korean, Block.add, "x = x + ")


def feedforward_step(part: str, stack: StackConfig) -> Step | None:
    bias = " + b" if stack.ffn_bias else ""
    axes = ("B", "T", "F")
    if part == "up":
        english, korean = "Each token by itself, widened.", "토큰마다 따로, 넓힌다."
        return Step(axes, f"up = x W_up{bias}", english, korean, FeedForward.forward, "hidden = self.up(x)")
    line = "hidden = self.activate(hidden) if"
    if part == "gate":
        english, korean = "A second widening, which will decide what passes.", "무엇이 지나갈지 정할 두 번째 넓힘."
        return Step(axes, f"gate = x W_gate{bias}", english, korean, FeedForward.forward, line)
    if part == "hidden":
        bend = stack.activation.replace("_", " ")
        equation = f"hidden = {bend}(gate) * up" if stack.gated else f"hidden = {bend}(up)"
        english, korean = "Bent: the only step here that is not linear.", "굽힌다. 여기서 유일하게 선형이 아닌 단계."
        return Step(axes, equation, english, korean, FeedForward.forward, line)
    if part == "down":
        english, korean = "Narrowed again, to be added to the stream.", "다시 좁혀 흐름에 더한다."
        equation = f"down = hidden W_down{bias}"
        return Step(("B", "T", "D"), equation, english, korean, FeedForward.forward, "return self.down(")
    return None


def answer_step(name: str, config: TransformerConfig) -> Step | None:
    if name in ("head.project", "head.norm"):
        english, korean = "The head's own layer before its last.", "마지막 층 앞에 있는 헤드의 층."
        axes = ("B", "D") if config.head in ("class", "pool") else ("B", "T", "E" if config.embed_dim else "D")
        return Step(axes, "norm(act(x W + b))", english, korean, Head.transform, "return self.norm(")
    if name == "head.pooled":
        english, korean = "One vector for the whole sequence.", "전체를 나타내는 한 벡터."
        equation = f"pooled = {config.pooling}(x)"
        return Step(("B", "D"), equation, english, korean, ClassHead.forward, "pooled = self.transform(")
    if name == "loss":
        numbers = config.head == "forecast" or (config.head == "class" and config.num_classes == 1)
        equation = "loss = mean((logits - labels)^2)" if numbers else "loss = -mean(log softmax(logits)[label])"
        english, korean = "How far the answer is from the labels: one number.", "답이 정답에서 얼마나 먼지, 수 하나."
        line = "return F.cross_entropy("
        if numbers:
            line = "return F.mse_loss(logits, labels)" if config.head == "forecast" else "return F.mse_loss(logits.sq"
        return Step((), equation, english, korean, Transformer.loss, line)
    if name in ("start_logits", "end_logits"):
        english, korean = "A score for every token.", "토큰마다 점수 하나."
        return Step(("B", "T"), "logits = x W + b", english, korean, SpanHead.forward, "start, end = ")
    return logits_step(config) if name == "logits" else None


def logits_step(config: TransformerConfig) -> Step | None:
    if config.head == "language":
        english = "A score for every word of the vocabulary; softmax makes probabilities of them."
        korean = "어휘의 모든 낱말에 대한 점수. softmax를 거치면 확률이 된다."
        table = "table^T" if config.tie_embeddings else "W"
        scale = f"{config.logit_scale:g} " if config.logit_scale != 1 else ""
        line = "logits = self.out(self.transform(x))" if config.logit_cap is None else "return logits if self.cap"
        return Step(("B", "T", "V"), f"logits = {scale}x {table}", english, korean, LanguageHead.forward, line)
    english, korean = (
        "A score for every class; softmax makes probabilities of them.",
        "클래스마다 점수. softmax가 확률로.",
    )
    if config.head == "token":
        return Step(("B", "T", "C"), "logits = x W + b", english, korean, TokenHead.forward, "return self.out(")
    if config.head == "class":
        line = "logits = (logits + self.second(" if config.two_classifiers else "logits = self.out(self.dropout(pooled"
        return Step(("B", "C"), "logits = pooled W + b", english, korean, ClassHead.forward, line)
    if config.head == "forecast" and config.series:
        english = "The values to come, of each channel."
        korean = "채널마다 앞으로 올 값들."
        made: tuple[Callable[..., Any], str] = ForecastHead.forward, "return future.unflatten("
        equation = "future = W flatten(x) + b"
        if config.series.instance_norm:
            made = Transformer.answer, "forecast = forecast * deviation + mean"
            equation += ", at the level of the window"
        return Step(("B", "Z", "C"), equation, english, korean, *made)
    return None
