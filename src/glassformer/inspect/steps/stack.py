"""The steps of a stack: from the embedding through the branches of each block to the final norm."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from glassformer.config import StackConfig, TransformerConfig
from glassformer.core.attention import Attention, attend, attention_scores, attention_weights
from glassformer.core.block import Block
from glassformer.core.embeddings import Embedding, Memory, PatchEmbedding, SeriesEmbedding, TokenEmbedding
from glassformer.core.feedforward import FeedForward
from glassformer.core.norms import LayerNorm, RMSNorm
from glassformer.core.positions import Learned, Sinusoidal
from glassformer.core.stack import Stack
from glassformer.inspect.steps.places import Step
from glassformer.watch.names import StepName


def stack_step(name: StepName, stack: StackConfig, config: TransformerConfig) -> Step | None:
    inner, site = name.step, name.site
    if site in ("attn", "cross"):
        return attention_step(name.part, site == "cross", stack)
    if site == "ffn":
        return feedforward_step(name.part, stack)
    if inner.endswith("_residual"):
        return residual_step(inner.removesuffix("_residual"), stack, has_norm=stack.first_norm or name.layer != 0)
    if inner.endswith("norm"):
        return norm_step(inner, stack, width="E" if site == "embed" and config.embed_dim else "D")
    return input_step(inner, name.stack, stack, config)


def rows_of_series(config: TransformerConfig) -> str:
    """The first axis of the stack that reads a series: every channel is a row, or several if it is folded."""
    return "B*C*M" if config.series is not None and config.series.fold > 1 else "B*C"


def input_step(inner: str, name: str, stack: StackConfig, config: TransformerConfig) -> Step | None:
    patches = config.patches is not None and name == "encoder"
    if inner == "embed" and config.image and patches:
        axes: tuple[str, ...] = ("B", "T", "D")
        english = "Each patch of the image, flattened and projected. A class token, if any, comes first."
        korean = "이미지의 각 패치를 펼쳐 선형 변환합니다. 클래스 토큰이 있으면 맨 앞에 둡니다."
        patch = "stem(image)_n" if config.image.stem else "patch_n"
        equation = f"x_n = W {patch}" + (" + b" if config.image.patch_bias else "")
        if config.image.stem:
            english = (
                "Each patch of the image after the stem's convolutions, projected. A class token, if any, comes first."
            )
            korean = (
                "이미지를 스템의 합성곱에 통과시킨 뒤 각 패치를 선형 변환합니다. 클래스 토큰이 있으면 맨 앞에 둡니다."
            )
        return Step(axes, equation, english, korean, PatchEmbedding.forward, "return torch.cat(")
    if inner == "embed" and patches:
        english = "Each patch of the series, projected; every channel is a separate row of the batch."
        korean = "시계열의 각 패치를 선형 변환합니다. 채널마다 배치의 한 행이 됩니다."
        if config.series and config.series.fold > 1:
            english = "Each patch of the series, projected; every channel becomes `fold` rows of the batch."
            korean = "시계열의 각 패치를 선형 변환합니다. 채널마다 배치의 행이 `fold`개 생깁니다."
        axes = (rows_of_series(config), "N", "D")
        return Step(axes, "x_n = W patch_n + b", english, korean, SeriesEmbedding.forward, "return self.patches(")
    axes = (
        (rows_of_series(config), "N", "D")
        if config.series and patches
        else ("B", "T", "E" if config.embed_dim else "D")
    )
    if inner == "embed":
        scale = "sqrt(D) " if config.scale_embeddings else ""
        english, korean = "The row of the embedding table for each token.", "임베딩 표에서 각 토큰의 행을 가져옵니다."
        return Step(axes, f"x_t = {scale}table[token_t]", english, korean, TokenEmbedding.forward, "return look_up(")
    if inner == "embed.positions" and stack.positions == "sinusoidal":
        english = "The position of each token, as sines and cosines of decreasing frequency."
        korean = "토큰의 위치를 주파수가 점점 낮아지는 사인과 코사인으로 나타냅니다."
        return Step(axes, sinusoids_of(stack), english, korean, Sinusoidal.forward, "return F.embedding(")
    if inner == "embed.positions":
        english, korean = "The position of each token, as a learned vector.", "위치마다 학습한 벡터입니다."
        row = f"pos + {stack.position_offset}" if stack.position_offset else "pos"
        return Step(axes, f"PE(pos) = table[{row}]", english, korean, Learned.forward, "return F.embedding(")
    if inner == "placed" and name == "decoder" and config.prefix:
        english = "The input of the first block: the source's vectors, then each token with its position."
        korean = "첫 블록의 입력입니다. 인코더의 벡터가 먼저 오고, 위치를 더한 토큰이 뒤따릅니다."
        equation = placed_equation(name, stack, config).removeprefix("x = ")
        line = Stack.prefixed, "x = torch.cat([memory, x]"
        return Step((*axes[:-1], "D"), f"x = [memory; {equation}]", english, korean, *line)
    if inner in ("placed", "embed.project"):
        english = "The input of the first block: token and position in one vector."
        korean = "첫 블록의 입력입니다. 토큰과 위치가 한 벡터에 담겨 있습니다."
        equation = placed_equation(name, stack, config)
        return Step((*axes[:-1], "D"), equation, english, korean, Embedding.place, "return self.project(")
    return None


def memory_step(name: str, config: TransformerConfig) -> Step | None:
    """The steps between the stacks: what happens to the encoder's output before the decoder reads it."""
    if name == "memory.project":
        english = "The encoder's output, projected to the decoder's width."
        korean = "인코더의 출력을 디코더의 너비로 선형 변환합니다."
        return Step(("B", "S", "D"), "memory = x W + b", english, korean, Memory.forward, "return self.norm(")
    if name == "memory.norm" and config.encoder is not None:
        return replace(norm_step("memory", config.encoder, "D"), axes=("B", "S", "D"))
    return None


