"""A stack: an embedding, N blocks and a final norm. Encoder and decoder are both stacks.

The stack builds the `Context` of a call; the module itself keeps no state between calls. Read next: `model.py`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import LayerKind, StackConfig
from glassformer.core.block import Block
from glassformer.core.cache import Cache, count_positions
from glassformer.core.context import Context, Mask, as_document_ids, as_keep, watch_for
from glassformer.core.embeddings import Embedding
from glassformer.core.norms import make_norm
from glassformer.core.positions import Rotary, make_position_bias
from glassformer.errors import InputError


class Stack(nn.Module):
    """norm(block_N(... block_1(embed(input)))).

    causal: a token attends to itself and earlier tokens only. cross: the blocks attend to a memory. prefix: the memory
    is placed before the tokens. Without `embed`, the input is vectors (B, T, D), to which positions are added.
    """

    def __init__(
        self,
        config: StackConfig,
        *,
        causal: bool,
        cross: bool = False,
        prefix: bool = False,
        memory_width: int | None = None,
        embed: Embedding | None = None,
    ) -> None:
        super().__init__()
        self.config, self.causal, self.cross, self.prefix = config, causal, cross, prefix
        self.memory_width = memory_width or config.d_model
        self.embed = Embedding(config, config.d_model) if embed is None else embed
        self.blocks = nn.ModuleList(
            Block(config, cross, first=i == 0, memory_width=memory_width) for i in range(config.num_blocks)
        )
        self.norm = make_norm(config, config.d_model) if config.final_norm else nn.Identity()
        self.position_bias = make_position_bias(config, causal)
        self.kinds = tuple(dict.fromkeys(config.layer_kinds))  # without duplicates, in order
        self.rotaries = nn.ModuleList(Rotary(config, kind) for kind in self.kinds if config.positions == "rotary")

    def forward(
        self,
        inputs: Tensor | None,
        *,
        embeds: Tensor | None = None,
        keep: Tensor | None = None,
        segments: Tensor | None = None,
        positions: Tensor | None = None,
        memory: Tensor | None = None,
        memory_keep: Tensor | None = None,
        documents: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """The hidden states after the final norm. `keep` is True at tokens; with a cache, it includes the past.

        `embeds` replaces the token embeddings; `positions` replaces the counted positions. `documents` numbers the
        documents packed in a row: they do not attend to each other, and positions start at 0 in each. With a prefix,
        the memory's vectors come first in the result of the call that starts a sequence.
        """
        x = self.embed(inputs) if embeds is None else embeds  # (B, T, E)
        if 0 in x.shape[:2]:
            raise InputError(f"the batch is empty, its shape is {tuple(x.shape[:2])}. Give at least one token")
        keep, documents, positions, span = self.counted(x, keep, documents, positions, cache)
        x = self.embed.place(x, positions, span, segments)  # (B, T, D)
        prefix = 0
        if self.prefix:
            x, keep, positions, prefix = self.prefixed(x, keep, positions, memory, memory_keep, cache)
            memory = memory_keep = None
        context = self.context(x, keep, documents, positions, span, memory, memory_keep, cache, prefix)
        return self.through(x, context)

    def through(self, x: Tensor, context: Context) -> Tensor:
        """norm(block_N(... block_1(x)))."""
        for layer in range(self.config.num_layers):
            x = self.block_of(layer)(x, context, layer)  # (B, T, D)
        return self.norm(x)  # (B, T, D)

    def block_of(self, layer: int) -> nn.Module:
        """The block of a layer. Layers share blocks if num_blocks < num_layers."""
        return self.blocks[layer * len(self.blocks) // self.config.num_layers]

    def counted(
        self,
        x: Tensor,
        keep: Tensor | None,
        documents: Tensor | None,
        positions: Tensor | None,
        cache: Cache | None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor, int]:
        """The padding mask of past and new tokens, the documents and positions of the new ones, and the span: an
        exclusive upper bound of the positions.
        """
        batch, length = x.shape[:2]
        past = cache.tokens if cache is not None else 0
        if cache is not None and cache.batch not in (None, batch):
            raise InputError(f"the cache has batch size {cache.batch} and the input {batch}: use one cache per batch")
        keep = as_keep(keep, (batch, past + length), f"the {'decoder' if self.causal else 'encoder'}'s attention_mask")
        if cache is not None:
            keep = cache.kept(keep, batch, length)
        if documents is not None and cache is not None:
            raise InputError("documents do not work with a cache, which continues one document per row: leave one out")
        if documents is not None and self.prefix:
            raise InputError("documents do not work with a prefix: each row has one source. Give one document per row")
        documents = as_document_ids(documents, keep, (batch, length))
        if positions is None and cache is not None:
            return keep, None, *cache.numbered(keep, length, x.device)
        if positions is None:
            positions = count_positions(keep, past, length, x.device, documents)
            return keep, documents, positions, past + length if documents is None else int(positions.max()) + 1
        if tuple(positions.shape) not in ((batch, length), (1, length)):
            raise InputError(f"position_ids have shape {tuple(positions.shape)}: expected {(batch, length)}")
        return keep, documents, positions, int(positions.max()) + 1

    def prefixed(
        self,
        x: Tensor,
        keep: Tensor | None,
        positions: Tensor,
        memory: Tensor | None,
        memory_keep: Tensor | None,
        cache: Cache | None,
    ) -> tuple[Tensor, Tensor | None, Tensor, int]:
        """Places the memory's vectors before the tokens, without numbering them; later calls find them in the cache."""
        past, before = cache.length if cache is not None else 0, None
        if cache is not None and past:
            if memory is not None and memory.shape[1] != cache.prefix:
                raise wrong_source_error(cache.prefix, memory.shape[1])
            size, before = cache.prefix, None if cache.keep is None else cache.keep[:, : cache.prefix]
        else:
            memory = self.checked(memory, x)
            size, before = memory.shape[1], as_keep(memory_keep, tuple(memory.shape[:2]), "the source's attention_mask")
            x = torch.cat([memory, x], dim=1)  # (B, T, D)
            positions = F.pad(positions, (size, 0))  # (B, T)
            if cache is not None:
                cache.prefix = size
        if keep is not None or before is not None:
            all_kept = x.new_ones(len(x), max(size, x.shape[1] - size), dtype=torch.bool)
            before = all_kept[:, :size] if before is None else before
            keep = torch.cat([before, all_kept[:, : x.shape[1] - size] if keep is None else keep], dim=1)  # (B, S)
        return x, keep, positions, size

    def checked(self, memory: Tensor | None, x: Tensor) -> Tensor:
        """The memory, if its width fits the stack and its batch fits x."""
        if memory is None:
            raise InputError("this decoder needs a memory: pass the encoder's output as encoder_last_hidden_state")
        if memory.ndim != 3 or memory.shape[2] != self.memory_width:
            raise InputError(
                f"the memory has shape {tuple(memory.shape)}: expected (batch, length, {self.memory_width})"
            )
        if memory.shape[0] != x.shape[0]:
            raise InputError(f"the memory has batch size {len(memory)} and the input {len(x)}: expected the same")
        return memory

    def context(
        self,
        x: Tensor,
        keep: Tensor | None,
        documents: Tensor | None,
        positions: Tensor,
        span: int,
        memory: Tensor | None,
        memory_keep: Tensor | None,
        cache: Cache | None,
        prefix: int = 0,
    ) -> Context:
        """The state of this call, computed once for all layers."""
        memory_mask = self.memory_mask(x, memory, memory_keep, cache)
        if cache is not None:  # after all checks, so that a refused call does not change the cache
            cache.extend(keep, positions)

        def mask(kind: LayerKind) -> Mask:
            kept, keys, window = (keep, positions, kind.window) if cache is None else cache.visible(kind)
            bias = self.position_bias
            return Mask(x.shape[1], keys.shape[1], kept, self.causal, window, bias, keys, positions, documents, prefix)

        return Context(
            kinds=self.config.layer_kinds,
            masks={kind: mask(kind) for kind in self.kinds},
            rotations={kind: rotary(positions, span) for kind, rotary in zip(self.kinds, self.rotaries, strict=False)},
            memory=memory,
            memory_mask=memory_mask,
            cache=cache,
            watch=watch_for(self),
        )

    def memory_mask(self, x: Tensor, memory: Tensor | None, memory_keep: Tensor | None, cache: Cache | None) -> Mask:
        """The mask of the source's tokens. A cache that holds their keys holds the mask too."""
        known = cache.cross(0) if cache is not None else None
        if not self.cross and memory is None:
            return Mask(0, 0)
        source = self.checked(memory, x) if known is None else known[0][:, 0]  # (B, S, ...)
        if memory is not None and memory.shape[1] != source.shape[1]:
            raise wrong_source_error(source.shape[1], memory.shape[1])
        if source.shape[0] != x.shape[0]:
            raise InputError(f"the memory has batch size {len(source)} and the input {len(x)}: expected the same")
        keys = source.shape[1]
        keep = as_keep(memory_keep, (x.shape[0], keys), "the source's attention_mask")
        if cache is not None:
            keep = cache.memory_keep = cache.memory_keep if keep is None else keep
        return Mask(x.shape[1], keys, keep)


def wrong_source_error(known: int, given: int) -> InputError:
    return InputError(f"the cache holds a source of length {known}, not {given}: make a new Cache() for each source")
