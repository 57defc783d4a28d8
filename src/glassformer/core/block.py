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
from glassformer.errors import InputError


class Block(nn.Module):
    """x + attn(x), then + cross(x, memory), then + ffn(x); or in parallel: x + attn(x) + ffn(x)."""

    def __init__(self, config: StackConfig, cross: bool = False) -> None:
        super().__init__()
        if cross and config.block == "parallel":
            raise InputError("StackConfig.block is 'parallel': it has no place for cross-attention; use 'serial'")
        self.norm_order, self.is_parallel, self.has_cross = config.norm_order, config.block == "parallel", cross
        self.attn = Attention(config)
        self.attn_norm, self.attn_post_norm = make_norms(config)
        if cross:
            self.cross = Attention(config, cross=True)
            self.cross_norm, self.cross_post_norm = make_norms(config)
        self.ffn = FeedForward(config)
        if not self.is_parallel:
            self.ffn_norm, self.ffn_post_norm = make_norms(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        if self.is_parallel:
            return self.add(
                x, lambda h: self.attn(h, context, layer) + self.ffn(h), self.attn_norm, self.attn_post_norm
            )  # (B, T, D)
        x = self.add(x, lambda h: self.attn(h, context, layer), self.attn_norm, self.attn_post_norm)  # (B, T, D)
        if self.has_cross:
            x = self.add(x, lambda h: self.cross(h, context, layer), self.cross_norm, self.cross_post_norm)  # (B, T, D)
        return self.add(x, self.ffn, self.ffn_norm, self.ffn_post_norm)  # (B, T, D)

    def add(self, x: Tensor, branch: Callable[[Tensor], Tensor], norm: nn.Module, post_norm: nn.Module) -> Tensor:
        """Adds a branch to the stream, with its norm where the order says: the one place that decides it.

        post (Vaswani et al., 2017): after the sum. pre (Xiong et al., 2020): before the branch. sandwich: around it.
        """
        if self.norm_order == "post":
            return norm(x + self.dropout(branch(x)))  # (B, T, D)
        return x + self.dropout(post_norm(branch(norm(x))))  # (B, T, D)


def make_norms(config: StackConfig) -> tuple[nn.Module, nn.Module]:
    """The norm of a branch, and what stands behind the branch: a second norm in sandwich order, else nothing."""
    behind = make_norm(config, config.d_model) if config.norm_order == "sandwich" else nn.Identity()
    return make_norm(config, config.d_model), behind
