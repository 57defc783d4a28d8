"""One call of `generate`, settled: what the call says, else what the model likes, else what Hugging Face assumes.

Everything that can be refused before the model runs is refused here. Read next: `loop.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.config import GenerationConfig, TransformerConfig, as_ids
from glassformer.core.context import as_keep
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation.stop_strings import Decoder, StopStrings
from glassformer.threads import memory_of_machine

DEFAULT_NEW_TOKENS = 20  # as in Hugging Face, where neither the call nor the model says how many
MOST_BEAMS = 1024  # or the size of the vocabulary, if that is more
SAMPLING_ONLY = ("temperature", "top_k", "top_p", "min_p")
BEAMS_ONLY = ("length_penalty", "early_stopping")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a call, and the lengths and ids that follow from them."""

    settings: GenerationConfig
    eos: Tensor  # (E); none: nothing ends before max_length
    pad: int
    prompt_length: int  # of the decoder
    max_length: int
    min_length: int
    bad_tokens: Tensor  # words of one token
    bad_words: tuple[Tensor, ...]  # longer ones
    suppressed: Tensor
    stops: StopStrings | None

    @property
    def may_end_early(self) -> bool:
        return len(self.eos) > 0 or self.stops is not None

    def ends(self, texts: Tensor) -> Tensor:
        """Whether each text (..., T) ends with its last token."""
        ended = torch.isin(texts[..., -1], self.eos) | (texts.shape[-1] >= self.max_length)  # (...)
        if self.stops is None:
            return ended
        return ended | self.stops.met(texts.flatten(0, -2), self.prompt_length).view_as(ended)


@dataclass(frozen=True, kw_only=True)
class Call:
    """What one call of `generate` gives the model to read, checked, and its plan."""

    input_ids: Tensor  # (B, S), the source, or the prompt
    attention_mask: Tensor | None  # (B, S)
    prompt: Tensor  # (B, T), what the decoder reads first
    history: Tensor  # (B, T), the prompt as the filters count it: padding stands before it, as an id that no token has
    plan: Plan
    generator: torch.Generator | None


def make_call(
    model: Transformer,
    input_ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    pad_token_id: int | None = None,
    decoder_start_token_id: int | None = None,
    tokenizer: Decoder | None = None,
    generator: torch.Generator | None = None,
    **choices: Any,
) -> Call:
    """The keywords of `generate`, which says what they mean."""
    config = model.config
    settings = settled(config, choices)
    if input_ids.ndim != 2 or not input_ids.numel():
        raise InputError(f"input_ids have shape {tuple(input_ids.shape)}: expected (batch, length)")
    if model.decoder is None:
        raise InputError("only a model with a decoder generates; this one is an encoder alone")
    if settings.stop_strings and tokenizer is None:
        raise InputError(
            f"stop_strings is {settings.stop_strings!r}, and finding them needs the model's tokenizer. Give it with "
            f"tokenizer=gf.load_tokenizer(...), or set stop_strings=()"
        )
    if model.encoder is not None:
        prompt = start_of_target(config, input_ids, decoder_input_ids, decoder_start_token_id)  # (B, T)
        keep = None
    else:
        model.refuse({"decoder_input_ids": decoder_input_ids, "decoder_start_token_id": decoder_start_token_id})
        prompt, keep = input_ids, as_keep(attention_mask, tuple(input_ids.shape), "attention_mask")
    history = prompt if keep is None else without_padding(prompt, keep, config.output_vocab_size)
    tokens = prompt.shape[1] if keep is None else int(keep.sum(dim=1).max())
    check_room(config.last_stack.room, tokens, 1)
    plan = make_plan(config, settings, prompt, eos_token_id, pad_token_id, tokenizer)
    if not plan.may_end_early:
        check_room(config.last_stack.room, tokens, plan.max_length - plan.prompt_length)
    if model.device.type == "cpu":
        check_memory(config, plan, len(prompt), model.dtype.itemsize)
    return Call(
        input_ids=input_ids,
        attention_mask=attention_mask,
        prompt=prompt,
        history=history,
        plan=plan,
        generator=generator,
    )


