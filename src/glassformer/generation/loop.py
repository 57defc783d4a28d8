"""Generation: reads the input once (`prefill`), then repeatedly chooses a token and reads it (`step`).

`plan.py` checks the arguments, `filters.py` changes the logits, `beam.py` searches; this file runs the model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from glassformer.core.cache import Cache
from glassformer.core.heads import LanguageHead
from glassformer.core.model import Transformer
from glassformer.core.pair import Pair
from glassformer.errors import InputError
from glassformer.generation.beam import advance, begin, best_ended, in_source_order
from glassformer.generation.filters import narrowed, penalised
from glassformer.generation.pace import ThreadLimit
from glassformer.generation.plan import GenerationCall, GenerationPlan, make_call


@dataclass(frozen=True)
class Generated:
    """The result of `generate` with `return_log_probs=True`."""

    ids: Tensor  # (B, T), the usual result
    log_probs: Tensor  # (B, L), of the L new tokens; 0 after a row has ended, so that a row sums to log p of its text


@overload
def generate(
    model: Transformer, input_ids: Tensor | None = None, *, return_log_probs: Literal[True], **keywords: Any
) -> Generated: ...
@overload
def generate(
    model: Transformer, input_ids: Tensor | None = None, *, return_log_probs: Literal[False] = False, **keywords: Any
) -> Tensor: ...
def generate(
    model: Transformer, input_ids: Tensor | None = None, *, return_log_probs: bool = False, **keywords: Any
) -> Tensor | Generated:
    """Generates tokens until every row has ended or reached the maximum length. Keywords and result are those of
    Hugging Face.

    Decodes greedily; `do_sample=True` samples, `num_beams` sets the beams of a beam search. The keywords are

        attention_mask          (B, S), 0 or False for padding, on either side; padding is never inferred from ids
        pixel_values            (B, C, height, width), the images; `input_ids` is then the prompt, and without it the
                                decoder begins with its start token
        decoder_input_ids       (B, T), with an encoder: the beginning of the target
        decoder_start_token_id  with an encoder: the first token of the target
        eos_token_id            one or several ids that end a text
        pad_token_id            pads rows that have ended
        tokenizer               finds the `stop_strings`
        generator               random generator for sampling (default: torch's own)
        return_log_probs        return `Generated`: also the model's log p of each new token, before any filter

    and the fields of `GenerationConfig`, such as `max_new_tokens=64`. Defaults come from `model.config.generation`.

    Returns the prompt and its continuation; with an encoder, the target including its start token. With
    `num_return_sequences`, the results of one input are consecutive rows, best first. A row does not depend on the
    other rows of its batch.
    """
    if isinstance(model, Pair):
        raise InputError("a pair compares images with texts and cannot generate. Give gf.generate a single model")
    return run(ModelReader(model), input_ids, return_log_probs=return_log_probs, **keywords)


@torch.no_grad()
def run(
    reader: "ModelReader", input_ids: Tensor | None = None, *, return_log_probs: bool = False, **keywords: Any
) -> Any:
    """`generate` with any reader."""
    call = make_call(reader.model, input_ids, **keywords)
    settings = call.plan.settings
    with evaluating(reader.model), reader.pace:
        written = search(reader, call) if settings.num_beams > 1 else continued(reader, call, return_log_probs)
    prompt = call.prompt.repeat_interleave(settings.num_return_sequences, dim=0)
    ids = torch.cat([prompt, written.ids], dim=1)  # (B, T)
    return Generated(ids, written.log_probs) if return_log_probs else ids


def stream(reader: "ModelReader", input_ids: Tensor | None = None, **keywords: Any) -> Iterator[Tensor]:
    """Yields the new tokens of `generate` as they are chosen: (B) ids per step, the pad id for ended rows.

    You may stop at any time. Between two steps, gradients and dropout are as the caller has set them.
    """
    call = make_call(reader.model, input_ids, **keywords)
    if call.plan.settings.num_beams > 1:
        raise InputError(
            f"num_beams is {call.plan.settings.num_beams}: a beam search has no final tokens before it ends. Set "
            f"num_beams=1 to stream, or call generate"
        )
    return one_at_a_time(reader, steps(reader, call))


def one_at_a_time(reader: "ModelReader", columns: Iterator[tuple[Tensor, Tensor]]) -> Iterator[Tensor]:
    while True:
        with torch.no_grad(), evaluating(reader.model), reader.pace:
            column = next(columns, None)
        if column is None:
            return
        yield column[0]


class ModelReader:
    """A model and the state of one generation. This is the plain path, the reference for all others.

    Call `prefill` once, then `read_on` for every token, with `reorder` in between.
    """

    drops_rows = False  # whether `reorder` removes ended rows if that saves noticeable work

    def __init__(self, model: Transformer) -> None:
        self.model, self.cache, self.pace = model, Cache(), ThreadLimit(model)

    def prefill(self, call: GenerationCall) -> Tensor:
        """Reads the source, if there is one, and the prompt. Returns the logits of the next token."""
        model, prompt, keep = self.model, call.prompt, call.keep
        memory = model.encode(**call.source) if call.source else None  # (B, S, D)
        hidden = model.decode(
            prompt, keep, encoder_last_hidden_state=memory, attention_mask=call.source_mask, cache=self.cache
        )  # (B, T, D)
        last = last_kept(keep, prompt)  # (B)
        return next_logits(model, hidden[torch.arange(len(last), device=last.device), last])

    def read_on(self, history: Tensor) -> Tensor:
        """The logits that follow these texts. Reads only the last token, which is new.

        If the rotary angles of all positions change here (longrope), everything is read again.
        """
        assert self.model.decoder is not None  # `make_call` refuses a model without one
        self.pace.set(len(history))
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
        """Row i becomes a copy of row rows[i]; the number of rows may change.

        `same_source` promises that the number of rows stays the same and each row keeps its source.
        """
        self.cache.reorder(rows, same_source=same_source)


def continued(reader: ModelReader, call: GenerationCall, with_log_probs: bool) -> Generated:
    """The new tokens, with each row continued independently."""
    columns = zip(*steps(reader, call, with_log_probs), strict=True)
    return Generated(*(torch.stack(parts, dim=1) for parts in columns))  # (B, L), (B, L)


def steps(reader: ModelReader, call: GenerationCall, with_log_probs: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
    """Chooses a token for each row, greedily or by sampling, step by step: yields (B) ids and (B) log p.

    The reader's row i is row `rows[i]` of the batch. Log p is 0 unless `with_log_probs`.
    """
    plan, copies = call.plan, call.plan.settings.num_return_sequences
    logits = prefilled(reader, call, copies).float()  # (B, V)
    history = call.history.repeat_interleave(copies, dim=0)  # (B, T)
    batch, rows = len(history), torch.arange(len(history), device=history.device)
    ended = torch.zeros_like(rows, dtype=torch.bool)  # (B)
    while True:
        scores = filtered(logits, history, plan)  # (B, V)
        if plan.settings.do_sample:
            token = draw_tokens(scores.softmax(dim=1), 1, rows, batch, call.generator).squeeze(1)  # (B)
        else:
            token = scores.argmax(dim=1)  # (B)
        token = token.masked_fill(ended, plan.pad)
        log_prob = torch.zeros_like(token, dtype=torch.float)  # (B)
        if with_log_probs:
            log_prob = logits.log_softmax(dim=1).gather(1, token[:, None]).squeeze(1).masked_fill(ended, 0.0)  # (B)
        yield with_dropped_rows(token, rows, batch, plan.pad), with_dropped_rows(log_prob, rows, batch, 0.0)
        history = torch.cat([history, token[:, None]], dim=1)  # (B, T)
        ended = ended | plan.ends(history)
        going = (~ended).nonzero().squeeze(1)
        if not len(going):
            return
        if drops(reader, len(going), len(rows)):
            reader.reorder(going)
            rows, history, ended = rows[going], history[going], ended[going]
        logits = reader.read_on(history).float()


def search(reader: ModelReader, call: GenerationCall) -> Generated:
    """Continues each input with the best texts that `beam.py` finds. Its beams are consecutive rows of the cache."""
    settings, batch = call.plan.settings, len(call.history)
    logits = prefilled(reader, call, settings.num_beams)  # (B N, V)
    beams, sources = begin(call.history, settings.num_beams), torch.arange(batch, device=logits.device)
    found = []  # sources that are done, with their texts
    space = torch.empty_like(logits, dtype=torch.float)  # (B N, V), reused at each step: it is large
    while True:
        log_probs = torch.log_softmax(logits.float(), dim=1, out=space[: len(logits)])  # (B N, V)
        scores = filtered(log_probs, beams.running.ids.flatten(0, 1), call.plan)  # (B N, V)
        draw = partial(draw_tokens, rows=sources, batch=batch, generator=call.generator) if settings.do_sample else None
        shape = beams.sums.shape
        beams, rows = advance(beams, log_probs.unflatten(0, shape), scores.unflatten(0, shape), call.plan, draw)
        is_open = beams.is_open.squeeze(1)  # (B)
        going = is_open.nonzero().squeeze(1)
        fewer = drops(reader, len(going), len(sources))
        if fewer or not len(going):
            found.append((sources[~is_open], best_ended(beams[~is_open], settings.num_return_sequences)))
        if not len(going):
            texts = in_source_order(found, call.plan.pad)
            return Generated(texts.ids.flatten(0, 1), texts.log_probs.flatten(0, 1))  # (B, L), (B, L)
        if fewer:
            beams, sources, rows = beams[going], sources[going], rows.view(shape)[going].flatten()
        reader.reorder(rows, same_source=not fewer)
        logits = reader.read_on(beams.running.ids.flatten(0, 1))  # (B N, V)


def prefilled(reader: ModelReader, call: GenerationCall, copies: int) -> Tensor:
    """Reads each input once for all of its copies, which are consecutive rows. Returns the next logits."""
    reader.pace.set(call.reads(reader.model.config))
    logits = reader.prefill(call)  # (B, V)
    if copies == 1:
        return logits
    rows = torch.arange(len(logits), device=logits.device).repeat_interleave(copies)  # (B copies)
    reader.reorder(rows)
    return logits[rows]  # (B copies, V)


def drops(reader: ModelReader, going: int, held: int) -> bool:
    """Whether dropping ended rows is worth the copy: at most three quarters of the rows are still running."""
    return reader.drops_rows and 4 * going <= 3 * held


def draw_tokens(
    probabilities: Tensor, count: int, rows: Tensor, batch: int, generator: torch.Generator | None
) -> Tensor:
    """Samples without replacement. The remaining rows draw what they would draw in the whole batch."""
    return torch.multinomial(with_dropped_rows(probabilities, rows, batch, 1.0), count, generator=generator)[
        rows
    ]  # (B, K)


def with_dropped_rows(part: Tensor, rows: Tensor, batch: int, fill: float) -> Tensor:
    """A tensor for all rows of the batch, with `fill` in those that were dropped."""
    if len(rows) == batch:
        return part
    return part.new_full((batch, *part.shape[1:]), fill).index_copy(0, rows, part)


def filtered(logits: Tensor, history: Tensor, plan: GenerationPlan) -> Tensor:
    logits = penalised(logits, history, plan)
    if plan.settings.do_sample:
        logits = narrowed(logits, plan)
    return logits.log_softmax(dim=1) if plan.settings.renormalize_logits else logits  # (B, V)


def next_logits(model: Transformer, hidden: Tensor) -> Tensor:
    if not isinstance(model.head, LanguageHead):
        raise InputError(f"only a model with a language head generates; this one's head is {model.config.head!r}")
    return model.head(hidden)  # (B, V)


def last_kept(mask: Tensor | None, input_ids: Tensor) -> Tensor:
    """The index of each row's last token, with padding on either side."""
    if mask is None:
        return torch.full((len(input_ids),), input_ids.shape[1] - 1, device=input_ids.device)
    index = torch.arange(input_ids.shape[1], device=input_ids.device)
    return (mask.bool() * index).argmax(dim=1)  # (B)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode; afterwards its mode is restored."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
