"""Estimates the work of a call before tokenising: the tokens to read and to generate."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

from glassformer.config import GenerationConfig, GenerationOptions
from glassformer.core.model import Transformer
from glassformer.core.pair import Pair
from glassformer.generation.choose_engine import Work
from glassformer.predict.calls import TEXTS_AT_ONCE
from glassformer.predict.writing import MODEL_DEFAULTS, NEW_TOKENS

BYTES_PER_TOKEN = 4  # bytes of text per token, roughly


def work_of(task: str, model: Transformer | Pair, inputs: Any, options: Mapping[str, Any]) -> Work:
    """Estimates the work of an ability on these inputs."""
    if isinstance(model, Pair):
        return Work(reads=0)  # the engine runs single models
    config = model.config
    if config.series is not None:
        count = len(inputs) if task == "series" and isinstance(inputs, Sized) else 1
        return Work(reads=count * config.series.tokens_per_channel * (config.series.channels or 1))
    told: GenerationOptions = options.get("generation", MODEL_DEFAULTS)
    rows, beams = (
        min(len(inputs), options.get("batch_size", TEXTS_AT_ONCE)),
        told.num_beams or config.generation.num_beams,
    )
    if config.image is not None:
        lengths = [config.image.num_tokens] * len(inputs)
    else:
        question = (options["question"],) if options.get("question") else ()
        lengths = [tokens_in((*question, *((text,) if isinstance(text, str) else text))) for text in inputs]
    if task not in ("translate", "lm", "caption", "ask"):
        return Work(reads=sum(lengths))
    most = [most_new(told, config.generation, length if task == "lm" else 0) for length in lengths]
    if task == "translate":  # about as long as the source
        most = [min(pair) for pair in zip(most, lengths, strict=True)]
    return Work(reads=sum(lengths), writes=beams * sum(most), rows=max(1, beams * rows))


def tokens_in(texts: Sequence[str]) -> int:
    return sum(1 + len(text.encode(errors="replace")) // BYTES_PER_TOKEN for text in texts)


def most_new(told: GenerationOptions, own: GenerationConfig, prompt: int) -> int:
    """The maximum number of new tokens after a prompt: from the call, else from the model, else the default."""
    for settings in (told, own):
        if settings.max_new_tokens is not None:
            return settings.max_new_tokens
        if settings.max_length is not None:
            return max(1, settings.max_length - prompt)
    return NEW_TOKENS
