"""A small input for any model, made from its config: the input of golden values and of `verify`.

Two rows of different lengths, padded on the right; for images and series, sine waves. Nothing is random, so every
machine and every version makes the same input.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from glassformer.config import PairConfig, StackConfig, TransformerConfig, as_ids
from glassformer.core.model import Transformer
from glassformer.core.pair import Pair
from glassformer.text.padding import pad

LENGTHS, TARGET_LENGTHS = (12, 7), (6, 11)  # the longer source has the shorter target
MASKS = {
    "input_ids": "attention_mask",
    "token_type_ids": "attention_mask",
    "attention_mask": "attention_mask",
    "decoder_input_ids": "decoder_attention_mask",
    "decoder_attention_mask": "decoder_attention_mask",
}
EXAMPLE_CHANNELS = 2  # of a series that may have any number


def make_example(config: TransformerConfig | PairConfig) -> dict[str, Tensor]:
    """The keyword arguments for a call of this model."""
    if isinstance(config, PairConfig):
        return make_example(config.text) | make_example(config.image)
    if config.image:
        side = config.image.size
        inputs = {"pixel_values": wave((2, config.image.channels, side, side))}
    elif config.series:
        inputs = {"past_values": wave((2, config.series.length, config.series.channels or EXAMPLE_CHANNELS))}
    else:
        source = text_rows(
            config, config.vocab_size or 0, fitting_lengths(config.encoder or config.last_stack, LENGTHS)
        )
        inputs = padded(source, "input_ids", config)
        if config.num_segments > 1:
            second_half = torch.arange(inputs["input_ids"].shape[1]) >= len(source[1]) // 2
            inputs["token_type_ids"] = second_half.long().expand_as(inputs["input_ids"]).contiguous()
    if config.encoder and config.decoder:
        # With heads class, span and pool, the decoder reads the source again, shifted right.
        reads_twice = config.head in ("class", "span", "pool") and not config.patches
        lengths = fitting_lengths(config.decoder, LENGTHS if reads_twice else TARGET_LENGTHS)
        target = source if reads_twice else text_rows(config, config.output_vocab_size, lengths)
        inputs |= padded([[start_token(config), *row[:-1]] for row in target], "decoder_input_ids", config)
    return inputs


def fitting_lengths(stack: StackConfig, lengths: tuple[int, int]) -> tuple[int, int]:
    """The lengths, limited to the stack's longest sequence."""
    most = max(lengths) if stack.room is None else stack.room
    return min(lengths[0], most), min(lengths[1], most)


def text_rows(config: TransformerConfig, vocab_size: int, lengths: tuple[int, int]) -> list[list[int]]:
    """Rows of ordinary tokens spread over the vocabulary; they end with the end token if the model needs one."""
    special = {*as_ids(config.pad_token_id), *as_ids(config.bos_token_id), *config.eos_token_ids}
    special |= {*as_ids(config.decoder_start_token_id)}
    ordinary = [token for token in range(vocab_size) if token not in special] or list(range(vocab_size))
    golden_ratio = 0.6180339887498949  # the fractional parts of its multiples are spread evenly
    count = iter(range(1, sum(lengths) + 1))
    rows = [[ordinary[int(next(count) * golden_ratio % 1 * len(ordinary))] for _ in range(n)] for n in lengths]
    end = [token for token in config.eos_token_ids[:1] if token < vocab_size]
    ends = bool(end) and ((config.encoder and config.decoder) or config.pooling in ("end", "first_end"))
    return [[*row[:-1], *end] for row in rows] if ends else rows


def start_token(config: TransformerConfig) -> int:
    return next(iter((*as_ids(config.decoder_start_token_id), *as_ids(config.bos_token_id), 0)))


def padded(rows: list[list[int]], name: str, config: TransformerConfig) -> dict[str, Tensor]:
    limit = config.output_vocab_size if name.startswith("decoder") else config.vocab_size or 0
    fill = config.fill_token_id if config.fill_token_id is not None and config.fill_token_id < limit else 0
    return {name: pad(rows, fill), MASKS[name]: pad([[1] * len(row) for row in rows], 0)}


def wave(shape: tuple[int, ...]) -> Tensor:
    """sin(n) for the n-th element: values from -1 to 1 that do not repeat."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float64).sin().float().reshape(shape)


def single_row(inputs: Mapping[str, Tensor], row: int) -> dict[str, Tensor]:
    """One row alone, without padding and mask."""
    found = {}
    for name, value in inputs.items():
        if name not in MASKS:
            found[name] = value[row : row + 1]
        elif MASKS[name] != name:
            found[name] = value[row, inputs[MASKS[name]][row].bool()][None]
    return found


def left_padded(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same rows with their padding on the left."""
    found = dict(inputs)
    for name in inputs.keys() & MASKS.keys():
        keep = inputs[MASKS[name]]
        shifts = (keep.shape[1] - keep.sum(dim=1)).tolist()
        found[name] = torch.stack([row.roll(shift) for row, shift in zip(inputs[name], shifts, strict=True)])
    return found


@torch.no_grad()
def answers(model: Transformer | Pair, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The head's outputs at kept tokens, and the hidden states before the head unless it is a language head.

    The hidden states before a language head depend on the layout of sinusoids in the file; its logits do not. For a
    pair: the image-text logits and both embeddings.
    """
    output = model(**inputs)
    if isinstance(model, Pair):
        return {name: getattr(output, name) for name in ("logits_per_image", "text_embeds", "image_embeds")}
    found = {name: getattr(output, name) for name in ("logits", "pooled", "start_logits", "end_logits")}
    if model.config.head != "language":
        found["last_hidden_state"] = output.last_hidden_state
    return {
        name: without_padding(value, inputs) if is_per_token(name, model.config) else value
        for name, value in found.items()
        if value is not None
    }


def is_per_token(name: str, config: TransformerConfig) -> bool:
    return config.head in ("language", "token") if name == "logits" else name != "pooled"


def without_padding(value: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """(B, T, ...) -> the values at tokens that are not padding, row after row."""
    keep = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    return value.flatten(0, 1) if keep is None else value[keep.bool()]
