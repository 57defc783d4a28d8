"""Resolves the arguments of `generate`: those of the call, else the model's defaults, else Hugging Face's.

All checks that are possible before the model runs are here. Read next: `loop.py`.
"""

from collections.abc import Mapping, Sequence
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

DEFAULT_NEW_TOKENS = 20  # as in Hugging Face, if neither the call nor the model sets a length
MAX_BEAMS = 1024  # or the size of the vocabulary, if larger
SAMPLING_ONLY = ("temperature", "top_k", "top_p", "min_p")
BEAMS_ONLY = ("length_penalty", "early_stopping")


@dataclass(frozen=True, kw_only=True)
class GenerationPlan:
    """The settings of a call, with the lengths and ids derived from them."""

    settings: GenerationConfig
    eos: Tensor  # (E); if empty, nothing ends before max_length
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
class GenerationCall:
    """The checked model inputs of one call of `generate`, and its plan."""

    source: Mapping[str, Tensor]  # the arguments of `encode`; empty without an encoder
    prompt: Tensor  # (B, T), what the decoder reads first
    keep: Tensor | None  # (B, T), False for padding in the prompt
    history: Tensor  # (B, T), the prompt for the filters: padding comes first, as an id outside the vocabulary
    plan: GenerationPlan
    generator: torch.Generator | None

    @property
    def source_mask(self) -> Tensor | None:
        return self.source.get("attention_mask")

    def reads(self, config: TransformerConfig) -> int:
        """The number of tokens and patches read before the first token is generated."""
        if config.image is not None:
            return len(self.prompt) * (config.image.num_tokens + self.prompt.shape[1])
        return self.source.get("input_ids", self.prompt).numel()


def make_call(
    model: Transformer,
    input_ids: Tensor | None = None,
    *,
    pixel_values: Tensor | None = None,
    attention_mask: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    pad_token_id: int | None = None,
    decoder_start_token_id: int | None = None,
    tokenizer: Decoder | None = None,
    generator: torch.Generator | None = None,
    **choices: Any,
) -> GenerationCall:
    """Checks the keywords of `generate` (see there)."""
    config = model.config
    settings = resolve_options(config, choices)
    if model.decoder is None:
        raise InputError("only a model with a decoder generates; this one is an encoder alone")
    if config.image is None and pixel_values is not None:
        raise InputError("pixel_values were given to a model that reads text: give input_ids")
    if config.image is not None and pixel_values is None:
        raise InputError("this model writes about an image: give it as pixel_values")
    if pixel_values is not None and pixel_values.ndim != 4:
        raise InputError(
            f"pixel_values have shape {tuple(pixel_values.shape)}: expected (batch, channels, height, width)"
        )
    if input_ids is None and pixel_values is None:
        raise InputError("no prompt given. Pass input_ids")
    if input_ids is not None and (input_ids.ndim != 2 or not input_ids.numel()):
        raise InputError(f"input_ids have shape {tuple(input_ids.shape)}: expected (batch, length)")
    if settings.stop_strings and tokenizer is None:
        raise InputError(
            f"stop_strings is {settings.stop_strings!r}: finding them needs the model's tokenizer. Give it with "
            f"tokenizer=gf.load_tokenizer(...), or set stop_strings=()"
        )
    source: dict[str, Tensor] = {}
    if pixel_values is not None:
        prompt, keep = prompt_for_image(
            config, pixel_values, input_ids, attention_mask, decoder_input_ids, decoder_start_token_id
        )  # (B, T), (B, T)
        source = {"pixel_values": pixel_values}
    elif model.encoder is not None:
        assert input_ids is not None
        prompt, keep = start_of_target(
            config, len(input_ids), input_ids.device, decoder_input_ids, decoder_start_token_id
        )  # (B, T), None
        source = {"input_ids": input_ids}
        if attention_mask is not None:
            source["attention_mask"] = attention_mask
    else:
        assert input_ids is not None
        model.refuse({"decoder_input_ids": decoder_input_ids, "decoder_start_token_id": decoder_start_token_id})
        prompt, keep = input_ids, as_keep(attention_mask, tuple(input_ids.shape), "attention_mask")
    history = prompt if keep is None else without_padding(prompt, keep, config.output_vocab_size)
    tokens = prompt.shape[1] if keep is None else int(keep.sum(dim=1).max())
    check_room(config.last_stack.room, tokens, 1)
    plan = make_plan(config, settings, prompt, eos_token_id, pad_token_id, tokenizer)
    if not plan.may_end_early:
        check_room(config.last_stack.room, tokens, plan.max_length - plan.prompt_length)
    if model.device.type == "cpu":
        check_generation_memory(config, plan, len(prompt), model.dtype.itemsize)
    return GenerationCall(source=source, prompt=prompt, keep=keep, history=history, plan=plan, generator=generator)