def check_room(room: int | None, tokens: int, new_tokens: int) -> None:
    """Refuses what a learned table has no positions for. The last token is written and not read: it needs none."""
    if room is None or tokens + new_tokens - 1 <= room:
        return
    if tokens > room:
        raise InputError(
            f"the prompt has {tokens} tokens, and this model has {room} positions. Shorten it to {room} tokens or fewer"
        )
    raise InputError(
        f"a prompt of {tokens} tokens and {new_tokens} new ones do not fit the {room} positions of this model. Set "
        f"max_new_tokens={room - tokens + 1} or less, or shorten the prompt"
    )


def check_memory(config: TransformerConfig, plan: Plan, rows: int, itemsize: int) -> None:
    """Refuses more texts at a time, or longer ones, than this machine can hold: their logits, keys and values."""
    there, stack, settings = memory_of_machine(), config.last_stack, plan.settings
    name = "num_beams" if settings.num_beams > 1 else "num_return_sequences"
    copies = getattr(settings, name)

    def needed(length: int) -> int:
        lengths = (length if kind.window is None else min(kind.window, length) for kind in stack.every_kind)
        cached = 2 * stack.num_kv_heads * stack.head_dim * itemsize * sum(lengths)
        return rows * copies * (cached + 4 * config.output_vocab_size)

    said = f"for {rows:,} input{'s' if rows > 1 else ''}, and this machine has {(there or 0) / 1e9:,.0f} GB"
    if there is not None and copies > 1 and needed(plan.prompt_length) > there:
        raise InputError(
            f"{name} is {copies:,}: so many texts at a time take {needed(plan.prompt_length) / 1e9:,.0f} GB {said}. "
            f"Set {name} lower"
        )
    room = stack.room or plan.max_length  # beyond its positions it cannot write
    if there is not None and needed(min(plan.max_length, room)) > there:
        raise InputError(
            f"max_length is {plan.max_length:,}: the keys and values of so many tokens take "
            f"{needed(min(plan.max_length, room)) / 1e9:,.0f} GB {said}. Set max_new_tokens, with --max-new-tokens"
        )


def without_padding(prompt: Tensor, keep: Tensor, vocab_size: int) -> Tensor:
    """The tokens of each row moved to the right end, and before them an id that no token has."""
    if not keep.any(dim=1).all():
        raise InputError("a row of attention_mask keeps no token: expected at least one to go on from")
    order = keep.int().argsort(dim=1, stable=True)  # (B, T)
    return prompt.masked_fill(~keep, vocab_size).gather(1, order)


def settled(config: TransformerConfig, choices: dict[str, Any]) -> GenerationConfig:
    """The model's own settings, with those that the call names in their place; None names nothing."""
    said = {name: value for name, value in choices.items() if value is not None}
    preferred = config.generation.to_dict()
    for end in ("max", "min"):
        length, new_tokens = f"{end}_length", f"{end}_new_tokens"
        if length in said and new_tokens in said:
            raise InputError(
                f"{length} is {said[length]!r} and {new_tokens} is {said[new_tokens]!r}: both say how many tokens to "
                f"make, with the prompt and without. Give one of them"
            )
        if length in said:
            preferred[new_tokens] = None
    for least, most in (("min_length", "max_length"), ("min_new_tokens", "max_new_tokens")):
        if least in said and most in said and said[least] > said[most]:
            raise InputError(f"{least} is {said[least]!r} and {most} is {said[most]!r}: expected no more than that")
    settings = GenerationConfig.from_dict({**preferred, **said})
    neutral = GenerationConfig()
    for names, works, remedy in (
        (SAMPLING_ONLY, settings.do_sample, "do_sample=True"),
        (BEAMS_ONLY, settings.num_beams > 1, "num_beams=2 or more"),
    ):
        for name in names:
            if name in said and not works and said[name] != getattr(neutral, name):
                raise InputError(
                    f"{name} is {said[name]!r}: it works together with {remedy} only. Set that, or leave it"
                )
    return settings


