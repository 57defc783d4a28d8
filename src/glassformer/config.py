"""The configuration of a Transformer: frozen dataclasses, validated on construction, to and from JSON.

`StackConfig` describes one stack of blocks, `TransformerConfig` the whole model. The names are the paper's
(Vaswani et al., 2017). A field with default `OPEN` is filled in on construction; its comment says with what.
Read next: `core/attention.py`, which uses these fields.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

from glassformer.errors import InputError, did_you_mean, join_names
from glassformer.schema import OPEN, Config

Activation = Literal["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "relu_squared", "tanh"]
Positions = Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"]
Pooling = Literal["first", "last", "end", "first_end", "highest_id", "mean", "max", "attention"]
HeadKind = Literal["language", "class", "token", "span", "pool", "forecast", "none"]

LARGEST, MOST_LAYERS = 2**31 - 1, 1024  # larger sizes are mistakes: refuse them before allocating a model
MAX_SINUSOID_VALUES = 2**28  # values in a sinusoidal table, whose size no weight file can confirm


@dataclass(frozen=True, kw_only=True)
class RotaryScaling(Config):
    """Scales rotary frequencies for sequences longer than in training; `core/positions.py` has the formulas.

    linear    divides every frequency by `factor` (Chen et al., 2023)
    dynamic   increases the base with the length beyond `trained_len`
    llama3    divides low frequencies by `factor`, keeps high ones, interpolates between (LLaMA 3: Dubey et al., 2024)
    yarn      the same idea, interpolating over pairs, with larger scores (Peng et al., 2024)
    longrope  divides each pair by its own factor, with one set for short and one for long sequences (Ding et al., 2024)
    """

    type: Literal["linear", "dynamic", "llama3", "yarn", "longrope"]
    factor: float = 1.0
    trained_len: int = 8192  # the longest sequence in pretraining
    low_frequency: float = 1.0  # llama3: pairs with at most this many turns over trained_len are divided by factor
    high_frequency: float = 4.0  # llama3: pairs with at least this many turns are kept
    slow_turns: float = 1.0  # yarn: the same two thresholds
    fast_turns: float = 32.0
    whole_pairs: bool = True  # yarn: round the two thresholds to whole pairs
    short_factors: tuple[float, ...] = ()  # longrope: one per pair
    long_factors: tuple[float, ...] = ()
    amplitude: float = 1.0  # multiplies cosine and sine, so the scores by its square

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("factor", "trained_len", "low_frequency", "slow_turns", "amplitude"):
            if getattr(self, name) <= 0:
                raise self._refuse(name, "expected a number above 0")
        for low, high in (("low_frequency", "high_frequency"), ("slow_turns", "fast_turns")):
            if getattr(self, high) <= getattr(self, low):
                raise self._refuse(high, f"expected more than {low} = {getattr(self, low)}")


@dataclass(frozen=True, kw_only=True)
class LayerKind(Config):
    """The settings that may differ from layer to layer: attention window and rotary frequencies."""

    window: int | None = None  # the last W keys when causal, W/2 to either side in an encoder; None: all keys
    rotary_base: float = 10_000.0
    rotary_scaling: RotaryScaling | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and self.window < 1:
            raise self._refuse("window", "expected at least 1 key, or None for no window")
        if self.rotary_base <= 0:
            raise self._refuse("rotary_base", "expected a number above 0")


@dataclass(frozen=True, kw_only=True)
class StackConfig(Config):
    """One stack of blocks. As `TransformerConfig.decoder` it is causal and may have cross-attention."""

    d_model: int
    num_layers: int
    num_blocks: int = OPEN  # default: num_layers; if fewer, consecutive layers share a block (ALBERT)
    num_heads: int
    num_kv_heads: int = OPEN  # default: num_heads; 1 is multi-query, in between is grouped-query attention
    head_dim: int = OPEN  # default: d_model / num_heads
    d_ff: int = OPEN  # default: 4 d_model
    max_len: int = 512  # rows of a learned table; a sinusoidal table grows on demand, the other schemes have no limit
    layer_kinds: tuple[LayerKind, ...] = (LayerKind(),)  # a pattern, repeated over the layers

    positions: Positions = "sinusoidal"
    position_offset: int = 0  # the row of position 0 in a learned or sinusoidal table
    sinusoids: Literal["interleaved", "halves", "closed_halves"] = "interleaved"  # layout of sines and cosines
    rotary_fraction: float = 1.0  # the fraction of head_dim that is rotated
    relative_buckets: int = 32
    relative_max_distance: int = 128

    norm: Literal["layer", "rms", "rms_offset"] = "layer"  # rms_offset multiplies by 1 + weight
    norm_order: Literal["pre", "post", "sandwich"] = "pre"
    norm_eps: float = 1e-5
    norm_bias: bool = True  # LayerNorm only; RMSNorm has none
    first_norm: bool = True  # before the attention of the first block; redundant if the embedding has a norm
    final_norm: bool = OPEN  # default: True for pre and sandwich order, False for post

    block: Literal["serial", "parallel", "parallel_two_norms"] = "serial"  # parallel: attention beside feed-forward
    activation: Activation = "relu"
    gated: bool = False
    qk_norm: bool = False
    attention_scale: float = OPEN  # multiplies the scores; default: 1 / sqrt(head_dim)
    score_cap: float | None = None  # soft cap of the scores: cap tanh(score / cap)
    qkv_bias: bool = True
    out_bias: bool = True
    ffn_bias: bool = True

    dropout: float = 0.0  # on each residual branch
    attention_dropout: float = OPEN  # on the attention weights; default: dropout
    ffn_dropout: float = OPEN  # on the feed-forward's hidden layer; default: dropout
    embed_dropout: float = OPEN  # after embedding + position; default: dropout
    drop_path: float = 0.0  # stochastic depth: rises from 0 in the first layer to this in the last

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_sizes("num_layers", "num_blocks", most=MOST_LAYERS)
        self._check_sizes("d_model", "num_heads", "num_kv_heads", "head_dim", "d_ff", "max_len", most=LARGEST)
        if self.head_dim is None and self.d_model % self.num_heads:
            raise InputError(
                f"StackConfig.d_model is {self.d_model} and num_heads is {self.num_heads}: {self.d_model} is not "
                f"divisible by {self.num_heads}. Choose num_heads from {_divisors(self.d_model)}, "
                f"or set head_dim to choose the width of a head"
            )
        self._settle(
            num_blocks=self.num_layers,
            num_kv_heads=self.num_heads,
            head_dim=self.d_model // self.num_heads,
            d_ff=4 * self.d_model,
            final_norm=self.norm_order != "post",
            attention_scale=(self.head_dim or self.d_model // self.num_heads) ** -0.5,
            attention_dropout=self.dropout,
            ffn_dropout=self.dropout,
            embed_dropout=self.dropout,
        )
        if self.num_blocks > self.num_layers:
            raise self._refuse("num_blocks", f"expected at most num_layers = {self.num_layers}")
        if self.num_heads % self.num_kv_heads:
            choices = _divisors(self.num_heads)
            raise self._refuse("num_kv_heads", f"expected a divisor of num_heads = {self.num_heads}: {choices}")
        for name in ("dropout", "attention_dropout", "ffn_dropout", "embed_dropout", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise self._refuse(name, "expected a probability of at least 0 and below 1")
        if not 0 < self.rotary_fraction <= 1:
            raise self._refuse("rotary_fraction", "expected a fraction above 0 and at most 1")
        if self.positions == "rotary" and self.rotary_dim < 2:
            raise self._refuse("rotary_fraction", f"with head_dim = {self.head_dim} no pair is left to rotate")
        if self.relative_buckets < 4 or self.relative_buckets % 2:
            raise self._refuse("relative_buckets", "expected an even number of at least 4")
        if self.relative_max_distance <= self.relative_buckets // 2:
            raise self._refuse("relative_max_distance", f"expected more than {self.relative_buckets // 2}")
        if not 0 <= self.position_offset <= LARGEST:
            raise self._refuse("position_offset", f"expected 0 to {LARGEST:,} rows")
        rows = self.max_len + self.position_offset
        if self.positions == "sinusoidal" and rows * self.d_model > MAX_SINUSOID_VALUES:
            raise InputError(
                f"StackConfig.max_len is {self.max_len} (position_offset {self.position_offset}): with d_model = "
                f"{self.d_model}, the sinusoidal table has more than {MAX_SINUSOID_VALUES:,} values. Choose a smaller "
                "max_len: the table grows on demand"
            )
        for name in ("attention_scale", "score_cap"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise self._refuse(name, "expected a number above 0")
        if self.norm_eps <= 0:
            raise self._refuse("norm_eps", "expected a small number above 0, such as 1e-5")
        if not self.layer_kinds:
            raise self._refuse("layer_kinds", "expected at least one LayerKind")
        pairs = self.rotary_dim // 2
        for kind in self.layer_kinds if self.positions == "rotary" else ():
            scaling = kind.rotary_scaling
            if (
                scaling
                and scaling.type == "longrope"
                and {len(scaling.short_factors), len(scaling.long_factors)} != {pairs}
            ):
                raise InputError(
                    f"RotaryScaling has {len(scaling.short_factors)} short_factors and {len(scaling.long_factors)} "
                    f"long_factors: expected {pairs} of each, one per pair of rotated dimensions"
                )
        if self.block != "serial" and self.norm_order == "post":
            raise self._refuse("block", "a parallel block cannot have norm_order='post'; set norm_order='pre'")
        if not self.first_norm and (self.norm_order != "pre" or self.block != "serial"):
            raise self._refuse("first_norm", "only block='serial' with norm_order='pre' can omit its first norm")

    @property
    def rotary_dim(self) -> int:
        """The number of rotated dimensions of a head: even, because they are rotated in pairs."""
        return int(self.head_dim * self.rotary_fraction) // 2 * 2

    @property
    def room(self) -> int | None:
        """The longest possible sequence: max_len for learned positions, else None (no limit)."""
        return self.max_len if self.positions == "learned" else None

    @property
    def every_kind(self) -> tuple[LayerKind, ...]:
        """The kind of each layer: `layer_kinds`, repeated."""
        return tuple(self.layer_kinds[layer % len(self.layer_kinds)] for layer in range(self.num_layers))


@dataclass(frozen=True, kw_only=True)
class ImageConfig(Config):
    """An image split into square patches (ViT: Dosovitskiy et al., 2021)."""

    size: int  # height and width in pixels
    patch: int
    channels: int = 3
    class_token: bool = True
    distillation_token: bool = False  # a second token before the patches, trained on a teacher's predictions (DeiT)
    patch_bias: bool = True
    embed_norm: bool = False  # after adding the positions
    stem: int = 0  # convolutions before the patches, each of which halves the image (Hassani et al., 2021)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_sizes("size", "patch", "channels", most=LARGEST)
        if self.size % self.patch:
            raise self._refuse("patch", f"expected a divisor of size = {self.size}: {_divisors(self.size)}")
        if not 0 <= self.stem < 32 or self.patch % 2**self.stem:
            raise self._refuse("stem", f"expected 0 or more, and patch = {self.patch} divisible by 2 that many times")

    @property
    def patches_per_side(self) -> int:
        return self.size // self.patch

    @property
    def num_tokens(self) -> int:
        return self.patches_per_side**2 + self.prefix_tokens

    @property
    def prefix_tokens(self) -> int:
        """The number of tokens before the patches."""
        return self.class_token + self.distillation_token


@dataclass(frozen=True, kw_only=True)
class SeriesConfig(Config):
    """A time series whose channels are split into patches independently (PatchTST: Nie et al., 2023)."""

    length: int  # input values per channel
    patch: int
    stride: int = OPEN  # default: patch, so that patches do not overlap
    horizon: int = 1  # values predicted by the forecast head
    channels: int | None = None  # None: any number
    instance_norm: bool = False  # normalise each channel of an input to mean 0 and deviation 1; undone for a forecast
    fold: int = 1  # make every fold-th value of a channel a row of its own (SparseTSF: Lin et al., 2024)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(stride=self.patch)
        self._check_sizes("length", "patch", "stride", "horizon", "channels", "fold", most=LARGEST)
        for name in ("length", "patch", "stride", "horizon"):
            if getattr(self, name) % self.fold:
                raise self._refuse(name, f"expected a multiple of fold = {self.fold}")
        if self.patch > self.length:
            raise self._refuse("patch", f"expected at most length = {self.length}")

    @property
    def num_tokens(self) -> int:
        return (self.length - self.patch) // self.stride + 1

    @property
    def tokens_per_channel(self) -> int:
        return self.fold * self.num_tokens


def as_ids(value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """An id, a tuple of ids or None, as a tuple."""
    return () if value is None else value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(Config):
    """The defaults of `generate` for a model: the content of `generation_config.json`.

    Lengths include the prompt and its padding; `new` lengths do not.
    """

    max_length: int | None = None  # None: 20 new tokens
    max_new_tokens: int | None = None  # overrides max_length
    min_length: int = 0  # no end token before this length
    min_new_tokens: int | None = None  # overrides min_length

    do_sample: bool = False  # sample the next token; else greedy
    temperature: float = 1.0  # divides the logits
    top_k: int = 50  # sample from this many most probable tokens; 0: all
    top_p: float = 1.0  # sample from the smallest set of tokens with this total probability
    min_p: float = 0.0  # sample from tokens with at least this fraction of the highest probability

    num_beams: int = 1
    length_penalty: float = 1.0  # a beam's score is divided by its length to this power
    early_stopping: bool | Literal["never"] = False  # True: stop at num_beams finished beams; see `generation/beam.py`
    num_return_sequences: int = 1

    repetition_penalty: float = 1.0  # above 1, lowers the logits of tokens that already occurred
    no_repeat_ngram_size: int = 0  # no n-gram of this size occurs twice; 0: no limit
    bad_words_ids: tuple[tuple[int, ...], ...] | None = None
    suppress_tokens: tuple[int, ...] | None = None
    forced_bos_token_id: int | None = None  # the token after the start token
    forced_eos_token_id: int | tuple[int, ...] | None = None  # the last token at max_length
    renormalize_logits: bool = False  # to log-probabilities, after all other changes
    stop_strings: str | tuple[str, ...] | None = None  # stop when the text contains one of them; needs a tokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_length", "max_new_tokens", "num_beams", "num_return_sequences"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self._refuse(name, "expected at least 1")
        for name in ("min_length", "min_new_tokens", "top_k", "no_repeat_ngram_size", "temperature"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise self._refuse(name, "expected 0 or more")
        for name, value in vars(self).items():
            if type(value) is int and value > LARGEST:
                raise self._refuse(name, f"expected at most {LARGEST:,}")
        if self.do_sample and self.temperature == 0:
            raise self._refuse("temperature", "expected a number above 0; for greedy decoding set do_sample=False")
        for name in ("top_p", "min_p"):
            if not 0 <= getattr(self, name) <= 1:
                raise self._refuse(name, "expected a probability from 0 to 1")
        if self.repetition_penalty <= 0:
            raise self._refuse("repetition_penalty", "expected a number above 0; 1.0 changes nothing")
        if self.bad_words_ids is not None and not all(self.bad_words_ids):
            raise self._refuse("bad_words_ids", "expected at least one token per entry")
        if self.stop_strings == "" or (self.stop_strings and not all(self.stop_strings)):
            raise self._refuse("stop_strings", "expected at least one character per string")
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            forced = as_ids(getattr(self, name))
            if forced and set(forced) <= set(self.suppress_tokens or ()):
                raise self._refuse(name, "suppress_tokens forbids it; remove it from one of the two")
        if self.num_beams > 1 and self.num_return_sequences > self.num_beams:
            raise self._refuse("num_return_sequences", f"expected at most num_beams = {self.num_beams}")
        if self.num_beams == 1 and self.num_return_sequences > 1 and not self.do_sample:
            raise self._refuse("num_return_sequences", "all would be the same; set num_beams or do_sample=True")


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(Config):
    """The options of one call: the fields of `GenerationConfig`, where None is the model's default, and a seed."""

    max_length: int | None = None
    max_new_tokens: int | None = None
    min_length: int | None = None
    min_new_tokens: int | None = None

    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None  # for sampling

    num_beams: int | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    num_return_sequences: int | None = None

    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    bad_words_ids: tuple[tuple[int, ...], ...] | None = None
    suppress_tokens: tuple[int, ...] | None = None
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | tuple[int, ...] | None = None
    renormalize_logits: bool | None = None
    stop_strings: str | tuple[str, ...] | None = None

    def given(self) -> dict[str, Any]:
        """The options that are not None."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def _name(self, field: str) -> str:
        return field  # users pass it as a keyword of a call


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """The whole model: an input, an encoder, a decoder or both, and a head.

    The encoder reads `image`, `series`, or tokens of `vocab_size`. The decoder reads tokens of `target_vocab_size`, or
    of the shared `vocab_size`.
    """

    encoder: StackConfig | None = None
    decoder: StackConfig | None = None

    vocab_size: int | None = None
    target_vocab_size: int | None = None  # None: source and target share one vocabulary and one embedding
    image: ImageConfig | None = None
    series: SeriesConfig | None = None
    memory: Literal["cross", "prefix"] = "cross"  # the decoder cross-attends to the encoder's output, or starts with it
    memory_project: Literal["none", "linear", "linear_norm"] = "none"  # projects it to the decoder's width

    scale_embeddings: bool = False  # multiply token embeddings by sqrt(d_model), as in the paper
    embed_dim: int | None = None  # embedding width, projected to d_model; None: d_model
    embed_norm: bool = False
    num_segments: int = 0  # number of segment embeddings (sentence A, sentence B); 0: none

    head: HeadKind = "language"
    tie_embeddings: bool = True  # the language head shares the (target) embedding's matrix
    head_activation: Activation | None = None  # if set, a dense layer with this activation precedes the output layer
    head_norm: bool = False  # norm after that dense layer
    head_dense_bias: bool = True
    head_bias: bool = OPEN  # of the output layer; default: False for a language head, True for the others
    head_dropout: float = OPEN  # default: the stack's dropout for heads class, token and span, else 0
    logit_scale: float = 1.0
    logit_cap: float | None = None  # soft cap of the logits: cap tanh(logit / cap)
    num_classes: int | None = None
    pooling: Pooling = "mean"
    pooled_dim: int | None = None  # head 'pool': project the pooled vector to this width
    two_classifiers: bool = False  # a second classifier reads the distillation token; the logits are averaged (DeiT)
    label_shift: Literal["start", "last"] = "start"  # the decoder's first token: the start token, or the last label

    init: Literal["paper", "modern"] = "modern"

    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | tuple[int, ...] | None = None  # each of them ends a text
    decoder_start_token_id: int | None = None
    generation: GenerationConfig = GenerationConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is None and self.decoder is None:
            raise InputError("TransformerConfig needs an encoder, a decoder, or both: give at least one StackConfig")
        if self.image and self.series:
            raise InputError("TransformerConfig has both image and series: the encoder reads one input. Leave one out")
        if self.patches and not self.encoder:
            raise InputError("TransformerConfig.image and .series need an encoder: give encoder=StackConfig(...)")
        if self.reads_tokens and self.vocab_size is None:
            raise self._refuse("vocab_size", "a model that reads tokens needs the size of its vocabulary")
        self._check_sizes("vocab_size", "target_vocab_size", "embed_dim", "num_classes", "pooled_dim", most=LARGEST)
        if not 0 <= self.num_segments <= LARGEST:
            raise self._refuse("num_segments", f"expected 0 for none, or a number up to {LARGEST:,}")
        if self.target_vocab_size is not None and not (self.encoder and self.decoder and not self.patches):
            raise self._refuse("target_vocab_size", "only an encoder-decoder that reads text has two vocabularies")
        self._settle(
            head_bias=self.head != "language",
            head_dropout=self.last_stack.dropout if self.head in ("class", "token", "span") else 0.0,
        )
        self._check_stacks()
        self._check_head()
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
            limit = self.output_vocab_size
            if limit and not all(0 <= value < limit for value in as_ids(getattr(self, name))):
                raise self._refuse(name, f"expected an id from 0 to {limit - 1}")

    def _check_stacks(self) -> None:
        if self.patches:
            for name in ("embed_dim", "embed_norm", "num_segments", "scale_embeddings"):
                if getattr(self, name) and not self.decoder:
                    hint = "; set image.embed_norm" if name == "embed_norm" and self.image else ""
                    raise self._refuse(name, f"it is for token embeddings, and this model reads patches{hint}")
        if not self.encoder or not self.decoder:
            for name, usual in (("memory", "cross"), ("memory_project", "none")):
                if getattr(self, name) != usual:
                    raise self._refuse(name, f"it needs an encoder and a decoder; with one stack set {name}={usual!r}")
            return
        if self.cross and self.decoder.block != "serial":
            raise InputError(
                f"TransformerConfig.decoder.block is {self.decoder.block!r}: cross-attention needs block='serial'"
            )
        widths = f"encoder.d_model is {self.encoder.d_model} and decoder.d_model is {self.decoder.d_model}"
        if self.encoder.d_model != self.decoder.d_model:
            if not self.patches and self.target_vocab_size is None and self.embed_dim is None:
                raise InputError(
                    f"TransformerConfig.{widths}: source and target share one embedding, so set both to the "
                    f"same, or set target_vocab_size for two embeddings"
                )
            if self.prefix and self.memory_project == "none":
                raise self._refuse("memory", f"{widths}; set memory_project='linear' to project one to the other")
        if self.prefix:
            self._check_prefix(self.decoder)

    def _check_prefix(self, stack: StackConfig) -> None:
        """Source vectors have no position numbers, so a prefix needs a scheme that is added to the tokens, or none."""
        if stack.positions not in ("learned", "sinusoidal", "none"):
            raise self._refuse(
                "memory", f"decoder.positions is {stack.positions!r}; choose 'learned', 'sinusoidal' or 'none'"
            )
        if any(kind.window is not None for kind in stack.layer_kinds):
            raise self._refuse("memory", "a layer with a window could not attend to all of the source; set window=None")

    def _check_head(self) -> None:
        if self.head == "language" and not self.reads_tokens:
            raise self._refuse("head", "a model that reads patches has no vocabulary; choose 'class' or 'forecast'")
        if self.head in ("class", "token") and self.num_classes is None:
            raise self._refuse("num_classes", f"head {self.head!r} needs the number of classes")
        if self.head not in ("class", "token") and self.num_classes is not None:
            raise self._refuse("num_classes", f"only heads 'class' and 'token' have classes; head is {self.head!r}")
        if self.head == "forecast" and self.series is None:
            raise self._refuse("head", "a forecast needs a series; give series=SeriesConfig(...)")
        if self.head == "forecast" and self.decoder:
            raise self._refuse("head", "a forecast needs an encoder alone; leave the decoder out")
        if self.head == "class" and self.pooling == "first" and self.image and not self.image.class_token:
            raise self._refuse("pooling", "the first token is a patch; set image.class_token or choose 'mean'")
        if self.head in ("class", "pool") and self.pooling in ("end", "first_end") and self.eos_token_id is None:
            raise self._refuse("pooling", "pooling at the end token needs eos_token_id")
        if self.head in ("class", "pool") and self.pooling in ("end", "first_end", "highest_id") and self.patches:
            raise self._refuse("pooling", "it looks for a token id, and this model reads patches; choose 'mean'")
        if self.head != "pool" and self.pooled_dim is not None:
            raise self._refuse("pooled_dim", f"only head 'pool' has a pooled vector to project; head is {self.head!r}")
        if self.two_classifiers and not (self.image and self.image.distillation_token and self.head == "class"):
            raise self._refuse("two_classifiers", "it needs head='class' and image.distillation_token")
        if not 0 <= self.head_dropout < 1:
            raise self._refuse("head_dropout", "expected a probability of at least 0 and below 1")
        for name in ("logit_scale", "logit_cap"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise self._refuse(name, "expected a number above 0")

    @property
    def reads_class_token(self) -> bool:
        """Whether the answer about an image is read from its class token, not from all tokens together."""
        pooled = self.head in ("class", "pool") and self.pooling != "first"
        return self.image is not None and self.image.class_token and not pooled

    @property
    def patches(self) -> ImageConfig | SeriesConfig | None:
        return self.image or self.series

    @property
    def cross(self) -> bool:
        """Whether the decoder cross-attends to the encoder's output."""
        return self.encoder is not None and self.decoder is not None and self.memory == "cross"

    @property
    def prefix(self) -> bool:
        """Whether the encoder's output is placed before the decoder's tokens."""
        return self.encoder is not None and self.decoder is not None and self.memory == "prefix"

    @property
    def memory_width(self) -> int | None:
        """The width of the encoder's output as the decoder reads it; None with one stack."""
        if self.encoder is None or self.decoder is None:
            return None
        return (self.encoder if self.memory_project == "none" else self.decoder).d_model

    @property
    def reads_tokens(self) -> bool:
        return self.decoder is not None or self.patches is None

    @property
    def output_vocab_size(self) -> int:
        """The vocabulary size of a language head; 0 if the model reads no tokens."""
        return self.target_vocab_size or self.vocab_size or 0

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """All ids that end a text, as a tuple."""
        return as_ids(self.eos_token_id)

    @property
    def fill_token_id(self) -> int | None:
        """The id that fills a row after its end: the padding id, or else the first end token."""
        return next(iter((*as_ids(self.pad_token_id), *self.eos_token_ids)), None)

    @property
    def last_stack(self) -> StackConfig:
        """The stack below the head."""
        return self.decoder or self.encoder  # type: ignore[return-value]  # __post_init__ requires one

    @property
    def pooled_width(self) -> int:
        """The width of the pooled vector."""
        return self.pooled_dim or self.last_stack.d_model

    @property
    def room(self) -> int | None:
        """The longest sequence that every stack accepts; None if there is no limit."""
        rooms = [stack.room for stack in (self.encoder, self.decoder) if stack is not None]
        return min((room for room in rooms if room is not None), default=None)

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """The config of a published model, with some of its fields changed: `named("base", vocab_size=8000)`."""
        if name not in NAMED_CONFIGS:
            raise InputError(f"no config is named {name!r}{did_you_mean(name, NAMED_CONFIGS)}")
        return cls.from_dict({**NAMED_CONFIGS[name], **changes})


