"""Reads another library's `config.json`: every key is taken, expected, or ignored on purpose.

A family's page calls `take` for the keys it needs. A key that no page reads stops the load with an error that names it:
ignoring a setting would build a different model. Where transformers 4 and 5 spell a key differently, both work.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from glassformer.config import LARGEST, MOST_LAYERS, Activation, LayerKind, RotaryScaling
from glassformer.errors import InputError, did_you_mean
from glassformer.schema import is_finite, shown

REQUIRED: Any = object()

# Activation names of other libraries -> ours.
ACTIVATION: dict[str, Activation] = {
    "relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "gelu_accurate": "gelu_tanh", "quick_gelu": "quick_gelu", "silu": "silu",
    "swish": "silu", "relu2": "relu_squared", "tanh": "tanh",
}  # fmt: skip


def activation_name(activation: Activation) -> str:
    """The name of an activation in other libraries: the inverse of `ACTIVATION`."""
    return {"gelu_tanh": "gelu_new", "relu_squared": "relu2"}.get(activation, activation)


ROPE_TYPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")

# A value must have the type of its default.
EXPECTED_TYPES: dict[tuple[type, ...], str] = {
    (bool,): "true or false", (int,): "a whole number", (float, int): "a number", (str,): "a text",
    (list,): "a list", (dict,): "an object",
}  # fmt: skip

# About the file, training, or the library that wrote it: no effect on what the model computes.
IGNORED = (
    "model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path", "name_or_path",
    "_commit_hash", "auto_map", "use_cache", "initializer_range", "initializer_factor", "init_std",
    "initializer_cutoff_factor", "gradient_checkpointing", "output_past", "output_attentions",
    "output_hidden_states", "return_dict", "use_return_dict", "torchscript", "use_bfloat16",
    "chunk_size_feed_forward", "is_encoder_decoder", "finetuning_task", "id2label", "label2id", "num_labels",
    "problem_type", "tokenizer_class", "prefix", "task_specific_params", "sep_token_id", "cls_token_id",
    "mask_token_id", "language", "_attn_implementation_autoset", "attn_implementation", "_attn_implementation",
    "pretraining_tp", "cross_attention_hidden_size", "is_llama_config", "unsloth_fixed", "unsloth_version",
    "transformers.js_config", "tie_encoder_decoder", "adapters", "unk_token_id", "layerdrop", "encoder_layerdrop",
    "decoder_layerdrop", "tf_legacy_loss", "deterministic_flash_attn", "reference_compile",
    "repad_logits_with_grad", "sparse_prediction", "sparse_pred_ignore_index",
)  # fmt: skip

# Generation settings: now in `generation_config.json`, but older files have them here.
GENERATION_KEYS = (
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
    "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
    "force_bos_token_to_be_generated", "eos_token_ids",
)  # fmt: skip


TEXT_PARTS = ("decoder", "text_config")  # key of the text model in a config.json with several parts
TOKEN_ID_KEYS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")


def token_ids(given: Any, values: Mapping[str, Any]) -> Any:
    """Special tokens from a file: one id or several. Ids outside the vocabulary, such as -1, are dropped: they cannot
    occur."""
    parts = [values, *(part for part in map(values.get, TEXT_PARTS) if isinstance(part, Mapping))]
    sizes = [part.get(key) for part in parts for key in ("vocab_size", "decoder_vocab_size")]
    size = max((size for size in sizes if isinstance(size, int)), default=0)
    if isinstance(given, list):
        return tuple(token for token in given if not isinstance(token, int) or 0 <= token < size) or None
    return None if isinstance(given, int) and not 0 <= given < size else given


class Keys:
    """The keys of one `config.json`, which of them have been read, and the requested head."""

    def __init__(
        self, values: Mapping[str, Any], *, name: str = "config.json", head: str = "none", choices: Any = None
    ) -> None:
        self.values, self.name, self.head, self.choices = values, name, head, dict(choices or {})
        self.read = {*IGNORED, *GENERATION_KEYS}

    def take(self, key: str, default: Any = REQUIRED, *, also: tuple[str, ...] = (), least: float | None = None) -> Any:
        """The value of a key, under any of its names. A null counts as missing if there is a default.

        The value must have the type of the default; without a default it must be a size.
        """
        names = (key, *also)
        self.read.update(names)
        for name in names:
            if self.values.get(name) is not None:
                size = default is REQUIRED
                return self._checked(name, self.values[name], 1 if size else default, 1 if size else least)
        if default is REQUIRED:
            raise InputError(f"{self.name} has no {key!r}, which every {self.values.get('model_type')!r} model needs")
        return default

    def _checked(self, key: str, value: Any, like: Any, least: float | None) -> Any:
        kind, expected = next(((kind, text) for kind, text in EXPECTED_TYPES.items() if type(like) in kind), (None, ""))
        if kind is not None and type(value) not in kind:
            raise InputError(f"{self.name}: {key} is {shown(value)}: expected {expected}")
        if least is not None and value < least:
            raise InputError(f"{self.name}: {key} is {shown(value)}: expected at least {least}")
        if isinstance(value, int | float) and not is_finite(value):
            raise InputError(f"{self.name}: {key} is {shown(value)}: expected a finite number")
        most = MOST_LAYERS if "layer" in key else LARGEST
        if type(value) is int and type(like) is int and value > most:  # before a page builds a list of that length
            raise InputError(f"{self.name}: {key} is {shown(value)}: expected at most {most:,}")
        return float(value) if type(like) is float else value

    def part(self, key: str, *, head: str = "none", choices: Any = None, without: tuple[str, ...] = ()) -> "Keys":
        """The nested config.json of a part, `without` the keys that the caller checks itself."""
        values = {name: value for name, value in self.take(key, {}).items() if name not in without}
        part = Keys(values, name=f"{self.name}, {key}", head=head, choices=choices)
        for name in ("is_decoder", "add_cross_attention"):
            part.expect(name, False)
        part.expect("pruned_heads", {})
        return part

    def nullable(self, key: str, default: float) -> float | None:
        """The value of a key that null turns off; the default if the key is missing."""
        return self.take(key, None) if key in self.values else default

    def square(self, key: str, default: Any = REQUIRED) -> int:
        """An image or patch size: one number, or two equal ones."""
        value = self.values.get(key)
        if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
            self.read.add(key)
            return int(value[0])
        return int(self.take(key, default))

    def expect(self, key: str, *allowed: Any) -> None:
        """Refuses a setting that the core does not support; a missing key is fine."""
        self.read.add(key)
        if key in self.values and self.values[key] not in allowed and self.values[key] is not None:
            wanted = " or ".join(repr(value) for value in allowed)
            raise InputError(
                f"{self.name}: {key} is {shown(self.values[key])}, but only {wanted} is supported for this model"
            )

    def ignore(self, *keys: str) -> None:
        self.read.update(keys)

    def finish(self) -> None:
        """Raises an error for a key that was not read."""
        for key, value in self.values.items():
            # A null sets nothing, and keys that start with an underscore are internal to transformers.
            if key not in self.read and value is not None and not key.startswith("_"):
                raise InputError(
                    f"{self.name}: unknown key {key!r} (value {shown(self.values[key])}) for a "
                    f"{self.values.get('model_type')!r} model. If the model does not need it, remove it from the file"
                )

    def activation(self, key: str, default: Any = REQUIRED) -> Activation:
        name = self.take(key, default)
        if str(name) not in ACTIVATION:
            raise InputError(
                f"{self.name}: {key} is {name!r}, an unknown activation{did_you_mean(str(name), ACTIVATION)}"
            )
        return ACTIVATION[name]

    def common(self, *, tied: bool = True, **for_head: dict[str, Any]) -> dict[str, Any]:
        """The settings every family has: the head, the special tokens, and whether embeddings are tied.

        `for_head` holds settings for one kind of head: `common(pool={"head_activation": "tanh"})`.
        """
        found: dict[str, Any] = {"head": self.head, **self.choices, **for_head.get(self.head, {})}
        if found["head"] in ("class", "token"):
            found["num_classes"] = self.num_classes
        for key in TOKEN_ID_KEYS:
            found[key] = token_ids(self.take(key, None), self.values)
        return {**found, "tie_embeddings": self.take("tie_word_embeddings", tied)}

    @property
    def num_classes(self) -> int:
        return self.take("num_labels", 0) or len(self.take("id2label", {})) or 2

    # Rotary positions

    def rotary_fraction(self, default: float = 1.0) -> float:
        """The fraction of each head's dimensions that is rotated."""
        given = self.take("partial_rotary_factor", default, also=("rotary_pct",))
        return float(self._rope().get("partial_rotary_factor", given))

    def _rope(self, layer_type: str | None = None) -> dict[str, Any]:
        """`rope_parameters`, or its older name `rope_scaling`. It may differ by layer type."""
        rope = self.take("rope_parameters", {}) or self.take("rope_scaling", {})
        self.ignore("rope_parameters", "rope_scaling")
        if layer_type in rope:
            return self._checked(f"rope_parameters.{layer_type}", rope[layer_type] or {}, {}, None)
        return rope

    def rotary(self, *, base: float = 10_000.0, layer_type: str | None = None, base_key: str = "rope_theta") -> Any:
        """`rotary_base` and `rotary_scaling` of a layer kind."""
        rope = self._rope(layer_type)
        outer = self.take(base_key, base, also=("rotary_emb_base",) if base_key == "rope_theta" else ())
        found = {"rotary_base": self._rope_number(rope, "rope_theta", outer)}
        kind = rope.get("rope_type", rope.get("type", "default"))
        return found if kind == "default" else {**found, "rotary_scaling": self._scaling(kind, rope)}

    def _rope_number(self, rope: dict[str, Any], key: str, default: Any = REQUIRED) -> float:
        """A number from the rope parameters."""
        value = default if rope.get(key) is None else rope[key]
        if value is REQUIRED:
            raise InputError(f"{self.name}: the rope parameters {rope} have no {key!r}, which this rope type needs")
        return float(self._checked(f"{key} of the rope parameters", value, 1.0, None))

    def _scaling(self, kind: str, rope: dict[str, Any]) -> RotaryScaling:
        if kind not in (*ROPE_TYPES, "su"):  # the first name of longrope
            raise InputError(f"{self.name}: unknown rope type {kind!r}{did_you_mean(str(kind), ROPE_TYPES)}")
        longest = self.take("max_position_embeddings")
        trained = self.take("original_max_position_embeddings", rope.get("original_max_position_embeddings") or longest)
        trained = self._checked("original_max_position_embeddings", trained, 1, 2)
        factor = self._rope_number(
            rope, "factor", longest / trained if kind in ("yarn", "longrope", "su") else REQUIRED
        )
        amplitude = rope.get("attention_factor")
        if kind == "linear":
            return RotaryScaling(type="linear", factor=factor)
        if kind == "dynamic":
            return RotaryScaling(type="dynamic", factor=factor, trained_len=longest)
        if kind == "llama3":
            low, high = (self._rope_number(rope, f"{end}_freq_factor") for end in ("low", "high"))
            return RotaryScaling(
                type="llama3", factor=factor, trained_len=trained, low_frequency=low, high_frequency=high
            )
        if kind == "yarn":
            if amplitude is None:
                above, below = (self._rope_number(rope, key, 0.0) for key in ("mscale", "mscale_all_dim"))
                above, below = (above, below) if above and below else (1.0, 0.0)
                amplitude = _yarn_amplitude(factor, above) / _yarn_amplitude(factor, below)
            return RotaryScaling(
                type="yarn", factor=factor, trained_len=trained, amplitude=amplitude,
                fast_turns=self._rope_number(rope, "beta_fast", 32), slow_turns=self._rope_number(rope, "beta_slow", 1),
                whole_pairs=rope.get("truncate", True),
            )  # fmt: skip
        if amplitude is None:
            amplitude = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
        short, long = (self._checked(key, rope.get(key), [], None) for key in ("short_factor", "long_factor"))
        return RotaryScaling(
            type="longrope", factor=factor, trained_len=trained, amplitude=amplitude,
            short_factors=tuple(short), long_factors=tuple(long),
        )  # fmt: skip

    def layer_kinds(
        self, num_layers: int, kinds: Mapping[str, LayerKind], default: Callable[[int], str]
    ) -> tuple[LayerKind, ...]:
        """The kind of every layer: from `layer_types`, or by the rule `default` in older files."""
        types = self.take("layer_types", [default(layer) for layer in range(num_layers)])
        unknown = [kind for kind in map(str, types) if kind not in kinds]
        if unknown:
            raise InputError(f"{self.name}: layer_types has {unknown[0]!r}{did_you_mean(unknown[0], kinds)}")
        if len(types) != num_layers:
            raise InputError(f"{self.name}: layer_types has {len(types)} entries for {num_layers} layers")
        found = tuple(kinds[kind] for kind in types)
        return found[:1] if len(set(found)) == 1 else found


def _yarn_amplitude(factor: float, by: float) -> float:
    return 0.1 * by * math.log(factor) + 1.0 if factor > 1 else 1.0
