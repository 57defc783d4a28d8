"""Generation: read the input once (`prefill`), then choose a token and read it (`step`), again and again.

`plan.py` settles what a call asks for, `filters.py` changes the logits, `beam.py` searches; this page runs the model.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.cache import Cache
from glassformer.core.context import as_keep
from glassformer.core.heads import LanguageHead
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.beam import advance, begin, best_ended
from glassformer.generation.filters import narrowed, penalised
from glassformer.generation.plan import Plan, make_plan, settled, start_of_target


@torch.no_grad()
def generate(
    model: Transformer,
    input_ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    pad_token_id: int | None = None,
    decoder_start_token_id: int | None = None,
    generator: torch.Generator | None = None,
    **choices: Any,
) -> Tensor:
    """Token by token until every row has ended, or is as long as allowed. Keywords and result as in Hugging Face.

    The likeliest token each time; with `do_sample=True` one that is drawn, by `generator` or torch's own; with
    `num_beams` the best of several texts. `choices` are the fields of `GenerationConfig`, `max_new_tokens=64` among
    them: what is not given is as `model.config.generation` says.

    Returns the prompt and its continuation, with an encoder the target from its start token (or from
    `decoder_input_ids`); rows that ended are filled with the pad id. `num_return_sequences` of one input stand below
    each other, the best first. Prompts may be padded on either side: padding is what `attention_mask` says, never
    guessed, and no penalty counts it. So a row is continued as it would be alone.
    """
    return run(
        Reader(model),
        input_ids,
        attention_mask=attention_mask,
        decoder_input_ids=decoder_input_ids,
        eos_token_id=eos_token_id,
        pad_token_id=pad_token_id,
        decoder_start_token_id=decoder_start_token_id,
        generator=generator,
        **choices,
    )


class Reader:
    """A model, and what it has read of one generation: the plain way, which every other is held against."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.cache = model, Cache()

    def prefill(self, input_ids: Tensor, mask: Tensor | None, prompt: Tensor, plan: Plan) -> Tensor:
        """Reads the source, if there is one, and the prompt; returns the logits of the token that follows."""
        model = self.model
        if model.encoder is None:
            hidden = model.decode(prompt, mask, cache=self.cache)  # (B, T, D)
            last = last_kept(mask, prompt)  # (B)
            return next_logits(model, hidden[torch.arange(len(last), device=last.device), last])
        memory = model.encode(input_ids, mask)  # (B, S, D)
        hidden = model.decode(
            prompt, encoder_last_hidden_state=memory, attention_mask=mask, cache=self.cache
        )  # (B, T, D)
        return next_logits(model, hidden[:, -1])

    def read_on(self, history: Tensor) -> Tensor:
        """The logits that follow these texts, of which only the last token is new.

        Unless from here on the angles of all positions are others (longrope): then everything is read again.
        """
        assert self.model.decoder is not None  # `run` refuses a model without one
        scalings = [kind.rotary_scaling for kind in self.model.decoder.kinds]
        turns = {scaling.trained_len for scaling in scalings if scaling and scaling.type == "longrope"}
        return self.read_again(history) if self.length in turns else self.step(history[:, -1])

    @property
    def length(self) -> int:
        return self.cache.length

    def step(self, token: Tensor) -> Tensor:
        """The logits that follow one more token per row; everything before it is in the cache."""
        return next_logits(self.model, self.model.decode(token[:, None], cache=self.cache)[:, -1])  # (B, V)

    def read_again(self, history: Tensor) -> Tensor:
        self.cache.crop(0)
        keep = history < self.model.config.output_vocab_size  # (B, T)
        hidden = self.model.decode(history.masked_fill(~keep, 0), keep, cache=self.cache)  # (B, T, D)
        return next_logits(self.model, hidden[:, -1])

    def reorder(self, rows: Tensor, *, same_source: bool = False) -> None:
        """Row i becomes what row rows[i] was."""
        self.cache.reorder(rows, same_source=same_source)


