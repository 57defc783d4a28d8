"""The input stage: tokens, images and series become vectors (B, T, D), by a table or by projecting patches.

The rest is the same for every input, see `Embedding.place`: add segments and positions, then an optional norm,
dropout, and a projection if the embedding width is not d_model. Read next: `positions.py`.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import ImageConfig, SeriesConfig, StackConfig
from glassformer.core.layers import Convolution, Linear, Lookup
from glassformer.core.norms import make_norm
from glassformer.core.positions import make_added_positions
from glassformer.errors import InputError


class Embedding(nn.Module):
    """x = inputs, which are vectors already. Base class: subclasses override how an input becomes vectors."""

    def __init__(
        self,
        config: StackConfig,
        width: int,
        *,
        max_len: int | None = None,
        num_segments: int = 0,
        norm: bool = False,
        project: bool = False,
    ) -> None:
        super().__init__()
        self.positions = make_added_positions(config, width, max_len or config.max_len)
        self.segments = Lookup(num_segments, width) if num_segments else None
        self.norm = make_norm(config, width) if norm else nn.Identity()
        self.dropout = nn.Dropout(config.embed_dropout)
        self.project = Linear(width, config.d_model) if project else nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs  # (B, T, E)

    def place(self, x: Tensor, positions: Tensor, span: int, segments: Tensor | None = None) -> Tensor:
        """project(dropout(norm(x + segment + position)))."""
        if self.segments is not None:
            segments = torch.zeros_like(positions) if segments is None else segments
            if segments.shape[1:] != x.shape[1:2] or segments.shape[0] not in (1, x.shape[0]):
                expected = tuple(x.shape[:2])
                raise InputError(f"token_type_ids have shape {tuple(segments.shape)}: expected {expected}")
            x = x + look_up(self.segments, segments, "token_type_ids", "num_segments")  # (B, T, E)
        elif segments is not None:
            raise InputError("this model has no segments (num_segments = 0): leave token_type_ids out")
        if self.positions is not None:
            x = x + self.positions(positions, span).to(x.dtype)  # (B, T, E)
        return self.project(self.dropout(self.norm(x)))  # (B, T, D)


class TokenEmbedding(Embedding):
    """x_t = scale * table[token_t]."""

    def __init__(
        self,
        config: StackConfig,
        vocab_size: int,
        *,
        width: int | None = None,
        scale: float = 1.0,
        num_segments: int = 0,
        norm: bool = False,
    ) -> None:
        project, width = width is not None, width or config.d_model
        super().__init__(config, width, num_segments=num_segments, norm=norm, project=project)
        self.tokens = Lookup(vocab_size, width)
        self.scale = scale

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.ndim != 2:
            raise InputError(f"token ids have shape {tuple(inputs.shape)}: expected (batch, length)")
        return look_up(self.tokens, inputs, "token ids", "vocab_size") * self.scale  # (B, T, E)


class PatchEmbedding(Embedding):
    """x_n = W patch_n + b for each square patch of an image, after the class and distillation tokens."""

    def __init__(self, config: StackConfig, image: ImageConfig) -> None:
        super().__init__(config, config.d_model, max_len=image.num_tokens, norm=image.embed_norm)
        self.image, side = image, image.patch >> image.stem
        self.stem = Stem(image, config.d_model) if image.stem else nn.Identity()
        channels = config.d_model if image.stem else image.channels
        self.patches = Convolution(channels, config.d_model, kernel_size=side, stride=side, bias=image.patch_bias)
        self.class_token, self.distillation_token = (
            nn.Parameter(torch.zeros(1, 1, config.d_model)) if wanted else None
            for wanted in (image.class_token, image.distillation_token)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        expected = (self.image.channels, self.image.size, self.image.size)
        if inputs.ndim != 4 or tuple(inputs.shape[1:]) != expected:
            raise InputError(
                f"pixel_values have shape {tuple(inputs.shape)}: expected (batch, channels, height, width) "
                f"= (batch, {', '.join(map(str, expected))})"
            )
        if not inputs.is_floating_point():
            raise InputError(f"pixel_values have dtype {inputs.dtype}: expected floats, normalised as in training")
        x = self.patches(self.stem(inputs)).flatten(2).transpose(1, 2)  # (B, N, D)
        before = [token for token in (self.class_token, self.distillation_token) if token is not None]
        return torch.cat([*(token.expand(len(x), -1, -1) for token in before), x], dim=1)  # (B, T, D)


class Stem(nn.Module):
    """relu(pool(W * x)), several times: 3x3 convolutions, each followed by max pooling, which halves the image.

    As in compact Transformers (Hassani et al., 2021); they pool after the ReLU, which is the same and slower.
    """

    def __init__(self, image: ImageConfig, width: int) -> None:
        super().__init__()
        widths = [image.channels, *(max(1, width >> after) for after in reversed(range(image.stem)))]
        self.halves = nn.ModuleList(
            Convolution(before, after, kernel_size=3, padding=1) for before, after in pairwise(widths)
        )

    def forward(self, x: Tensor) -> Tensor:
        for half in self.halves:
            x = half(x).contiguous(memory_format=torch.channels_last)  # pooling is three times as fast on a CPU
            x = F.relu(F.max_pool2d(x, kernel_size=3, stride=2, padding=1))
        return x


class SeriesEmbedding(Embedding):
    """x_n = W patch_n + b for each patch of a channel. Channels are independent: they become rows of the batch.

    Instance norm first normalises each channel to mean 0 and deviation 1; `model.py` undoes it for a forecast. Folding
    by 24 makes a row of each hour of the day: a patch is then the values of this hour on some days.
    """

    def __init__(self, config: StackConfig, series: SeriesConfig) -> None:
        super().__init__(config, config.d_model, max_len=series.num_tokens)
        self.series = series
        self.patches = Linear(series.patch // series.fold, config.d_model)

    def forward(self, inputs: Tensor) -> Tensor:
        length, channels = self.series.length, self.series.channels
        if inputs.ndim != 3 or inputs.shape[1] != length or channels not in (None, inputs.shape[2]):
            expected = f"(batch, {length}, {channels or 'channels'})"
            raise InputError(f"past_values have shape {tuple(inputs.shape)}: expected {expected}")
        if self.series.instance_norm:
            mean, deviation = level_of(inputs)  # (B, 1, C), (B, 1, C)
            inputs = (inputs - mean) / deviation  # (B, L, C)
        fold, patch, stride = self.series.fold, self.series.patch, self.series.stride
        rows = inputs.transpose(1, 2).unflatten(2, (-1, fold)).transpose(2, 3).flatten(0, 2)  # (B*C*M, L/M)
        skipped = (self.series.length - patch) % stride  # oldest values, too few for a patch
        patches = rows[:, skipped // fold :].unfold(1, patch // fold, stride // fold)  # (B*C*M, N, P/M)
        return self.patches(patches)  # (B*C*M, N, D)


class Memory(nn.Module):
    """norm(W x + b): projects the encoder's output to the decoder's width."""

    def __init__(self, encoder: StackConfig, decoder: StackConfig, *, norm: bool) -> None:
        super().__init__()
        self.project = Linear(encoder.d_model, decoder.d_model)
        self.norm = make_norm(encoder, decoder.d_model) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.project(x))  # (B, S, D)


def level_of(values: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and standard deviation of each channel over time (reversible instance norm: Kim et al., 2022)."""
    variance, mean = torch.var_mean(values, dim=1, correction=0, keepdim=True)  # (B, 1, C), (B, 1, C)
    return mean, (variance + 1e-5).sqrt()  # (B, 1, C), (B, 1, C)


def look_up(table: nn.Embedding, ids: Tensor, name: str, size_name: str) -> Tensor:
    """table[ids], with an error that names the first id out of range."""
    try:
        return F.embedding(ids, table.weight)  # (B, T, E)
    except IndexError:
        size = table.num_embeddings
        wrong = ids[(ids < 0) | (ids >= size)]
        raise InputError(
            f"{name} hold {int(wrong[0])}: expected ids from 0 to {size - 1}, as {size_name} is {size}. "
            f"Use the tokenizer that belongs to this model"
        ) from None
