"""Attention (Vaswani et al., 2017, section 3.2): each query is scored against all keys; the scores weight the values.

`attend` is the formula. `Attention` is the layer around it, for both self-attention and cross-attention. With fewer
kv heads than heads it is multi-query (Shazeer, 2019) or grouped-query (Ainslie et al., 2023) attention.
Read next: `block.py`.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.config import StackConfig
from glassformer.core.context import Context, Mask
from glassformer.core.layers import Linear
from glassformer.core.norms import make_norm
from glassformer.core.positions import rotate


def attend(
    q: Tensor,  # (B, H, T, K)
    k: Tensor,  # (B, G, S, K)
    v: Tensor,  # (B, G, S, K)
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """softmax(scale q k^T) v, with PyTorch's fused kernel: without dropout, no (T, S) matrix is stored.

    `mask` broadcasts to (B, H, T, S). It is boolean, True = may attend, or a float that is added to the scores.
    A query with every key masked gets exactly 0. `causal` requires T = S, no mask and no cap.
    `scale` defaults to 1 / sqrt(K). The fused kernel has no `cap`: with one, the formula is computed step by step.
    """
    if cap is None:
        return F.scaled_dot_product_attention(
            q, k, v, mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )  # (B, H, T, K)
    weights = F.dropout(attention_weights(q, k, mask, scale=scale, cap=cap), dropout)  # (B, H, T, S)
    return weights @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)  # (B, H, T, K)


def attention_weights(
    q: Tensor,  # (B, H, T, K)
    k: Tensor,  # (B, G, S, K)
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """softmax(scale q k^T): the weights that the fused kernel of `attend` does not return, for recording them."""
    scores = attention_scores(q, k, mask, scale=scale, cap=cap)  # (B, H, T, S)
    # The softmax of a row of -inf is NaN, in the gradient too: fill such a row before the softmax and again after it.
    nothing = (scores == -torch.inf).all(dim=-1, keepdim=True)  # (B, H, T, 1)
    return scores.masked_fill(nothing, 0.0).softmax(dim=-1).masked_fill(nothing, 0.0)  # (B, H, T, S)


def attention_scores(
    q: Tensor,  # (B, H, T, K)
    k: Tensor,  # (B, G, S, K)
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """scale q k^T, soft-capped to (-cap, cap), plus the mask; -inf where a query may not attend."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # (B, H, S, K)
    scores = q @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)  # (B, H, T, S)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)  # (B, H, T, S)
    if mask is not None and mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -torch.inf)  # (B, H, T, S)
    return scores if mask is None else scores + mask  # (B, H, T, S)


def attend_in_tiles(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    dropout: float = 0.0,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """`attend` with a factored mask, one tile of query rows at a time: memory grows with T + S, not with T x S."""

    def attend_tile(rows: slice, keys: slice, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        causal = mask.is_plain_causal and rows.stop - rows.start == mask.queries and cap is None
        tile = None if causal else mask.tile(rows, keys, q.dtype)
        q, k, v = q[:, :, rows], k[:, :, keys], v[:, :, keys]
        return attend(q, k, v, tile, causal=causal, dropout=dropout, scale=scale, cap=cap)

    # The CPU's fused kernel has no dropout, and no kernel has a cap: with either, the scores of a tile are stored.
    scores_per_row = q.shape[0] * q.shape[1] * k.shape[2]
    tiles = list(mask.tiles(scores_per_row, materialises=dropout > 0 or cap is not None))
    if len(tiles) == 1:
        return attend_tile(*tiles[0], q, k, v)  # (B, H, T, K)
    if not torch.is_grad_enabled():
        return torch.cat([attend_tile(*tile, q, k, v) for tile in tiles], dim=2)  # (B, H, T, K)
    # Recompute each tile in the backward pass instead of keeping its mask and scores.
    return torch.cat([checkpoint(attend_tile, *tile, q, k, v, use_reentrant=False) for tile in tiles], dim=2)


class AttentionInput(NamedTuple):
    """The inputs of one attention step, from which a watcher can compute its weights."""

    attention: "Attention"
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask


class Attention(nn.Module):
    """concat over heads of attend(x W_q, y W_k, y W_v), times W_out; y is x, or the encoder's output (cross)."""

    def __init__(self, config: StackConfig, cross: bool = False, *, memory_width: int | None = None) -> None:
        super().__init__()
        self.is_cross, read_width = cross, memory_width or config.d_model
        self.num_heads, self.num_kv_heads, self.head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        self.q = Linear(config.d_model, config.num_heads * config.head_dim, bias=config.qkv_bias)
        self.k = Linear(read_width, config.num_kv_heads * config.head_dim, bias=config.qkv_bias)
        self.v = Linear(read_width, config.num_kv_heads * config.head_dim, bias=config.qkv_bias)
        self.out = Linear(config.num_heads * config.head_dim, config.d_model, bias=config.out_bias)
        self.q_norm = make_norm(config, config.head_dim) if config.qk_norm else nn.Identity()
        self.k_norm = make_norm(config, config.head_dim) if config.qk_norm else nn.Identity()
        self.scale, self.cap, self.dropout = config.attention_scale, config.score_cap, config.attention_dropout

    def forward(self, x: Tensor, context: Context, layer: int) -> Tensor:
        if self.is_cross:
            q = self.q_norm(split_heads(self.q(x), self.num_heads))  # (B, H, T, K)
            k, v = self.source_keys(context, layer)  # (B, G, S, K), (B, G, S, K)
            mask = context.memory_mask
        else:
            q, k, v = self.queries_keys_and_values(x)
            if (rotation := context.rotation(layer)) is not None:
                q, k = rotate(q, rotation), rotate(k, rotation)
            if context.cache is not None:
                k, v = context.cache.append(layer, k, v)  # (B, G, S, K), (B, G, S, K)
            mask = context.mask(layer)
        context.tell(layer, "cross" if self.is_cross else "attn", AttentionInput(self, q, k, v, mask))
        dropout = self.dropout if self.training else 0.0
        mixed = attend_in_tiles(q, k, v, mask, dropout=dropout, scale=self.scale, cap=self.cap)  # (B, H, T, K)
        return self.out(join_heads(mixed))  # (B, T, D)

    def source_keys(self, context: Context, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder's output; with a cache, computed once per source."""
        known = context.cache.cross(layer) if context.cache is not None else None
        if known is not None:
            return known
        assert context.memory is not None  # Stack.checked raises without one
        k = self.k_norm(split_heads(self.k(context.memory), self.num_kv_heads))  # (B, G, S, K)
        v = split_heads(self.v(context.memory), self.num_kv_heads)  # (B, G, S, K)
        if context.cache is not None:
            context.cache.keep_cross(layer, k, v)
        return k, v  # (B, G, S, K), (B, G, S, K)

    def queries_keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of x for every head (self-attention)."""
        q, k, v = self.products(x)
        q = self.q_norm(split_heads(q, self.num_heads))  # (B, H, T, K)
        k = self.k_norm(split_heads(k, self.num_kv_heads))  # (B, G, T, K)
        return q, k, split_heads(v, self.num_kv_heads)  # (B, H, T, K), (B, G, T, K), (B, G, T, K)

    def products(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q(x), self.k(x), self.v(x)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Splits the last axis into heads and moves them before the length, so that a matmul treats heads as a batch."""
    x = x.unflatten(-1, (num_heads, -1))  # (B, T, ..., K)
    return x.transpose(1, 2)  # (B, ..., T, K)


def join_heads(x: Tensor) -> Tensor:
    """The inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(2)  # (B, T, H*K)