def sinusoids_of(stack: StackConfig) -> str:
    """The formula of the sinusoidal table, in the stack's layout of columns."""
    row = f"(pos + {stack.position_offset})" if stack.position_offset else "pos"
    if stack.sinusoids == "interleaved":
        return f"PE(pos, 2i) = sin({row} / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same)"
    power = "2i/D" if stack.sinusoids == "halves" else "i/(D/2 - 1)"
    return f"PE(pos, i) = sin({row} / 10000^({power})), PE(pos, D/2 + i) = cos(the same)"


def placed_equation(name: str, stack: StackConfig, config: TransformerConfig) -> str:
    reads_source = name == "encoder" or config.encoder is None
    terms = ["embed", *(["segment"] if config.num_segments and reads_source else [])]
    equation = " + ".join([*terms, *(["PE"] if stack.positions in ("sinusoidal", "learned") else [])])
    if config.patches and name == "encoder":
        return f"x = norm({equation})" if config.image and config.image.embed_norm else f"x = {equation}"
    equation = f"norm({equation})" if config.embed_norm else equation
    if not config.embed_dim:
        return f"x = {equation}"
    return f"x = {equation if config.embed_norm else f'({equation})'} W + b"


def norm_step(inner: str, stack: StackConfig, width: str) -> Step:
    if stack.norm == "layer":
        equation = "y = (x - mean(x)) / sqrt(var(x) + eps) * weight" + (" + bias" if stack.norm_bias else "")
        made: tuple[Callable[..., Any], str] = LayerNorm.forward, "return F.layer_norm("
    elif stack.norm == "rms":
        equation, made = "y = x / sqrt(mean(x^2) + eps) * weight", (RMSNorm.forward, "return (wide * scale).to")
    else:
        equation = "y = x / sqrt(mean(x^2) + eps) * (1 + weight)"
        made = RMSNorm.forward, "return (wide * scale * (1.0"
    english = "Each token's vector, normalised so that it does not grow with depth."
    korean = "토큰마다 벡터를 정규화합니다. 층이 깊어져도 값이 커지지 않습니다."
    if inner == "norm":
        english = "The residual stream, normalised once more after the last block."
        korean = "마지막 블록 뒤에서 잔차 스트림을 한 번 더 정규화합니다."
    return Step(("B", "T", width), equation, english, korean, *made)


