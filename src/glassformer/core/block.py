"""A block: attention, cross-attention if it has one, feed-forward; each a branch beside the residual stream.

Where the norms stand is decided in one method, `add`. Read next: `stack.py`.
"""

from collections.abc import Callable

from torch import Tensor, nn

from glassformer.config import StackConfig
from glassformer.core.attention import Attention
from glassformer.core.context import Context
from glassformer.core.feedforward import FeedForward
from glassformer.core.norms import make_norm


class Block(nn.Module):
    """x + attn(x), then + cross(x, memory), then + ffn(x); or in parallel: x + attn(x) + ffn(x)."""

    def __init__(self, config: StackConfig, cross: bool = False) -> None:
        super().__init__()
        self.norm_order = config.norm_order
        self.is_parallel = config.block == "parallel"
        self.attn = Attention(config)
        self.cross = Attention(config, cross=True) if cross else None
        self.ffn = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)
        branches = ["attn"] + ["cross"] * cross + ["ffn"] * (not self.is_parallel)
        for branch in branches:
            self.add_module(f"{branch}_norm", make_norm(config, config.d_model))
            if config.norm_order == "sandwich":
                self.add_module(f"{branch}_post_norm", make_norm(config, config.d_model))

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        if self.is_parallel:
            return self.add(x, "attn", lambda h: self.attn(h, context, layer) + self.ffn(h))
        x = self.add(x, "attn", lambda h: self.attn(h, context, layer))  # (B, T, D)
        if (cross := self.cross) is not None:
            x = self.add(x, "cross", lambda h: cross(h, context, layer))  # (B, T, D)
        return self.add(x, "ffn", self.ffn)  # (B, T, D)

    def add(self, x: Tensor, name: str, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """Adds a branch to the stream, with its norm where the order says: the one place that decides it.

        post (Vaswani et al., 2017): after the sum. pre (Xiong et al., 2020): before the branch. sandwich: around it.
        """
        norm = self.get_submodule(f"{name}_norm")
        if self.norm_order == "post":
            return norm(x + self.dropout(branch(x)))
        y = branch(norm(x))
        if self.norm_order == "sandwich":
            y = self.get_submodule(f"{name}_post_norm")(y)
        return x + self.dropout(y)