def make_plan(
    config: TransformerConfig,
    settings: GenerationConfig,
    prompt: Tensor,
    eos_token_id: int | Sequence[int] | None,
    pad_token_id: int | None,
    tokenizer: Decoder | None = None,
) -> Plan:
    """Lengths that can be, ids that exist."""
    prompt_length = prompt.shape[1]
    given = tuple(eos_token_id) if isinstance(eos_token_id, Sequence) else as_ids(eos_token_id)
    eos = given or config.eos_token_ids
    pad = next(iter((*as_ids(pad_token_id), *as_ids(config.pad_token_id), *eos)), 0)  # without an end none is needed
    named = {
        "eos_token_id": eos,
        "pad_token_id": (pad,),
        "forced_bos_token_id": as_ids(settings.forced_bos_token_id),
        "forced_eos_token_id": as_ids(settings.forced_eos_token_id),
        "bad_words_ids": sum(settings.bad_words_ids or (), ()),
        "suppress_tokens": settings.suppress_tokens or (),
    }
    for name, ids in named.items():
        check_ids(name, ids, config.output_vocab_size)
    most = max(MOST_BEAMS, config.output_vocab_size)
    if settings.num_beams > most:
        raise InputError(
            f"num_beams is {settings.num_beams}: expected at most {most}. More than a few dozen only take time"
        )
    if settings.num_beams > 1 and config.output_vocab_size < max(2, 1 + len(eos)):
        raise InputError(
            f"num_beams is {settings.num_beams}, and {len(eos)} of the {config.output_vocab_size} tokens end a text: a "
            f"beam search needs at least one that does not, and 2 tokens in all. Set num_beams=1, or fewer end tokens"
        )
    max_length = longest(config, settings, prompt_length)
    if max_length <= prompt_length:
        raise InputError(
            f"max_length is {max_length} and the prompt has {prompt_length} tokens already: raise it, or say "
            f"max_new_tokens, which does not count the prompt"
        )
    min_length = settings.min_length
    if settings.min_new_tokens is not None:
        min_length = prompt_length + settings.min_new_tokens
    words = tuple(torch.tensor(word, device=prompt.device) for word in settings.bad_words_ids or ())
    strings = settings.stop_strings or ()
    strings = (strings,) if isinstance(strings, str) else strings
    # To end is always allowed.
    bad_tokens = [word[0] for word in settings.bad_words_ids or () if len(word) == 1 and word[0] not in eos]
    return Plan(
        settings=settings,
        eos=torch.tensor(eos, dtype=torch.long, device=prompt.device),
        pad=pad,
        prompt_length=prompt_length,
        max_length=max_length,
        min_length=min_length,
        bad_tokens=torch.tensor(bad_tokens, dtype=torch.long, device=prompt.device),
        bad_words=tuple(word for word in words if len(word) > 1),
        suppressed=torch.tensor(settings.suppress_tokens or (), dtype=torch.long, device=prompt.device),
        stops=StopStrings(strings, tokenizer) if strings and tokenizer is not None else None,
    )


def longest(config: TransformerConfig, settings: GenerationConfig, prompt_length: int) -> int:
    """The longest result in tokens, prompt included."""
    if settings.max_new_tokens is not None:
        return prompt_length + settings.max_new_tokens
    if settings.max_length is not None:
        return settings.max_length
    limit = prompt_length + DEFAULT_NEW_TOKENS
    room = config.last_stack.room
    return limit if room is None else min(limit, room)


def check_ids(name: str, ids: tuple[int, ...], vocab_size: int) -> None:
    for value in ids:
        if not isinstance(value, int) or not 0 <= value < vocab_size:
            raise InputError(f"{name} holds {value!r}: expected an id from 0 to {vocab_size - 1}")


def start_of_target(
    config: TransformerConfig, input_ids: Tensor, decoder_input_ids: Tensor | None, start: int | None
) -> Tensor:
    """What the decoder of two stacks reads first: its start token, then the beginning that was given, if one was."""
    for known in (config.decoder_start_token_id, config.bos_token_id):
        start = known if start is None else start
    if start is None:
        raise InputError("the config has no decoder_start_token_id: set the id that a translation begins with")
    check_ids("decoder_start_token_id", (start,), config.output_vocab_size)
    first = input_ids.new_full((len(input_ids), 1), start)  # (B, 1)
    if decoder_input_ids is None:
        return first
    if decoder_input_ids.ndim != 2 or len(decoder_input_ids) != len(input_ids):
        raise InputError(
            f"decoder_input_ids have shape {tuple(decoder_input_ids.shape)}: expected ({len(input_ids)}, length), a "
            f"beginning for each source"
        )
    begins = decoder_input_ids[:, :1] == first  # (B, 1); of no columns where the beginning is empty
    if begins.numel() and begins.all():
        return decoder_input_ids
    if begins.any():
        raise InputError(f"some rows of decoder_input_ids begin with the start token {start}: expected all or none")
    return torch.cat([first, decoder_input_ids], dim=1)  # (B, T)