@torch.no_grad()
def run(
    reader: Reader,
    input_ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    pad_token_id: int | None = None,
    decoder_start_token_id: int | None = None,
    generator: torch.Generator | None = None,
    **choices: Any,
) -> Tensor:
    """`generate`, whoever reads."""
    model = reader.model
    settings = settled(model.config, choices)
    if input_ids.ndim != 2:
        raise InputError(f"input_ids have shape {tuple(input_ids.shape)}: expected (batch, length)")
    if model.decoder is None:
        raise InputError("only a model with a decoder generates; this one is an encoder alone")
    if model.encoder is not None:
        prompt = start_of_target(model.config, input_ids, decoder_input_ids, decoder_start_token_id)  # (B, T)
    else:
        model.refuse({"decoder_input_ids": decoder_input_ids, "decoder_start_token_id": decoder_start_token_id})
        prompt = input_ids
    plan = make_plan(model.config, settings, prompt, eos_token_id, pad_token_id)
    copies = settings.num_beams if settings.num_beams > 1 else settings.num_return_sequences
    with evaluating(model):
        logits = reader.prefill(input_ids, attention_mask, prompt, plan)  # (B, V)
        history = prompt if model.encoder is not None else without_padding(prompt, attention_mask, logits.shape[1])
        if copies > 1:
            rows = torch.arange(len(prompt), device=prompt.device).repeat_interleave(copies)  # (B copies)
            reader.reorder(rows)
            logits = logits[rows]
        if settings.num_beams > 1:
            written = search(reader, history, logits, plan, generator)
        else:
            written = continued(reader, history.repeat_interleave(copies, dim=0), logits, plan, generator)
    prompt = prompt.repeat_interleave(settings.num_return_sequences, dim=0)
    return torch.cat([prompt, written[:, plan.prompt_length :]], dim=1)


def continued(reader: Reader, history: Tensor, logits: Tensor, plan: Plan, generator: torch.Generator | None) -> Tensor:
    """Each row goes on by itself, with the likeliest token or one that is drawn."""
    ended = torch.zeros(len(history), dtype=torch.bool, device=history.device)  # (B)
    while True:
        logits = filtered(logits.float(), history, plan)  # (B, V)
        if plan.settings.do_sample:
            token = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)  # (B)
        else:
            token = logits.argmax(dim=1)  # (B)
        token = token.masked_fill(ended, plan.pad)
        history = torch.cat([history, token[:, None]], dim=1)  # (B, T)
        ended |= torch.isin(token, plan.eos)
        if history.shape[1] >= plan.max_length or ended.all():
            return history
        logits = reader.read_on(history)


def search(reader: Reader, history: Tensor, logits: Tensor, plan: Plan, generator: torch.Generator | None) -> Tensor:
    """Each input is continued by the best texts that `beam.py` finds. Its beams stand below each other in the cache."""
    beams = begin(history, plan.settings.num_beams)
    while True:
        log_probabilities = filtered(logits.float().log_softmax(dim=1), beams.ids.flatten(0, 1), plan)  # (B N, V)
        log_probabilities = log_probabilities.unflatten(0, beams.sums.shape)  # (B, N, V)
        beams, rows, over = advance(beams, log_probabilities, plan, generator)
        if over:
            return best_ended(beams, plan.settings.num_return_sequences, plan.prompt_length)
        reader.reorder(rows, same_source=True)
        logits = reader.read_on(beams.ids.flatten(0, 1))  # (B N, V)


def filtered(logits: Tensor, history: Tensor, plan: Plan) -> Tensor:
    logits = penalised(logits, history, plan)
    if plan.settings.do_sample:
        logits = narrowed(logits, plan)
    return logits.log_softmax(dim=1) if plan.settings.renormalize_logits else logits  # (B, V)


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


def without_padding(prompt: Tensor, mask: Tensor | None, vocab_size: int) -> Tensor:
    """The tokens of each row moved to the right end, and before them an id that no token has."""
    keep = as_keep(mask, tuple(prompt.shape), "attention_mask")
    if keep is None:
        return prompt
    if not keep.any(dim=1).all():
        raise InputError("a row of attention_mask keeps no token: expected at least one to go on from")
    order = keep.int().argsort(dim=1, stable=True)  # (B, T)
    return prompt.masked_fill(~keep, vocab_size).gather(1, order)


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
