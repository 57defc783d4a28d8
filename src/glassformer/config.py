"""What a Transformer is, in numbers and choices: frozen, validated, JSON in and out.

`StackConfig` describes one stack of blocks, `TransformerConfig` the whole model. The names are the paper's
(Vaswani et al., 2017). A field that is `OPEN` is settled on construction (its comment says to
what), so a config that exists is complete.
Read next: `core/attention.py`, where the fields become arithmetic.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

from glassformer.errors import InputError, listed, nearest
from glassformer.schema import OPEN, Config

Activation = Literal["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "relu_squared", "tanh"]
Positions = Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"]
Pooling = Literal["first", "last", "end", "first_end", "highest_id", "mean", "max", "attention"]
Head = Literal["language", "class", "token", "span", "pool", "forecast", "none"]

LARGEST, MOST_LAYERS = 2**31 - 1, 1024  # sizes beyond these are mistakes, and a model is not even begun
MOST_POSITIONS = 2**28  # values of a table of sinusoids, which is computed and not read from a file


@dataclass(frozen=True, kw_only=True)
class RotaryScaling(Config):
    """How rotary angles change for texts longer than those of training; `core/positions.py` has the formulas.

    linear    every angle divided by `factor` (Chen et al., 2023)
    dynamic   a larger base, the larger the further the text goes past `trained_len`
    llama3    slow angles divided by `factor`, fast ones kept, a ramp between (LLaMA 3: Dubey et al., 2024)
    yarn      the same idea with a ramp over the pairs, and larger scores (Peng et al., 2024)
    longrope  a factor for every pair, one set for short and one for long texts (Ding et al., 2024)
    """

    type: Literal["linear", "dynamic", "llama3", "yarn", "longrope"]
    factor: float = 1.0
    trained_len: int = 8192  # the longest text of the training before
    low_frequency: float = 1.0  # llama3: fewer turns than this over trained_len are slow
    high_frequency: float = 4.0  # llama3: more turns than this are fast
    slow_turns: float = 1.0  # yarn: the same two borders
    fast_turns: float = 32.0
    whole_pairs: bool = True  # yarn: the ramp begins and ends at a whole pair
    short_factors: tuple[float, ...] = ()  # longrope: one for each pair
    long_factors: tuple[float, ...] = ()
    amplitude: float = 1.0  # cosine and sine are multiplied by it, so scores by its square

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
    """What may differ from layer to layer: how far it sees, and how fast its rotary positions turn."""

    window: int | None = None  # the last W keys when causal, W/2 to either side in an encoder; None sees all
    rotary_base: float = 10_000.0
    rotary_scaling: RotaryScaling | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and self.window < 1:
            raise self._refuse("window", "a layer must see at least 1 key; use None for no window")
        if self.rotary_base <= 0:
            raise self._refuse("rotary_base", "expected a number above 0")


@dataclass(frozen=True, kw_only=True)
class StackConfig(Config):
    """One stack of blocks. Whether it is causal and has cross-attention follows from its place in the model."""

    d_model: int
    num_layers: int
    num_blocks: int = OPEN  # the blocks that are stored, num_layers; fewer are applied several times in a row
    num_heads: int
    num_kv_heads: int = OPEN  # as many as num_heads; 1 is multi-query, between is grouped-query
    head_dim: int = OPEN  # d_model / num_heads
    d_ff: int = OPEN  # 4 d_model
    max_len: int = 512  # rows of a learned table; a sinusoidal one grows past it, the other schemes have no limit
    layer_kinds: tuple[LayerKind, ...] = (LayerKind(),)  # a pattern, repeated over the layers

    positions: Positions = "sinusoidal"
    position_offset: int = 0  # added tables are read from this row on
    sinusoids: Literal["interleaved", "halves", "closed_halves"] = "interleaved"  # how sines and cosines are laid out
    rotary_fraction: float = 1.0  # the part of head_dim that turns
    relative_buckets: int = 32
    relative_max_distance: int = 128

    norm: Literal["layer", "rms", "rms_offset"] = "layer"  # offset: multiplied by 1 + weight
    norm_order: Literal["pre", "post", "sandwich"] = "pre"
    norm_eps: float = 1e-5
    norm_bias: bool = True  # LayerNorm only; RMSNorm has none
    first_norm: bool = True  # the one before the first block's attention; the embedding may have just been normed
    final_norm: bool = OPEN  # after pre and sandwich order, not after post

    block: Literal["serial", "parallel", "parallel_two_norms"] = "serial"  # two: one each for attention and ffn
    activation: Activation = "relu"
    gated: bool = False
    qk_norm: bool = False
    attention_scale: float = OPEN  # what scores are multiplied by, 1 / sqrt(head_dim)
    score_cap: float | None = None  # scores are bent to stay within +-cap: cap tanh(score / cap)
    qkv_bias: bool = True
    out_bias: bool = True
    ffn_bias: bool = True

    dropout: float = 0.0  # on each residual branch
    attention_dropout: float = OPEN  # on the attention weights; as dropout
    ffn_dropout: float = OPEN  # on the feed-forward's hidden layer; as dropout
    embed_dropout: float = OPEN  # after embedding + position; as dropout
    drop_path: float = 0.0  # of leaving a whole branch out, for a sequence: 0 in the first layer, this in the last

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_sizes("num_layers", "num_blocks", most=MOST_LAYERS)
        self._check_sizes("d_model", "num_heads", "num_kv_heads", "head_dim", "d_ff", "max_len", most=LARGEST)
        if self.head_dim is None and self.d_model % self.num_heads:
            raise InputError(
                f"StackConfig.d_model is {self.d_model} and num_heads is {self.num_heads}: {self.d_model} does not "
                f"divide into {self.num_heads} heads. Choose num_heads among {_divisors(self.d_model)}, "
                f"or set head_dim to give the heads a width of their own"
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
            raise self._refuse("num_blocks", f"expected at most num_layers = {self.num_layers}: each is applied")
        if self.num_heads % self.num_kv_heads:
            raise self._refuse("num_kv_heads", f"must divide num_heads = {self.num_heads}: {_divisors(self.num_heads)}")
        for name in ("dropout", "attention_dropout", "ffn_dropout", "embed_dropout", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise self._refuse(name, "expected a probability from 0 up to, not including, 1")
        if not 0 < self.rotary_fraction <= 1:
            raise self._refuse("rotary_fraction", "expected a fraction above 0, up to 1")
        if self.positions == "rotary" and self.rotary_dim < 2:
            raise self._refuse("rotary_fraction", f"of head_dim = {self.head_dim} leaves no pair of dimensions to turn")
        if self.relative_buckets < 4 or self.relative_buckets % 2:
            raise self._refuse("relative_buckets", "expected an even number of at least 4")
        if self.relative_max_distance <= self.relative_buckets // 2:
            raise self._refuse("relative_max_distance", f"expected more than {self.relative_buckets // 2}")
        if not 0 <= self.position_offset <= LARGEST:
            raise self._refuse("position_offset", f"expected 0 or more rows, at most {LARGEST:,}")
        rows = self.max_len + self.position_offset
        if self.positions == "sinusoidal" and rows * self.d_model > MOST_POSITIONS:
            raise InputError(
                f"StackConfig.max_len is {self.max_len} (position_offset {self.position_offset}): a table of as many "
                f"positions and d_model = {self.d_model} has more than {MOST_POSITIONS:,} values. Choose a lower "
                "max_len: the table grows with the text"
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
                    f"long_factors: expected {pairs}, one for each pair of turning dimensions"
                )
        if self.block != "serial" and self.norm_order == "post":
            raise self._refuse("block", "attention and feed-forward are normed before, not after; set norm_order='pre'")
        if not self.first_norm and (self.norm_order != "pre" or self.block != "serial"):
            raise self._refuse("first_norm", "only a serial block in pre order can leave its first norm out")

    @property
    def rotary_dim(self) -> int:
        """How many dimensions of a head turn: an even number, because they turn in pairs."""
        return int(self.head_dim * self.rotary_fraction) // 2 * 2

    @property
    def room(self) -> int | None:
        """The longest sequence it can place: a learned table has a row for each position; else there is no end."""
        return self.max_len if self.positions == "learned" else None

    @property
    def every_kind(self) -> tuple[LayerKind, ...]:
        """The kind of each layer."""
        return tuple(self.layer_kinds[layer % len(self.layer_kinds)] for layer in range(self.num_layers))


@dataclass(frozen=True, kw_only=True)
class ImageConfig(Config):
    """An image cut into square patches (ViT: Dosovitskiy et al., 2021)."""

    size: int  # pixels to a side
    patch: int
    channels: int = 3
    class_token: bool = True
    distillation_token: bool = False  # a second token before the patches, which a teacher's answers train
    patch_bias: bool = True
    embed_norm: bool = False  # after the positions

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_sizes("size", "patch", "channels", most=LARGEST)
        if self.size % self.patch:
            raise self._refuse("patch", f"must divide size = {self.size}: {_divisors(self.size)}")

    @property
    def patches_per_side(self) -> int:
        return self.size // self.patch

    @property
    def num_tokens(self) -> int:
        return self.patches_per_side**2 + self.prefix_tokens

    @property
    def prefix_tokens(self) -> int:
        """The tokens that stand before the patches."""
        return self.class_token + self.distillation_token


@dataclass(frozen=True, kw_only=True)
class SeriesConfig(Config):
    """A series cut into patches, each channel by itself (PatchTST: Nie et al., 2023)."""

    length: int  # the values looked back on
    patch: int
    stride: int = OPEN  # patch, so that the patches do not overlap
    horizon: int = 1  # the values predicted by the forecast head
    channels: int | None = None  # None: any number of them
    instance_norm: bool = False  # each channel of a window is read at mean 0 and deviation 1, and forecast at its own

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(stride=self.patch)
        self._check_sizes("length", "patch", "stride", "horizon", "channels", most=LARGEST)
        if self.patch > self.length:
            raise self._refuse("patch", f"is longer than length = {self.length}")

    @property
    def num_tokens(self) -> int:
        return (self.length - self.patch) // self.stride + 1


def as_ids(value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """One id, several or none, as a tuple."""
    return () if value is None else value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(Config):
    """How a model is run where a call of `generate` does not say: what `generation_config.json` holds.

    Lengths count the places of the result, the prompt and its padding included; `new` ones only what is added to it.
    """

    max_length: int | None = None  # None: 20 new tokens
    max_new_tokens: int | None = None  # goes before max_length
    min_length: int = 0  # no end token before
    min_new_tokens: int | None = None  # goes before min_length

    do_sample: bool = False  # draw the next token by its probability; else take the likeliest
    temperature: float = 1.0  # logits are divided by it
    top_k: int = 50  # the likeliest tokens to draw from; 0 for all
    top_p: float = 1.0  # the fewest likeliest tokens that have this probability together
    min_p: float = 0.0  # tokens with at least this part of the likeliest one's probability

    num_beams: int = 1
    length_penalty: float = 1.0  # a text's score is divided by its length to this power
    early_stopping: bool | Literal["never"] = False  # True: at num_beams ended texts; else see `generation/beam.py`
    num_return_sequences: int = 1

    repetition_penalty: float = 1.0  # divides the logits of tokens that were there before
    no_repeat_ngram_size: int = 0  # no run of as many tokens occurs twice; 0 for none
    bad_words_ids: tuple[tuple[int, ...], ...] | None = None
    suppress_tokens: tuple[int, ...] | None = None
    forced_bos_token_id: int | None = None  # what follows the start token
    forced_eos_token_id: int | tuple[int, ...] | None = None  # what ends a text of max_length
    renormalize_logits: bool = False  # to log-probabilities again, after everything else
    stop_strings: str | tuple[str, ...] | None = None  # a text ends when it contains one of them; needs a tokenizer

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
            raise self._refuse("temperature", "nothing is divided by 0; for the likeliest token set do_sample=False")
        for name in ("top_p", "min_p"):
            if not 0 <= getattr(self, name) <= 1:
                raise self._refuse(name, "expected a probability from 0 to 1")
        if self.repetition_penalty <= 0:
            raise self._refuse("repetition_penalty", "expected a number above 0; 1.0 changes nothing")
        if self.bad_words_ids is not None and not all(self.bad_words_ids):
            raise self._refuse("bad_words_ids", "expected at least one token in each")
        if self.stop_strings == "" or (self.stop_strings and not all(self.stop_strings)):
            raise self._refuse("stop_strings", "expected at least one character in each")
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            forced = as_ids(getattr(self, name))
            if forced and set(forced) <= set(self.suppress_tokens or ()):
                raise self._refuse(name, "suppress_tokens forbids it, and then nothing can be written")
        if self.num_beams > 1 and self.num_return_sequences > self.num_beams:
            raise self._refuse("num_return_sequences", f"expected at most num_beams = {self.num_beams}")
        if self.num_beams == 1 and self.num_return_sequences > 1 and not self.do_sample:
            raise self._refuse("num_return_sequences", "all would be the same; set num_beams or do_sample=True")


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(Config):
    """What one call says of generation: fields of `GenerationConfig`, where None is the model's own, and a seed."""

    max_length: int | None = None
    max_new_tokens: int | None = None
    min_length: int | None = None
    min_new_tokens: int | None = None

    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None  # decides what is drawn

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
        """Those that are not left to the model."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def _name(self, field: str) -> str:
        return field  # as the keyword of a call


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """The whole model: an input, one or two stacks, a head.

    Encoder alone, decoder alone, or both: the three shapes of model. The encoder reads `image`, `series` or tokens
    of `vocab_size`; the decoder reads tokens of `target_vocab_size`, or of the one shared `vocab_size`.
    """

    encoder: StackConfig | None = None
    decoder: StackConfig | None = None

    vocab_size: int | None = None
    target_vocab_size: int | None = None  # None: one shared vocabulary, with one table of vectors
    image: ImageConfig | None = None
    series: SeriesConfig | None = None
    memory: Literal["cross", "prefix"] = "cross"  # the decoder attends to the encoder's vectors, or has them before it
    memory_project: Literal["none", "linear", "linear_norm"] = "none"  # what brings them to the decoder's width

    scale_embeddings: bool = False  # multiply token vectors by sqrt(d_model), as the paper does
    embed_dim: int | None = None  # None: d_model; vectors of a width of their own are projected to it
    embed_norm: bool = False
    num_segments: int = 0  # sentence A, sentence B: how many are told apart; 0 for none

    head: Head = "language"
    tie_embeddings: bool = True  # the language head's matrix is the (target) embedding
    head_activation: Activation | None = None  # given: a dense layer with it stands before the last one
    head_norm: bool = False  # and a norm behind that
    head_dense_bias: bool = True
    head_bias: bool = OPEN  # of the last layer: a language head has none, the others do
    head_dropout: float = OPEN  # before the last layer of heads that judge; as the stack's dropout
    logit_scale: float = 1.0
    logit_cap: float | None = None  # logits are bent to stay within +-cap
    num_classes: int | None = None
    pooling: Pooling = "mean"
    pooled_dim: int | None = None  # head 'pool': a last layer brings the pooled vector to this width
    two_classifiers: bool = False  # a second one reads the distillation token; their logits are averaged
    label_shift: Literal["start", "last"] = "start"  # what comes before the labels: a start token, or their last token

    init: Literal["paper", "modern"] = "modern"

    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | tuple[int, ...] | None = None  # any of them ends a text
    decoder_start_token_id: int | None = None
    generation: GenerationConfig = GenerationConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is None and self.decoder is None:
            raise InputError("TransformerConfig needs an encoder, a decoder, or both: give at least one StackConfig")
        if self.image and self.series:
            raise InputError("TransformerConfig has both image and series: the encoder reads one input")
        if self.patches and not self.encoder:
            raise InputError("TransformerConfig.image and .series feed the encoder: give one, encoder=StackConfig(...)")
        if self.reads_tokens and self.vocab_size is None:
            raise self._refuse("vocab_size", "a model that reads tokens needs the number of its tokens")
        self._check_sizes("vocab_size", "target_vocab_size", "embed_dim", "num_classes", "pooled_dim", most=LARGEST)
        if not 0 <= self.num_segments <= LARGEST:
            raise self._refuse("num_segments", "expected 0 for none, or how many are told apart")
        if self.target_vocab_size is not None and not (self.encoder and self.decoder and not self.patches):
            raise self._refuse("target_vocab_size", "only a model with a source and a target text has two vocabularies")
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
                    raise self._refuse(name, f"belongs to token embeddings, and this model reads patches{hint}")
        if not self.encoder or not self.decoder:
            for name, usual in (("memory", "cross"), ("memory_project", "none")):
                if getattr(self, name) != usual:
                    raise self._refuse(name, "it joins an encoder and a decoder, and this model has one stack")
            return
        if self.cross and self.decoder.block != "serial":
            raise InputError(
                f"TransformerConfig.decoder.block is {self.decoder.block!r}: it has no place for cross-attention"
            )
        widths = f"encoder.d_model is {self.encoder.d_model} and decoder.d_model is {self.decoder.d_model}"
        if self.encoder.d_model != self.decoder.d_model:
            if not self.patches and self.target_vocab_size is None and self.embed_dim is None:
                raise InputError(
                    f"TransformerConfig.{widths}: source and target share one table of vectors, so set both to the "
                    f"same, or target_vocab_size for two tables"
                )
            if self.prefix and self.memory_project == "none":
                raise self._refuse("memory", f"{widths}; set memory_project='linear' to bring one to the other's")
        if self.prefix:
            self._check_prefix(self.decoder)

    def _check_prefix(self, stack: StackConfig) -> None:
        """A source before the tokens has places of its own: only schemes that number tokens alone leave them."""
        if stack.positions not in ("learned", "sinusoidal", "none"):
            raise self._refuse(
                "memory", f"decoder.positions is {stack.positions!r}; choose 'learned', 'sinusoidal' or 'none'"
            )
        if any(kind.window is not None for kind in stack.layer_kinds):
            raise self._refuse("memory", "a layer with a window would lose sight of the source; use window=None")

    def _check_head(self) -> None:
        if self.head == "language" and not self.reads_tokens:
            raise self._refuse("head", "a model that reads patches has no vocabulary; choose 'class' or 'forecast'")
        if self.head in ("class", "token") and self.num_classes is None:
            raise self._refuse("num_classes", f"a {self.head} head needs the number of its classes")
        if self.head not in ("class", "token") and self.num_classes is not None:
            raise self._refuse("num_classes", f"only heads 'class' and 'token' have classes; head is {self.head!r}")
        if self.head == "forecast" and self.series is None:
            raise self._refuse("head", "a forecast is made from a series; give series=SeriesConfig(...)")
        if self.head == "forecast" and self.decoder:
            raise self._refuse("head", "is made for an encoder; this model has a decoder")
        if self.head == "class" and self.pooling == "first" and self.image and not self.image.class_token:
            raise self._refuse("pooling", "the first of the patches is no summary; set image.class_token or 'mean'")
        if self.head in ("class", "pool") and self.pooling in ("end", "first_end") and self.eos_token_id is None:
            raise self._refuse("pooling", "the end is found by its token; give eos_token_id")
        if self.head in ("class", "pool") and self.pooling in ("end", "first_end", "highest_id") and self.patches:
            raise self._refuse("pooling", "chooses among token ids, and this model reads patches")
        if self.head != "pool" and self.pooled_dim is not None:
            raise self._refuse("pooled_dim", f"only head 'pool' has a pooled vector to project; head is {self.head!r}")
        if self.two_classifiers and not (self.image and self.image.distillation_token and self.head == "class"):
            raise self._refuse("two_classifiers", "needs head='class' and image.distillation_token")
        if not 0 <= self.head_dropout < 1:
            raise self._refuse("head_dropout", "expected a probability from 0 up to, not including, 1")
        for name in ("logit_scale", "logit_cap"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise self._refuse(name, "expected a number above 0")

    @property
    def patches(self) -> ImageConfig | SeriesConfig | None:
        return self.image or self.series

    @property
    def cross(self) -> bool:
        """Whether the decoder attends to the encoder's vectors."""
        return self.encoder is not None and self.decoder is not None and self.memory == "cross"

    @property
    def prefix(self) -> bool:
        """Whether the encoder's vectors stand before the decoder's tokens."""
        return self.encoder is not None and self.decoder is not None and self.memory == "prefix"

    @property
    def memory_width(self) -> int | None:
        """The width of the vectors that the decoder is given; None where it is given none."""
        if self.encoder is None or self.decoder is None:
            return None
        return (self.encoder if self.memory_project == "none" else self.decoder).d_model

    @property
    def reads_tokens(self) -> bool:
        return self.decoder is not None or self.patches is None

    @property
    def output_vocab_size(self) -> int:
        """The tokens a language head chooses from; 0 if the model reads none."""
        return self.target_vocab_size or self.vocab_size or 0

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Every id that ends a text."""
        return as_ids(self.eos_token_id)

    @property
    def fill_token_id(self) -> int | None:
        """What stands where a text has ended: the padding, or without one the first end token."""
        return next(iter((*as_ids(self.pad_token_id), *self.eos_token_ids)), None)

    @property
    def last_stack(self) -> StackConfig:
        """The stack that the head answers for."""
        return self.decoder or self.encoder  # type: ignore[return-value]  # validated: there is one

    @property
    def pooled_width(self) -> int:
        """The width of a pooled vector."""
        return self.pooled_dim or self.last_stack.d_model

    @property
    def room(self) -> int | None:
        """The longest sequence that every stack can place; None where there is no end."""
        rooms = [stack.room for stack in (self.encoder, self.decoder) if stack is not None]
        return min((room for room in rooms if room is not None), default=None)

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """A published model by its name, with fields of the whole model changed: `named("base", vocab_size=8000)`."""
        if name not in NAMED:
            raise InputError(f"no config is named {name!r}{nearest(name, NAMED)}")
        return cls.from_dict({**NAMED[name], **changes})


@dataclass(frozen=True, kw_only=True)
class PairConfig(Config):
    """Two models that meet in one space: a text and an image become vectors of one width (`core/pair.py`)."""

    text: TransformerConfig
    image: TransformerConfig
    logit_scale: float = math.log(1 / 0.07)  # where training starts; similarities are multiplied by its exponential

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, config in (("text", self.text), ("image", self.image)):
            if config.head != "pool":
                raise InputError(f"PairConfig.{name}.head is {config.head!r}: expected 'pool', one vector for an input")
        if self.image.image is None or self.text.patches:
            wrong = "image" if self.image.image is None else "text"
            raise InputError(f"PairConfig.{wrong} does not read {wrong}s: give image=ImageConfig(...) to 'image' alone")
        if self.text.pooled_width != self.image.pooled_width:
            raise InputError(
                f"PairConfig.text gives vectors of {self.text.pooled_width} and PairConfig.image of "
                f"{self.image.pooled_width}: set pooled_dim of both to the same"
            )

    @property
    def last_stack(self) -> StackConfig:
        """The stack whose width a learning rate may depend on."""
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
    """Attention and feed-forward side by side, one key and value head for all, SwiGLU, no biases, scaled logits."""
    stack = StackConfig(
        d_model=d_model, num_layers=num_layers, num_heads=num_heads, num_kv_heads=1, head_dim=256, max_len=2048,
        block="parallel", positions="rotary", norm="layer", norm_bias=False, activation="silu", gated=True,
        qkv_bias=False, out_bias=False, ffn_bias=False,
    )  # fmt: skip
    return {"decoder": stack, "vocab_size": 256_000, "tie_embeddings": True, "logit_scale": d_model**-0.5}


# Table 3 of the paper, whose shared English-German vocabulary has 37,000 tokens; table 1 of PaLM (Chowdhery et al.,
# 2022), whose d_ff is 4 d_model.
NAMED: dict[str, dict[str, Any]] = {
    "base": _paper(d_model=512, d_ff=2048, num_heads=8, dropout=0.1),
    "big": _paper(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3),
    "palm-8b": _palm(d_model=4096, num_layers=32, num_heads=16),
    "palm-62b": _palm(d_model=8192, num_layers=64, num_heads=32),
    "palm-540b": _palm(d_model=18_432, num_layers=118, num_heads=48),
}


def _divisors(number: int) -> str:
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return listed([str(n) for n in sorted({*small, *(number // n for n in small)})])
