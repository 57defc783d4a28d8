"""A block: self-attention, optional cross-attention and feed-forward, each a branch added to the residual stream.

One method, `add`, decides where the norms go. Read next: `stack.py`.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from glassformer.config import StackConfig
from glassformer.core.attention import Attention
from glassformer.core.context import Context
from glassformer.core.feedforward import FeedForward
from glassformer.core.norms import make_norm
from glassformer.errors import InputError


class Block(nn.Module):
    """x + attn(x), then + cross(x, memory), then + ffn(x); or in parallel: x + attn(x) + ffn(x)."""

    def __init__(
        self, config: StackConfig, cross: bool = False, *, first: bool = False, memory_width: int | None = None
    ) -> None:
        super().__init__()
        if cross and config.block != "serial":
            raise InputError(f"StackConfig.block is {config.block!r}: cross-attention needs block='serial'")
        self.norm_order, self.kind, self.has_cross = config.norm_order, config.block, cross
        self.attn = Attention(config)
        self.attn_norm, self.attn_post_norm = make_norms(config)
        if first and not config.first_norm:
            self.attn_norm = nn.Identity()
        if cross:
            self.cross = Attention(config, cross=True, memory_width=memory_width)
            self.cross_norm, self.cross_post_norm = make_norms(config)
        self.ffn = FeedForward(config)
        if config.block != "parallel":
            self.ffn_norm, self.ffn_post_norm = make_norms(config)
        self.dropout = nn.Dropout(config.dropout)
        self.drop_path, self.num_layers = config.drop_path, config.num_layers

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        def attend(h: Tensor) -> Tensor:
            return self.attn(h, context, layer)  # (B, T, D)

        if self.kind == "parallel":
            return self.add("attn", x, lambda h: attend(h) + self.ffn(h), context, layer)  # (B, T, D)
        attended = self.add("attn", x, attend, context, layer)  # (B, T, D)
        if self.kind == "parallel_two_norms":
            return self.add("ffn", attended, self.ffn, context, layer, reads=x)  # (B, T, D)
        x = attended
        if self.has_cross:
            x = self.add("cross", x, partial(self.cross, context=context, layer=layer), context, layer)  # (B, T, D)
        return self.add("ffn", x, self.ffn, context, layer)  # (B, T, D)

    def add(
        self,
        name: str,
        x: Tensor,
        branch: Callable[[Tensor], Tensor],
        context: Context,
        layer: int,
        *,
        reads: Tensor | None = None,
    ) -> Tensor:
        """Adds a branch to the residual stream. A parallel branch reads `reads` instead of x.

        post:      norm(x + branch(x))              (Vaswani et al., 2017)
        pre:       x + branch(norm(x))              (Xiong et al., 2020)
        sandwich:  x + post_norm(branch(norm(x)))   (Ding et al., 2021)
        """
        norm, post_norm = getattr(self, f"{name}_norm"), getattr(self, f"{name}_post_norm")
        if self.norm_order == "post":
            x = norm(x + self.drop_branch(self.dropout(branch(x)), layer))  # (B, T, D)
        else:
            h = post_norm(branch(norm(x if reads is None else reads)))  # (B, T, D)
            x = x + self.drop_branch(self.dropout(h), layer)  # (B, T, D)
        context.tell(layer, f"{name}_residual", x)
        return x

    def drop_branch(self, branch: Tensor, layer: int) -> Tensor:
        """Stochastic depth (Huang et al., 2016): drops the branch for random sequences, more often in deeper layers."""
        rate = self.drop_path * layer / max(1, self.num_layers - 1)
        if not self.training or rate == 0:
            return branch
        dropped = torch.rand(len(branch), 1, 1, device=branch.device) < rate  # (B, 1, 1)
        return branch.masked_fill(dropped, 0.0) / (1 - rate)  # (B, T, D)


def make_norms(config: StackConfig) -> tuple[nn.Module, nn.Module]:
    """The norm of a branch, and the norm of its output (identity unless the order is sandwich)."""
    post_norm = make_norm(config, config.d_model) if config.norm_order == "sandwich" else nn.Identity()
    return make_norm(config, config.d_model), post_norm