@dataclass(frozen=True, kw_only=True)
class PairConfig(Config):
    """A text model and an image model whose pooled vectors have the same width (`core/pair.py`)."""

    text: TransformerConfig
    image: TransformerConfig
    logit_scale: float = math.log(1 / 0.07)  # initial value; its exponential multiplies the cosine similarities

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, config in (("text", self.text), ("image", self.image)):
            if config.head != "pool":
                raise InputError(f"PairConfig.{name}.head is {config.head!r}: expected 'pool'")
        if self.image.image is None or self.text.patches:
            wrong = "image" if self.image.image is None else "text"
            raise InputError(f"PairConfig.{wrong} does not read {wrong}s: give image=ImageConfig(...) to 'image' only")
        if self.text.pooled_width != self.image.pooled_width:
            raise InputError(
                f"PairConfig.text has vectors of width {self.text.pooled_width} and PairConfig.image of width "
                f"{self.image.pooled_width}: set pooled_dim of both to the same"
            )

    @property
    def last_stack(self) -> StackConfig:
        """The stack whose d_model scales the paper's learning rate."""
        return self.image.last_stack

    @property
    def reads_tokens(self) -> bool:
        return True


def _paper(d_model: int, d_ff: int, num_heads: int, dropout: float) -> dict[str, Any]:
    stack = StackConfig(
        d_model=d_model, d_ff=d_ff, num_heads=num_heads, num_layers=6, norm_order="post", activation="relu",
        positions="sinusoidal", dropout=dropout, attention_dropout=0.0, ffn_dropout=0.0,
    )  # fmt: skip
    return {
        "encoder": stack, "decoder": stack, "vocab_size": 37_000, "tie_embeddings": True, "scale_embeddings": True,
        "init": "paper",
    }  # fmt: skip


