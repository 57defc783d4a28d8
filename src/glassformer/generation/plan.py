"""One call of `generate`, settled: what the call says, else what the model likes, else what Hugging Face assumes.

Everything that can be refused before the model runs is refused here. Read next: `loop.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.config import GenerationConfig, TransformerConfig, as_ids
from glassformer.errors import InputError

DEFAULT_NEW_TOKENS = 20  # as in Hugging Face, where neither the call nor the model says how many
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
    )


def longest(config: TransformerConfig, settings: GenerationConfig, prompt_length: int) -> int:
    """Of how many tokens a result may be, the prompt included."""
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
