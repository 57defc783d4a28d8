"""The logit lens (nostalgebraist, 2020): what a language model would say if it stopped after each layer.

The head, with the final norm before it, reads the stream after every layer as if it were the last. Row by row one
sees when a model makes up its mind. The last row is what it says.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.core.heads import LanguageHead
from glassformer.core.model import Transformer
from glassformer.core.stack import Stack
from glassformer.errors import InputError
from glassformer.figures.drawings import draw_lens
from glassformer.generation.loop import evaluating
from glassformer.inspect.looks.attention import CONTINUED
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.images import Picture
from glassformer.predict.prepare import prepare_words
from glassformer.predict.prepared import Line
from glassformer.predict.texts import TextPreparer
from glassformer.watch.record import record

TOP = 5
SHOWN = 32  # positions of a picture: more words cannot be read


@dataclass(frozen=True)
class Lens:
    """The likeliest tokens after each layer, at each position. Row 0 is before the first layer."""

    tokens: Tensor  # (layers + 1, B, T, top): ids, the likeliest first
    probabilities: Tensor  # (layers + 1, B, T, top)
    logits: Tensor  # (B, T, V) of the last row: the model's own


@torch.no_grad()
def logit_lens(
    model: Transformer,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    *,
    pixel_values: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
    top: int = TOP,
) -> Lens:
    """The lens over the stack that the head reads: of two stacks the decoder, which then needs its own input."""
    head, stack = check_head(model), model.decoder or model.encoder
    assert stack is not None  # a model has at least one
    if not 1 <= top <= model.config.output_vocab_size:
        raise InputError(f"top is {top}: expected 1 to {model.config.output_vocab_size}, the size of the vocabulary")
    name = "decoder" if model.decoder is not None else "encoder"
    places = lens_places(stack, name)
    tokens, probabilities = [], []
    with evaluating(model):
        with record(model, attention=False, activations=places) as seen:
            model(input_ids, attention_mask, pixel_values=pixel_values, decoder_input_ids=decoder_input_ids)
        for place in places:
            logits = head(stack.norm(seen[place]))  # (B, T, V)
            best = logits.float().softmax(dim=-1).topk(top, dim=-1)  # (B, T, top)
            tokens.append(best.indices)
            probabilities.append(best.values)
    return Lens(torch.stack(tokens), torch.stack(probabilities), logits)


def lens_places(stack: Stack, name: str) -> list[str]:
    """The stream that is read: before the first layer, and after each. A parallel block adds both its parts at once."""
    end = "attn_residual" if stack.config.block == "parallel" else "ffn_residual"
    return [f"{name}.placed", *(f"{name}.blocks.{layer}.{end}" for layer in range(stack.config.num_layers))]


def lens_of_text(
    preparer: TextPreparer | CaptionPreparer, given: str | Picture, question: str | None = None
) -> tuple[Lens, Line]:
    """The lens over a text, or a picture, and what the model writes for it; and the tokens of its columns."""
    check_head(preparer.model)
    prepared = prepare_words(preparer, given, question=question, new_tokens=CONTINUED)
    given_to = prepared.arguments.get
    lens = logit_lens(
        preparer.model, given_to("input_ids"), pixel_values=given_to("pixel_values"),
        decoder_input_ids=given_to("decoder_input_ids"),
    )  # fmt: skip
    return lens, prepared.lines.get("decoder", prepared.lines.get("encoder", Line([])))


def picture_lens(
    preparer: TextPreparer | CaptionPreparer, given: str | Picture, path: Path, question: str | None = None
) -> None:
    """The lens over a text, or what is written about a picture: a row for each layer, a column for each token, and in
    each cell the likeliest word."""
    model, tokenizer = preparer.model, preparer.tokenizer
    lens, line = lens_of_text(preparer, given, question)
    columns = line.names
    first = max(0, len(columns) - SHOWN)
    mask = tokenizer.special.get("mask_token")
    if mask in columns:  # what is asked for is seen in any case
        first = min(first, columns.index(mask))
    shown = slice(first, first + SHOWN)
    words = [preparer.words.names(row[0, shown, 0]) for row in lens.tokens.cpu()]
    layers = ["the input", *(f"layer {layer}" for layer in range(len(words) - 1))]
    said = "which word comes next" if model.decoder is not None else "which word stands here"
    part = "" if len(columns) <= SHOWN else f" (tokens {first} to {first + SHOWN - 1} of {len(columns)})"
    probabilities = lens.probabilities[:, 0, shown, 0].cpu()  # (layers + 1, T)
    draw_lens(words, probabilities, columns[shown], layers, f"logit lens: {said}, layer by layer{part}", path)


def check_head(model: Transformer) -> LanguageHead:
    if not isinstance(model.head, LanguageHead):
        raise InputError(
            f"the logit lens reads words off the stream, and this model has the head {model.config.head!r}: it needs a "
            "language model"
        )
    return model.head