def attention_step(part: str, cross: bool, stack: StackConfig) -> Step | None:
    rotates = stack.positions == "rotary" and not cross
    bias = {True: " + b", False: ""}[stack.qkv_bias]
    rows, of = ("B", "H", "T"), "memory" if cross else "x"
    if part in ("q", "k", "v"):
        axes = (*rows, "K") if part == "q" else ("B", "G", "S", "K")
        rotated = ", rotated by its position" if rotates and part != "v" else ""
        product = f"{'x' if part == 'q' else of} W_{part}{bias}"
        equation = f"{part} = {f'norm({product})' if stack.qk_norm and part != 'v' else product}{rotated}"
        return Step(axes, equation, *QKV[part], *line_of_projection(part, cross, rotates))
    if part == "scores":
        usual = abs(stack.attention_scale - stack.head_dim**-0.5) < 1e-9
        product = "q k^T / sqrt(K)" if usual else f"{stack.attention_scale:g} q k^T"
        if stack.score_cap is not None:
            product = f"{stack.score_cap:g} tanh({product} / {stack.score_cap:g})"
        added = {"relative": " + bias[j - i]", "alibi": " - slope |i - j|"}.get(stack.positions, "")
        english = "How well each query matches each key; masked keys get minus infinity."
        korean = "쿼리와 각 키가 얼마나 맞는지 나타냅니다. 마스크로 가린 키는 음의 무한대입니다."
        made = attention_scores, "scores = q @ k.transpose"
        return Step((*rows, "S"), f"scores = {product}{'' if cross else added}", english, korean, *made)
    if part == "":
        english = "The attention weights: the scores after softmax. Each row sums to 1."
        korean = "점수에 소프트맥스를 적용한 어텐션 가중치입니다. 각 행의 합은 1입니다."
        made = attention_weights, "return scores.masked_fill(nothing, 0.0).softmax("
        return Step((*rows, "S"), "weights = softmax(scores)", english, korean, *made)
    if part == "mixed":
        english, korean = "The values, averaged with these weights.", "이 가중치를 곱한 값(v)의 합입니다."
        line = "return F.scaled_dot_product_attention(" if stack.score_cap is None else "return weights @ v"
        return Step((*rows, "K"), "mixed = weights v", english, korean, attend, line)
    if part == "out":
        english = "The outputs of all heads, concatenated and projected."
        korean = "모든 헤드의 출력을 이어 붙여 선형 변환합니다."
        equation = "out = concat(heads) W_o" + (" + b" if stack.out_bias else "")
        return Step(("B", "T", "D"), equation, english, korean, Attention.forward, "return self.out(")
    return None


QKV = {
    "q": ("The query: what each token looks for.", "쿼리: 각 토큰이 찾는 내용입니다."),
    "k": ("The key: what queries are compared with.", "키: 쿼리와 비교하는 내용입니다."),
    "v": ("The value: what each token passes on.", "값: 각 토큰이 전달하는 내용입니다."),
}


def line_of_projection(part: str, cross: bool, rotates: bool) -> tuple[Callable[..., Any], str]:
    if rotates and part != "v":
        return Attention.forward, "q, k = rotate(q"
    if not cross:
        begins = {"q": "q = self.q_norm(", "k": "k = self.k_norm(", "v": "return q, k, split_heads(v"}
        return Attention.queries_keys_and_values, begins[part]
    if part == "q":
        return Attention.forward, "q = self.q_norm("
    return Attention.source_keys, {"k": "k = self.k_norm(", "v": "v = split_heads("}[part]


def residual_step(branch: str, stack: StackConfig, *, has_norm: bool) -> Step:
    english = "The residual stream after this branch is added. It runs through the whole stack."
    korean = "이 브랜치의 출력을 더한 잔차 스트림입니다. 스택 전체를 지나갑니다."
    if stack.norm_order == "post":
        return Step(("B", "T", "D"), f"x = norm(x + {branch}(x))", english, korean, Block.add, "x = norm(x + ")
    reads = "norm(x)" if has_norm or branch != "attn" else "x"
    added = f"{branch}({reads})" + (f" + ffn({reads})" if stack.block == "parallel" else "")
    if stack.block == "parallel_two_norms" and branch == "ffn":
        added = "ffn(norm(x before attn))"
    added = f"norm({added})" if stack.norm_order == "sandwich" else added
    return Step(("B", "T", "D"), f"x = x + {added}", english, korean, Block.add, "x = x + ")


def feedforward_step(part: str, stack: StackConfig) -> Step | None:
    bias = " + b" if stack.ffn_bias else ""
    axes = ("B", "T", "F")
    if part == "up":
        english, korean = "Each token by itself, projected to d_ff.", "토큰마다 따로 d_ff 너비로 넓힙니다."
        return Step(axes, f"up = x W_up{bias}", english, korean, FeedForward.forward, "hidden = self.up(x)")
    line = "hidden = self.activate(hidden) if"
    if part == "gate":
        english, korean = "A second projection, which gates the first.", "게이트: 무엇을 통과시킬지 정합니다."
        return Step(axes, f"gate = x W_gate{bias}", english, korean, FeedForward.forward, line)
    if part == "hidden":
        activation = stack.activation.replace("_", " ")
        equation = f"hidden = {activation}(gate) * up" if stack.gated else f"hidden = {activation}(up)"
        english = "The activation function, the only non-linear step here."
        korean = "활성화 함수입니다. 피드포워드에서 유일한 비선형 단계입니다."
        return Step(axes, equation, english, korean, FeedForward.forward, line)
    if part == "down":
        english = "Projected back to d_model, to be added to the residual stream."
        korean = "다시 d_model 너비로 줄입니다. 결과는 잔차 스트림에 더합니다."
        equation = f"down = hidden W_down{bias}"
        return Step(("B", "T", "D"), equation, english, korean, FeedForward.forward, "return self.down(")
    return None
