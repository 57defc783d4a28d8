"""Reads and writes `generation_config.json`: the generation settings of a model and its special tokens."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from glassformer.checkpoints.layout import Layout
from glassformer.config import GenerationConfig, TransformerConfig
from glassformer.errors import InputError
from glassformer.families.keys import TOKEN_ID_KEYS, token_ids
from glassformer.schema import shown

# Settings that are not supported here, with the values that have no effect.
UNKNOWN_GENERATION: dict[str, tuple[Any, ...]] = {
    "typical_p": (1.0,), "epsilon_cutoff": (0.0,), "eta_cutoff": (0.0,), "top_h": (), "num_beam_groups": (1,),
    "diversity_penalty": (0.0,), "penalty_alpha": (0.0,), "encoder_repetition_penalty": (1.0,),
    "encoder_no_repeat_ngram_size": (0,), "begin_suppress_tokens": ([],), "exponential_decay_length_penalty": (),
    "sequence_bias": (), "guidance_scale": (1.0,), "watermarking_config": (), "dola_layers": (),
    "force_words_ids": (), "constraints": (),
}  # fmt: skip


def with_generation(
    config: TransformerConfig,
    values: Mapping[str, Any],
    generation: Mapping[str, Any] | None,
    name: str,
    *,
    fixed: tuple[str, ...] = (),
) -> TransformerConfig:
    """The config with the generation settings of its files. Special tokens in `generation_config.json` override those
    in `config.json`, except the fixed ones."""
    if generation is not None:
        name = name.replace("config.json", "generation_config.json")
    given = values if generation is None else generation
    for key, harmless in UNKNOWN_GENERATION.items():
        if given.get(key) is not None and given[key] not in harmless:
            raise InputError(f"{name}: {key} is {shown(given[key])}, which is not supported. Remove it from the file")
    settings = {
        entry.name: given[entry.name] for entry in fields(GenerationConfig) if given.get(entry.name) is not None
    }
    tokens = {key: token_ids(given.get(key), values) for key in TOKEN_ID_KEYS}
    tokens = {key: value for key, value in tokens.items() if value is not None and key not in fixed}
    try:
        return config.replace(generation=GenerationConfig.from_dict(settings), **tokens)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def generation_values(layout: Layout) -> dict[str, Any]:
    """The content of `generation_config.json`: the values it had, updated with the model's settings."""
    default, config = GenerationConfig(), layout.config
    fixed = () if layout.family is None else layout.family.fixed_tokens
    tokens = {
        key: getattr(config, key) for key in TOKEN_ID_KEYS if key not in fixed and getattr(config, key) is not None
    }
    settings = {
        key: value
        for key, value in config.generation.to_dict().items()
        if key in layout.generation or value != default.to_dict()[key]
    }
    return {**layout.generation, **settings, **{key: generation_json(value) for key, value in tokens.items()}}


def generation_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