def check_room(room: int | None, tokens: int, new_tokens: int) -> None:
    """Refuses texts longer than the learned positions. The last token needs none, because it is not read."""
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


def check_generation_memory(config: TransformerConfig, plan: GenerationPlan, rows: int, itemsize: int) -> None:
    """Refuses texts whose logits, keys and values would not fit into this machine's memory."""
    there, stack, settings = memory_of_machine(), config.last_stack, plan.settings
    name = "num_beams" if settings.num_beams > 1 else "num_return_sequences"
    copies = getattr(settings, name)

    def needed(length: int) -> int:
        length += config.image.num_tokens if config.image and config.prefix else 0  # they have keys and values too
        lengths = (length if kind.window is None else min(kind.window, length) for kind in stack.every_kind)
        cached = 2 * stack.num_kv_heads * stack.head_dim * itemsize * sum(lengths)
        return rows * copies * (cached + 4 * config.output_vocab_size)

    said = f"for {rows:,} input{'s' if rows > 1 else ''}, and this machine has {(there or 0) / 1e9:,.0f} GB"
    if there is not None and copies > 1 and needed(plan.prompt_length) > there:
        raise InputError(
            f"{name} is {copies:,}: this needs {needed(plan.prompt_length) / 1e9:,.0f} GB {said}. Set {name} lower"
        )
    room = stack.room or plan.max_length  # it cannot generate beyond its positions
    if there is not None and needed(min(plan.max_length, room)) > there:
        raise InputError(
            f"max_length is {plan.max_length:,}: its keys and values need "
            f"{needed(min(plan.max_length, room)) / 1e9:,.0f} GB {said}. Set max_new_tokens (--max-new-tokens)"
        )


def without_padding(prompt: Tensor, keep: Tensor, vocab_size: int) -> Tensor:
    """Moves the tokens of each row to the right end; padding before them becomes an id outside the vocabulary."""
    if not keep.any(dim=1).all():
        raise InputError("a row of attention_mask masks every token: expected at least one token to continue from")
    order = keep.int().argsort(dim=1, stable=True)  # (B, T)
    return prompt.masked_fill(~keep, vocab_size).gather(1, order)


def resolve_options(config: TransformerConfig, choices: dict[str, Any]) -> GenerationConfig:
    """The model's settings, overridden by those of the call that are not None."""
    said = {name: value for name, value in choices.items() if value is not None}
    preferred = config.generation.to_dict()
    for end in ("max", "min"):
        length, new_tokens = f"{end}_length", f"{end}_new_tokens"
        if length in said and new_tokens in said:
            raise InputError(
                f"{length} is {said[length]!r} and {new_tokens} is {said[new_tokens]!r}: both limit the length, with "
                f"the prompt and without. Give one of them"
            )
        if length in said:
            preferred[new_tokens] = None
    for least, most in (("min_length", "max_length"), ("min_new_tokens", "max_new_tokens")):
        if least in said and most in said and said[least] > said[most]:
            raise InputError(f"{least} is {said[least]!r} and {most} is {said[most]!r}: expected {least} <= {most}")
    settings = GenerationConfig.from_dict({**preferred, **said})
    neutral = GenerationConfig()
    for names, works, remedy in (
        (SAMPLING_ONLY, settings.do_sample, "do_sample=True"),
        (BEAMS_ONLY, settings.num_beams > 1, "num_beams=2 or more"),
    ):
        for name in names:
            if name in said and not works and said[name] != getattr(neutral, name):
                raise InputError(f"{name} is {said[name]!r}: it only works with {remedy}. Set that, or leave it out")
    return settings


