"""Heads map the output of a stack to predictions: the next token, a class, an answer span, a forecast.

Read next: `model.py`, which puts a head on top of the last stack.
"""

import torch
from torch import Tensor, nn

from glassformer.config import SeriesConfig, TransformerConfig
from glassformer.core.feedforward import ACTIVATIONS
from glassformer.core.layers import Linear
from glassformer.core.norms import make_norm


class Head(nn.Module):
    """out(norm(act(project(x)))), where everything before `out` is optional. Base class of the other heads."""

    def __init__(self, config: TransformerConfig, outputs: int | None, *, width: int | None = None) -> None:
        super().__init__()
        stack, activation = config.last_stack, config.head_activation
        has_dense, width = activation is not None or width is not None, width or stack.d_model
        self.project = Linear(stack.d_model, width, bias=config.head_dense_bias) if has_dense else nn.Identity()
        self.activate = nn.Identity() if activation is None else ACTIVATIONS[activation]
        self.norm = make_norm(stack, width) if config.head_norm else nn.Identity()
        self.dropout = nn.Dropout(config.head_dropout)
        self.out = Linear(width, outputs, bias=config.head_bias) if outputs else nn.Identity()

    def transform(self, x: Tensor) -> Tensor:
        return self.norm(self.activate(self.project(x)))


class LanguageHead(Head):
    """logits = scale (x W^T + b) over the vocabulary. W may be tied to the embedding; x is projected to its width."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, config.output_vocab_size, width=config.embed_dim)
        self.scale, self.cap = config.logit_scale, config.logit_cap

    def forward(self, x: Tensor) -> Tensor:
        logits = self.out(self.transform(x))  # (B, T, V)
        if self.scale != 1.0:
            logits = logits * self.scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)  # (B, T, V)


class TokenHead(Head):
    """logits = W x + b: a score for each class at every token."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, config.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.dropout(self.transform(x)))  # (B, T, C)


class SpanHead(Head):
    """(start, end) = W x + b: two scores for every token, that the answer starts here and that it ends here."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        start, end = self.out(self.dropout(self.transform(x))).unbind(dim=-1)  # (B, T), (B, T)
        return start, end


class ClassHead(Head):
    """logits = W pool(x) + b: pools the sequence into one vector, then scores each class.

    Without classes, it returns the pooled vector, which W may project to another width.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, config.num_classes or config.pooled_dim)
        d_model = config.last_stack.d_model
        self.pooling, self.num_classes = config.pooling, config.num_classes
        self.query = Linear(d_model, 1) if config.pooling == "attention" else None
        self.second = Linear(d_model, config.num_classes or 0) if config.two_classifiers else None

    def forward(self, x: Tensor, keep: Tensor | None = None) -> tuple[Tensor | None, Tensor]:
        pooled = self.transform(self.pool(x, keep))  # (B, D)
        if not self.num_classes:
            return None, self.out(pooled)  # None, (B, W)
        logits = self.out(self.dropout(pooled))  # (B, C)
        if self.second is not None:
            logits = (logits + self.second(self.dropout(x[:, 1]))) / 2  # (B, C)
        return logits, pooled  # (B, C), (B, D)

    def pool(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """The first or last kept token, or the mean, maximum or learned weighted mean of the kept tokens.

        For pooling by end token, `keep` marks the end tokens. A row of nothing but padding has mean, maximum and
        weighted mean 0.
        """
        keep = x.new_ones(x.shape[:2], dtype=torch.bool) if keep is None else keep  # (B, T)
        if self.pooling in ("last", "end"):
            last = (keep * torch.arange(x.shape[1], device=x.device)).argmax(dim=1)  # (B)
            return x[torch.arange(len(x), device=x.device), last]  # (B, D)
        if self.pooling in ("first", "first_end", "highest_id"):
            first = keep.int().argmax(dim=1)  # (B); with padding on the left, the first token is not at 0
            return x[torch.arange(len(x), device=x.device), first]  # (B, D)
        empty = ~keep.any(dim=1, keepdim=True)  # (B, 1)
        if self.pooling == "max":
            return x.masked_fill(~keep[:, :, None], -torch.inf).amax(dim=1).masked_fill(empty, 0.0)  # (B, D)
        if self.query is not None:
            scores = self.query(x).squeeze(2).masked_fill(~keep & ~empty, -torch.inf)  # (B, T)
            weights = scores.softmax(dim=1).masked_fill(empty, 0.0)[:, :, None]  # (B, T, 1)
        else:
            weights = (keep / keep.sum(dim=1, keepdim=True).clamp(min=1))[:, :, None].to(x.dtype)  # (B, T, 1)
        return (x * weights).sum(dim=1)  # (B, D)


class ForecastHead(nn.Module):
    """future = W flatten(x) + b, from all patches of a channel together."""

    def __init__(self, d_model: int, series: SeriesConfig, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out, self.fold = Linear(series.num_tokens * d_model, series.horizon // series.fold), series.fold

    def forward(self, x: Tensor, channels: int) -> Tensor:
        future = self.out(self.dropout(x.flatten(1)))  # (B*C*M, Z/M)
        folded = future.unflatten(0, (-1, channels, self.fold))  # (B, C, M, Z/M)
        return folded.transpose(2, 3).flatten(2).transpose(1, 2)  # (B, Z, C)
