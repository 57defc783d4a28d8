"""Greedy generation: read the input once (`prefill`), then take the likeliest token again and again (`step`)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.core.cache import Cache
from glassformer.core.heads import LanguageHead
from glassformer.core.model import Transformer
from glassformer.errors import InputError


@torch.no_grad()
def generate(
    model: Transformer,
    input_ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    max_new_tokens: int = 64,
    eos_token_id: int | None = None,
    pad_token_id: int | None = None,
) -> Tensor:
    """The likeliest continuation, token by token, until every row has ended or `max_new_tokens` are made.

    Returns the prompt and its continuation; with an encoder, the target from its start token. Rows that ended are
    filled with the pad id. The ids of end and padding are the model's own unless given.
    """
    eos = model.config.eos_token_id if eos_token_id is None else eos_token_id
    pad = model.config.pad_token_id if pad_token_id is None else pad_token_id
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens is {max_new_tokens}: expected at least 1")
    cache = Cache()
    with evaluating(model):
        ids, logits = prefill(model, input_ids, attention_mask, cache)
        ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)  # (B)
        for remaining in reversed(range(max_new_tokens)):
            token = logits.argmax(dim=-1).masked_fill(ended, pad)  # (B)
            ids = torch.cat([ids, token[:, None]], dim=1)
            if eos is not None:
                ended |= token == eos
            if remaining == 0 or ended.all():
                break
            logits = step(model, token, cache)
    return ids


def prefill(model: Transformer, input_ids: Tensor, mask: Tensor | None, cache: Cache) -> tuple[Tensor, Tensor]:
    """Reads the whole input; returns the ids generation begins with, and the logits of the token that follows."""
    if model.decoder is None:
        raise InputError("only a model with a decoder generates; this one is an encoder alone")
    if model.encoder is None:
        hidden = model.decode(input_ids, mask, cache=cache)  # (B, T, D)
        last = last_kept(mask, input_ids)
        return input_ids, next_logits(model, hidden[torch.arange(len(last), device=last.device), last])
    start = model.config.decoder_start_token_id
    if start is None:
        raise InputError("the config has no decoder_start_token_id: set the id that a translation begins with")
    memory = model.encode(input_ids, mask)  # (B, S, D)
    ids = input_ids.new_full((len(input_ids), 1), start)  # (B, 1)
    hidden = model.decode(ids, encoder_last_hidden_state=memory, attention_mask=mask, cache=cache)  # (B, 1, D)
    return ids, next_logits(model, hidden[:, -1])


def step(model: Transformer, token: Tensor, cache: Cache) -> Tensor:
    """The logits that follow one more token per row; everything before it is in the cache."""
    return next_logits(model, model.decode(token[:, None], cache=cache)[:, -1])  # (B, V)


def next_logits(model: Transformer, hidden: Tensor) -> Tensor:
    if not isinstance(model.head, LanguageHead):
        raise InputError(f"only a model with a language head generates; this one's head is {model.config.head!r}")
    return model.head(hidden)  # (B, V)


def last_kept(mask: Tensor | None, input_ids: Tensor) -> Tensor:
    """Where each row's last token stands, with padding on either side."""
    if mask is None:
        return torch.full((len(input_ids),), input_ids.shape[1] - 1, device=input_ids.device)
    index = torch.arange(input_ids.shape[1], device=input_ids.device)
    return (mask.bool() * index).argmax(dim=1)  # (B)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switches dropout off, and back to what it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