def make_plan(
    config: TransformerConfig,
    settings: GenerationConfig,
    prompt: Tensor,
    eos_token_id: int | Sequence[int] | None,
    pad_token_id: int | None,
    tokenizer: Decoder | None = None,
) -> GenerationPlan:
    """Checks lengths and ids, and makes the plan."""
    prompt_length = prompt.shape[1]
    given = tuple(eos_token_id) if isinstance(eos_token_id, Sequence) else as_ids(eos_token_id)
    eos = given or config.eos_token_ids
    pad = next(iter((*as_ids(pad_token_id), *as_ids(config.pad_token_id), *eos)), 0)  # 0: never used without eos
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
    most = max(MAX_BEAMS, config.output_vocab_size)
    if settings.num_beams > most:
        raise InputError(
            f"num_beams is {settings.num_beams}: expected at most {most}. More than a few dozen only cost time"
        )
    if settings.num_beams > 1 and config.output_vocab_size < max(2, 1 + len(eos)):
        raise InputError(
            f"num_beams is {settings.num_beams}, and {len(eos)} of the {config.output_vocab_size} tokens end a text: a "
            f"beam search needs 2 tokens or more, and at least one that does not. Set num_beams=1, or fewer end tokens"
        )
    max_length = longest(config, settings, prompt_length)
    if max_length <= prompt_length:
        raise InputError(
            f"max_length is {max_length}, and the prompt already has {prompt_length} tokens. Raise it, or set "
            f"max_new_tokens, which does not count the prompt"
        )
    min_length = settings.min_length
    if settings.min_new_tokens is not None:
        min_length = prompt_length + settings.min_new_tokens
    words = tuple(torch.tensor(word, device=prompt.device) for word in settings.bad_words_ids or ())
    strings = settings.stop_strings or ()
    strings = (strings,) if isinstance(strings, str) else strings
    # End tokens are never banned as bad words.
    bad_tokens = [word[0] for word in settings.bad_words_ids or () if len(word) == 1 and word[0] not in eos]
    return GenerationPlan(
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


def prompt_for_image(
    config: TransformerConfig,
    pixel_values: Tensor,
    input_ids: Tensor | None,
    attention_mask: Tensor | None,
    decoder_input_ids: Tensor | None,
    start: int | None,
) -> tuple[Tensor, Tensor | None]:
    """The prompt for an image, and its mask, False for padding.

    If the model has a start token for targets, it is added to a prompt that does not begin with it. Padding may then
    follow the start token: it is masked.
    """
    if input_ids is not None and decoder_input_ids is not None:
        raise InputError("input_ids and decoder_input_ids were given: with an image, both are the prompt. Give one")
    given = decoder_input_ids if input_ids is None else input_ids
    if given is None and attention_mask is not None:
        raise InputError("attention_mask was given without input_ids: it says which tokens of a prompt are padding")
    keep = None if given is None else as_keep(attention_mask, tuple(given.shape), "attention_mask")
    if given is not None and start is None and config.decoder_start_token_id is None:
        check_prompt_shape("input_ids", given, len(pixel_values))
        return given, keep
    return start_of_target(config, len(pixel_values), pixel_values.device, given, start, keep)


def start_of_target(
    config: TransformerConfig,
    batch: int,
    device: torch.device,
    given: Tensor | None,
    start: int | None,
    keep: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The beginning of a target: the start token, then the given tokens, if any."""
    for known in (config.decoder_start_token_id, config.bos_token_id):
        start = known if start is None else start
    if start is None:
        raise InputError("the config has no decoder_start_token_id: set the id of the first token of a target")
    check_ids("decoder_start_token_id", (start,), config.output_vocab_size)
    first = torch.full((batch, 1), start, device=device)  # (B, 1)
    if given is None:
        return first, None
    name = "input_ids" if config.image else "decoder_input_ids"
    check_prompt_shape(name, given, batch)
    begins = given[:, :1] == first  # (B, 1); (B, 0) if the beginning is empty
    if keep is not None and keep.shape[1]:
        begins = given.gather(1, keep.int().argmax(dim=1, keepdim=True)) == first  # (B, 1)
    if begins.numel() and begins.all():
        return given, keep
    if begins.any():
        raise InputError(f"some rows of {name} begin with the start token {start}: expected all or none")
    kept = None if keep is None else torch.cat([keep.new_ones(batch, 1), keep], dim=1)  # (B, T)
    return torch.cat([first, given], dim=1), kept  # (B, T), (B, T)


def check_prompt_shape(name: str, given: Tensor, batch: int) -> None:
    if given.ndim != 2 or len(given) != batch:
        raise InputError(f"{name} have shape {tuple(given.shape)}: expected ({batch}, length), one row for each source")
