"""Heads turn the vectors of a stack into an answer: the next word, a class, the future of a series.

Read next: `model.py`, which puts one of them at the end.
"""

import torch
from torch import Tensor, nn

from glassformer.config import Pooling, SeriesConfig


class LanguageHead(nn.Module):
    """logits = x W^T + b over the vocabulary; W may be the embedding's own table, and x brought to its width first."""

    def __init__(self, d_model: int, vocab_size: int, *, width: int | None = None, bias: bool = False) -> None:
        super().__init__()
        width = width or d_model
        self.project = nn.Linear(d_model, width) if width != d_model else nn.Identity()
        self.out = nn.Linear(width, vocab_size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.project(x))  # (B, T, V)


class ClassHead(nn.Module):
    """logits = W pool(x) + b: one vector for the whole sequence, then a score for each class."""

    def __init__(self, d_model: int, num_classes: int, *, pooling: Pooling, dropout: float = 0.0) -> None:
        super().__init__()
        self.pooling = pooling
        self.query = nn.Linear(d_model, 1) if pooling == "attention" else None
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(d_model, num_classes)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        pooled = self.pool(x, keep)  # (B, D)
        return self.out(self.dropout(pooled)), pooled  # (B, C), (B, D)

    def pool(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """The first token, the mean, the maximum, or a learned weighting of the tokens that are not padding.

        Where all is padding, the last three give 0.
        """
        keep = x.new_ones(x.shape[:2], dtype=torch.bool) if keep is None else keep  # (B, T)
        if self.pooling == "first":
            first = keep.int().argmax(dim=1)  # (B); with padding on the left, the first token is not at 0
            return x[torch.arange(len(x), device=x.device), first]  # (B, D)
        nothing = ~keep.any(dim=1, keepdim=True)  # (B, 1)
        if self.pooling == "max":
            return x.masked_fill(~keep[:, :, None], -torch.inf).amax(dim=1).masked_fill(nothing, 0.0)  # (B, D)
        if self.query is not None:
            scores = self.query(x).squeeze(2).masked_fill(~keep & ~nothing, -torch.inf)  # (B, T)
            weights = scores.softmax(dim=1).masked_fill(nothing, 0.0)[:, :, None]  # (B, T, 1)
        else:
            weights = (keep / keep.sum(dim=1, keepdim=True).clamp(min=1))[:, :, None].to(x.dtype)  # (B, T, 1)
        return (x * weights).sum(dim=1)  # (B, D)


class ForecastHead(nn.Module):
    """future = W flatten(x) + b: all patches of a channel together say what comes next."""

    def __init__(self, d_model: int, series: SeriesConfig) -> None:
        super().__init__()
        self.out = nn.Linear(series.num_tokens * d_model, series.horizon)

    def forward(self, x: Tensor, channels: int) -> Tensor:
        future = self.out(x.flatten(1))  # (B*C, Z)
        return future.unflatten(0, (-1, channels)).transpose(1, 2)  # (B, Z, C)
