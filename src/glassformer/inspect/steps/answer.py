"""The steps after the stacks: the head and the loss."""

from glassformer.config import TransformerConfig
from glassformer.core.heads import ClassHead, ForecastHead, Head, LanguageHead, SpanHead, TokenHead
from glassformer.core.model import Transformer
from glassformer.inspect.steps.places import Step


def answer_step(name: str, config: TransformerConfig) -> Step | None:
    if name in ("head.project", "head.norm"):
        english, korean = "A layer of the head before its output layer.", "헤드의 출력층 앞에 있는 층입니다."
        axes = ("B", "D") if config.head in ("class", "pool") else ("B", "T", "E" if config.embed_dim else "D")
        reads = f"{config.pooling}(x)" if config.head in ("class", "pool") else "x"
        equation = f"project = {dense_of(config, reads)}"
        if name == "head.norm":
            equation = f"normed = norm({activated(config, 'project' if has_dense(config) else reads)})"
        return Step(axes, equation, english, korean, Head.transform, "return self.norm(")
    if name == "head.pooled":
        english, korean = "One vector for the whole sequence.", "시퀀스 전체를 나타내는 벡터 하나입니다."
        equation = f"pooled = {transformed(config, f'{config.pooling}(x)')}"
        if config.pooled_dim:
            equation += " W" + (" + b" if config.head_bias else "")
            return Step(("B", "W"), equation, english, korean, ClassHead.forward, "return None, self.out(")
        return Step(("B", "D"), equation, english, korean, ClassHead.forward, "pooled = self.transform(")
    if name == "loss":
        return loss_step(config)
    if name in ("start_logits", "end_logits"):
        english, korean = "A score for every token.", "토큰마다 점수가 하나씩 있습니다."
        equation = f"logits = {transformed(config, 'x')} W + b"
        return Step(("B", "T"), equation, english, korean, SpanHead.forward, "start, end = ")
    return logits_step(config) if name == "logits" else None


def has_dense(config: TransformerConfig) -> bool:
    return config.head_activation is not None or (config.head == "language" and config.embed_dim is not None)


def dense_of(config: TransformerConfig, x: str) -> str:
    return f"{x} W" + (" + b" if config.head_dense_bias else "")


def activated(config: TransformerConfig, x: str) -> str:
    return x if config.head_activation is None else f"{config.head_activation.replace('_', ' ')}({x})"


def transformed(config: TransformerConfig, x: str) -> str:
    """The input of the head's output layer: the name of the recorded step, or a formula if it is not recorded."""
    if config.head in ("class", "pool"):
        x = activated(config, dense_of(config, x)) if has_dense(config) else x
        return f"norm({x})" if config.head_norm else x
    if config.head_norm:
        return "normed"
    return activated(config, "project") if has_dense(config) else x


def loss_step(config: TransformerConfig) -> Step:
    english, korean = "One number: how far the output is from the labels.", "예측과 정답의 차이를 나타내는 수입니다."
    line, equation = "return F.cross_entropy(", "loss = -mean(log softmax(logits)[label])"
    if config.head == "language" and config.encoder is None:
        equation = "loss = -mean(log softmax(logits_t)[label_(t+1)])"
    if config.head == "forecast":
        line, equation = "return F.mse_loss(logits, labels)", "loss = mean((future - label)^2)"
    elif config.head == "class" and config.num_classes == 1:
        line, equation = "return F.mse_loss(logits.sq", "loss = mean((logits - label)^2)"
    return Step((), equation, english, korean, Transformer.loss, line)


def logits_step(config: TransformerConfig) -> Step | None:
    bias = " + b" if config.head_bias else ""
    if config.head == "language":
        english = "A score for every token of the vocabulary; softmax turns the scores into probabilities."
        korean = "어휘의 모든 토큰에 대한 점수입니다. 소프트맥스를 거치면 확률이 됩니다."
        product = f"{transformed(config, 'x')} {'table^T' if config.tie_embeddings else 'W'}{bias}"
        if config.logit_scale != 1:
            product = f"{config.logit_scale:g} ({product})" if bias else f"{config.logit_scale:g} {product}"
        line = "logits = self.out(self.transform(x))"
        if config.logit_cap is not None:
            product, line = f"{config.logit_cap:g} tanh({product} / {config.logit_cap:g})", "return logits if self.cap"
        return Step(("B", "T", "V"), f"logits = {product}", english, korean, LanguageHead.forward, line)
    english = "A score for every class; softmax turns the scores into probabilities."
    korean = "클래스별 점수입니다. 소프트맥스를 거치면 확률이 됩니다."
    if config.head == "token":
        equation = f"logits = {transformed(config, 'x')} W{bias}"
        return Step(("B", "T", "C"), equation, english, korean, TokenHead.forward, "return self.out(")
    if config.head == "class" and config.two_classifiers:
        equation, line = f"logits = (pooled W{bias} + x_1 W' + b') / 2", "logits = (logits + self.second("
        return Step(("B", "C"), equation, english, korean, ClassHead.forward, line)
    if config.head == "class":
        line = "logits = self.out(self.dropout(pooled"
        return Step(("B", "C"), f"logits = pooled W{bias}", english, korean, ClassHead.forward, line)
    if config.head == "forecast" and config.series:
        english, korean = "The predicted values of each channel.", "채널별 예측값입니다."
        if config.series.instance_norm:
            equation, line = "future = (flatten(x) W + b) deviation + mean", "forecast = forecast * deviation + mean"
            return Step(("B", "Z", "C"), equation, english, korean, Transformer.answer, line)
        made = ForecastHead.forward, "return folded.transpose("
        return Step(("B", "Z", "C"), "future = flatten(x) W + b", english, korean, *made)
    return None
