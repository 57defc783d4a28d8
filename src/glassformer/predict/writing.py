"""Generates text: a translation of each text, or its continuation."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from glassformer.config import GenerationOptions
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation import generate
from glassformer.generation.encode import BATCH_TOKENS, map_batches
from glassformer.generation.engine import Engine
from glassformer.predict.calls import NO_LIMIT, TEXTS_AT_ONCE, TokenLimit, arguments_of, check_batch, encode, warn_long
from glassformer.text import Encoded, Tokenizer

NEW_TOKENS = 256  # maximum new tokens if neither the caller nor the model sets a limit
MODEL_DEFAULTS = GenerationOptions()


def translate(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    generation: GenerationOptions = MODEL_DEFAULTS,
    limit: TokenLimit = NO_LIMIT,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int = TEXTS_AT_ONCE,
    longest: Callable[[int], int] | None = None,
    engine: Engine | None = None,
    tell: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """The text that the decoder generates for each text.

    `longest` maps the length of the source to the maximum number of new tokens, if that is below the model's own limit.
    If given, `engine` generates instead of the model. `tell` is called after each batch with its number of texts.
    """
    check_batch(texts)
    languages = {"source_language": source_language, "target_language": target_language}
    begin = language_arguments(model, tokenizer, target_language)
    generator = make_generator(model, generation.seed)
    lengths = [len(row) for row in tokenizer.rows(texts)]
    for number, length in enumerate(lengths, start=1):
        limit.check(length, f"text {number}")
    limit.tell(sum(map(limit.exceeded, lengths)), len(texts))
    cut = limit.tokens if limit.cuts else None

    def run(numbers: Sequence[int]) -> list[str]:
        encoded = encode(tokenizer, [texts[i] for i in numbers], max_length=cut, **languages)
        most = generation.max_new_tokens if longest is None else longest(encoded.input_ids.shape[1])
        options = generation.replace(max_new_tokens=most)
        rows = generate_ids(model, tokenizer, encoded, 1, generator, options, begin, engine)
        tell(len(numbers))
        return tokenizer.decode_batch(rows)

    lengths = [length if cut is None else min(length, cut) for length in lengths]
    return map_batches(lengths, run, batch_tokens, batch_size=batch_size, padding=None)


def language_arguments(model: Transformer, tokenizer: Tokenizer, language: str | None) -> dict[str, int]:
    """The arguments of `generate` that set the target language of a multilingual model.

    Most models generate the language token right after the start token (mBART-50, M2M100, NLLB); in mBART it is the
    start token.
    """
    if tokenizer.settings.get("language_position") is None:
        return {}  # one target language, or the tokenizer puts its token before the source (Marian)
    config = model.config
    start, known = config.decoder_start_token_id, {tokenizer.id_of(token) for token in tokenizer.languages.values()}
    language = language or tokenizer.settings.get("tgt_lang")
    if language is None:
        if config.generation.forced_bos_token_id in known or start in known:
            return {}
        some = ", ".join(list(tokenizer.languages)[:5])
        raise InputError(
            f"this model translates into {len(known)} languages, such as {some}. Choose one with --target-language"
        )
    begins = start is None or start in known
    return {"decoder_start_token_id" if begins else "forced_bos_token_id": tokenizer.language_id(language)}


def complete(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    chat: bool = False,
    generation: GenerationOptions = MODEL_DEFAULTS,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int = TEXTS_AT_ONCE,
    engine: Engine | None = None,
) -> list[str]:
    """The continuation of each text, such that text + answer is the whole. With `chat`, the reply to each message."""
    generator = make_generator(model, generation.seed)
    check_batch(texts)
    if chat:
        prompts = [tokenizer.apply_chat([{"role": "user", "content": text}]) for text in texts]
    else:
        prompts = [with_start_token(tokenizer, text) for text in texts]

    def run(numbers: Sequence[int]) -> list[str]:
        encoded = encode(tokenizer, [prompts[i] for i in numbers], pad_left=True, add_special=not chat)
        length = encoded.input_ids.shape[1]
        rows = generate_ids(model, tokenizer, encoded, length, generator, generation, engine=engine)
        return [continuation(tokenizer, row, length, encoded.attention_mask[i]) for i, row in enumerate(rows)]

    lengths = [len(row) for row in tokenizer.ids_batch(prompts, add_special=not chat)]
    warn_long(model, lengths)
    answers = map_batches(lengths, run, batch_tokens, batch_size=batch_size, padding=None)
    return [answer.strip() for answer in answers] if chat else answers


def with_start_token(tokenizer: Tokenizer, text: str) -> str:
    """The text, or for an empty one the start token, unless the tokenizer adds it itself."""
    if text or tokenizer.ids(text):
        return text
    if "bos_token" not in tokenizer.special:
        raise InputError("the text is empty, and this tokenizer has no start token (bos_token): give at least a word")
    return tokenizer.special["bos_token"]


def continuation(tokenizer: Tokenizer, row: Tensor, length: int, keep: Tensor) -> str:
    """The text after the prompt. Decoded together with it, because many tokenizers drop a leading space."""
    prompt, new = row[:length][keep], row[length:]
    before, whole = tokenizer.decode(prompt), tokenizer.decode(torch.cat([prompt, new]))
    return whole.removeprefix(before) if whole.startswith(before) else tokenizer.decode(new)


def generate_ids(
    model: Transformer,
    tokenizer: Tokenizer,
    encoded: Encoded,
    prompt: int,
    generator: torch.Generator | None,
    options: GenerationOptions,
    begin: Mapping[str, int] | None = None,
    engine: Engine | None = None,
) -> Tensor:
    """The generated ids, for a decoder that starts with `prompt` tokens, in the language that `begin` sets."""
    options = limited_to_model(model, options, prompt)
    inputs = arguments_of(model, encoded)
    keywords = {
        "attention_mask": inputs["attention_mask"],
        "tokenizer": tokenizer,
        "generator": generator,
        **options.given(),
        **(begin or {}),
    }
    if engine is not None:
        return engine.generate(inputs["input_ids"], **keywords).cpu()
    return generate(model, inputs["input_ids"], **keywords).cpu()


def limited_to_model(model: Transformer, options: GenerationOptions, prompt: int) -> GenerationOptions:
    """Options for one answer per input that fits into the model after the prompt. The seed is removed: the generator
    has it."""
    settings, room = model.config.generation, model.config.last_stack.room
    if options.num_return_sequences not in (None, 1):
        raise InputError(
            f"num_return_sequences is {options.num_return_sequences}: a pipeline returns one answer per input. For "
            "several, call gf.generate"
        )
    says = (settings.max_length, settings.max_new_tokens, options.max_length, options.max_new_tokens)
    if all(length is None for length in says):
        most = NEW_TOKENS if room is None else max(1, min(NEW_TOKENS, room - prompt))
        options = options.replace(max_new_tokens=most)
    return options.replace(num_return_sequences=1, seed=None)


def make_generator(model: Transformer, seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator(model.device).manual_seed(seed)