def _palm(d_model: int, num_layers: int, num_heads: int) -> dict[str, Any]:
    """Parallel blocks, multi-query attention, SwiGLU, no biases, scaled logits."""
    stack = StackConfig(
        d_model=d_model, num_layers=num_layers, num_heads=num_heads, num_kv_heads=1, head_dim=256, max_len=2048,
        block="parallel", positions="rotary", norm="layer", norm_bias=False, activation="silu", gated=True,
        qkv_bias=False, out_bias=False, ffn_bias=False,
    )  # fmt: skip
    return {"decoder": stack, "vocab_size": 256_000, "tie_embeddings": True, "logit_scale": d_model**-0.5}


# base and big: table 3 of the paper, whose shared English-German vocabulary has 37,000 tokens.
# palm: table 1 of Chowdhery et al. (2022), with d_ff = 4 d_model.
NAMED_CONFIGS: dict[str, dict[str, Any]] = {
    "base": _paper(d_model=512, d_ff=2048, num_heads=8, dropout=0.1),
    "big": _paper(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3),
    "palm-8b": _palm(d_model=4096, num_layers=32, num_heads=16),
    "palm-62b": _palm(d_model=8192, num_layers=64, num_heads=32),
    "palm-540b": _palm(d_model=18_432, num_layers=118, num_heads=48),
}


def _divisors(number: int) -> str:
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return join_names([str(n) for n in sorted({*small, *(number // n for n in small)})])
