"""The logit lens (nostalgebraist, 2020): what a language model would predict if it stopped after each layer.

The final norm and the head are applied to the residual stream after every layer. The rows show at which layer the
prediction settles; the last row is the model's own prediction.
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
from glassformer.inspect.looks.attention import CONTINUATION_TOKENS
from glassformer.predict.captions import CaptionPreparer
from glassformer.predict.images import Picture
from glassformer.predict.prepare import prepare_words
from glassformer.predict.prepared import StackTokens
from glassformer.predict.texts import TextPreparer
from glassformer.watch.record import record

TOP = 5
MAX_LENS_POSITIONS = 32  # most positions in a figure: more would be unreadable


@dataclass(frozen=True)
class Lens:
    """The most likely tokens after each layer, at each position. Row 0 is before the first layer."""

    tokens: Tensor  # (layers + 1, B, T, top): ids, most likely first
    probabilities: Tensor  # (layers + 1, B, T, top)
    logits: Tensor  # (B, T, V) of the last row: those of the model itself


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
    """The lens over the stack before the head. With two stacks that is the decoder, which needs `decoder_input_ids`."""
    head, stack = check_head(model), model.decoder or model.encoder
    assert stack is not None  # a model has at least one
    if not 1 <= top <= model.config.output_vocab_size:
        raise InputError(f"top is {top}: expected 1 to {model.config.output_vocab_size}, the size of the vocabulary")
    name = "decoder" if model.decoder is not None else "encoder"
    places = lens_places(stack, name)
    tokens, probabilities = [], []
    is_prefix = model.config.prefix and decoder_input_ids is not None  # a source before the tokens predicts no word
    tokens_read = decoder_input_ids.shape[1] if is_prefix and decoder_input_ids is not None else None
    with evaluating(model):
        with record(model, attention=False, activations=places) as seen:
            model(input_ids, attention_mask, pixel_values=pixel_values, decoder_input_ids=decoder_input_ids)
        for place in places:
            stream = seen[place] if tokens_read is None else seen[place][:, -tokens_read:]  # (B, T, D)
            logits = head(stack.norm(stream))  # (B, T, V)
            best = logits.float().softmax(dim=-1).topk(top, dim=-1)  # (B, T, top)
            tokens.append(best.indices)
            probabilities.append(best.values)
    return Lens(torch.stack(tokens), torch.stack(probabilities), logits)


def lens_places(stack: Stack, name: str) -> list[str]:
    """The steps to read: the residual stream before the first layer and after each. A parallel block adds only once."""
    end = "attn_residual" if stack.config.block == "parallel" else "ffn_residual"
    return [f"{name}.placed", *(f"{name}.blocks.{layer}.{end}" for layer in range(stack.config.num_layers))]


def lens_of_text(
    preparer: TextPreparer | CaptionPreparer, given: str | Picture, question: str | None = None
) -> tuple[Lens, StackTokens]:
    """The lens over a text or an image and the model's output for it, and the tokens of its columns."""
    check_head(preparer.model)
    prepared = prepare_words(preparer, given, question=question, new_tokens=CONTINUATION_TOKENS)
    given_to = prepared.arguments.get
    lens = logit_lens(
        preparer.model, given_to("input_ids"), pixel_values=given_to("pixel_values"),
        decoder_input_ids=given_to("decoder_input_ids"),
    )  # fmt: skip
    return lens, prepared.lines.get("decoder", prepared.lines.get("encoder", StackTokens([])))


def picture_lens(
    preparer: TextPreparer | CaptionPreparer, given: str | Picture, path: Path, question: str | None = None
) -> None:
    """Draws the lens over a text, or over the text generated for an image: rows are layers, columns are tokens, and
    each cell shows the most likely word."""
    model, tokenizer = preparer.model, preparer.tokenizer
    lens, line = lens_of_text(preparer, given, question)
    columns = line.names
    first = max(0, len(columns) - MAX_LENS_POSITIONS)
    mask = tokenizer.special.get("mask_token")
    if mask in columns:  # always show the masked token
        first = min(first, columns.index(mask))
    shown = slice(first, first + MAX_LENS_POSITIONS)
    words = [preparer.words.names(row[0, shown, 0]) for row in lens.tokens.cpu()]
    layers = ["the input", *(f"layer {layer}" for layer in range(len(words) - 1))]
    said = "the next word" if model.decoder is not None else "the word at each position"
    part = (
        ""
        if len(columns) <= MAX_LENS_POSITIONS
        else f" (tokens {first} to {first + MAX_LENS_POSITIONS - 1} of {len(columns)})"
    )
    probabilities = lens.probabilities[:, 0, shown, 0].cpu()  # (layers + 1, T)
    draw_lens(words, probabilities, columns[shown], layers, f"logit lens: {said}, layer by layer{part}", path)


def check_head(model: Transformer) -> LanguageHead:
    if not isinstance(model.head, LanguageHead):
        raise InputError(
            f"the logit lens needs a model with head = 'language', but this one has head = {model.config.head!r}. "
            "Give a language model or a translation model"
        )
    return model.head
