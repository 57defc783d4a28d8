"""A pair of an image model and a text model: which of your labels fits an image, and the vectors of both.

Zero-shot classification (CLIP: Radford et al., 2021): labels are texts, and the label with the vector nearest to the
image's is chosen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints.preparation import Preparation
from glassformer.core.pair import Pair
from glassformer.data.pixels import SUFFIXES
from glassformer.errors import InputError
from glassformer.generation.encode import BATCH_TOKENS, TextBatch, map_batches
from glassformer.predict.answers import Label
from glassformer.predict.calls import NO_LIMIT, TokenLimit, check_batch, check_characters, in_batches
from glassformer.predict.images import ImagePreparer, Picture, as_batch, read_pixels
from glassformer.predict.texts import TextPreparer
from glassformer.text import Encoded, Tokenizer
from glassformer.text.unknown import Unknown, check_mostly_known, find_unknown

MatchInput = str | Picture  # a text, the path of an image, or an image without a file


class PairPreparer:
    """Prepares images and texts for a pair of models."""

    kind = "match"

    def __init__(self, model: Pair, preparation: Preparation, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.pictures = ImagePreparer(model.image, preparation)
        self.words = TextPreparer(model.text, tokenizer, "match", aloud=False)

    @property
    def preparation(self) -> Preparation:
        return self.pictures.preparation

    def unknown(self, inputs: Sequence[MatchInput], labels: Sequence[str] | None) -> list[Unknown]:
        """The unknown tokens of the labels, or of the inputs that are texts."""
        texts = labels if labels is not None else [given for given in inputs if not is_image(given)]
        found = find_unknown(self.tokenizer, [str(text) for text in texts])
        what = "label" if labels is not None else "text"
        check_mostly_known(self.tokenizer, found, [f"{what} {number}" for number in range(1, len(texts) + 1)])
        if labels is not None:
            return found[:0] if not any(one.pieces for one in found) else found
        rest = iter(found)
        return [Unknown(0) if is_image(given) else next(rest) for given in inputs]


def is_image(given: MatchInput) -> bool:
    """Whether an input is an image, or the path of a file."""
    return isinstance(given, Picture) or Path(given).suffix.lower() in SUFFIXES or is_file(given)


def is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # too long for a file name, or with a null character
        return False


def match(
    model: Pair,
    preparer: PairPreparer,
    inputs: Sequence[MatchInput],
    *,
    labels: Sequence[str] | None = None,
    limit: TokenLimit = NO_LIMIT,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> list[Label] | Tensor:
    """The label that fits each image best; without labels, the vector of each image or text."""
    check_batch(inputs)
    sizes: dict[str, Any] = {"batch_tokens": batch_tokens, "batch_size": batch_size}
    if labels is None:
        return vectors_of(model, preparer, inputs, limit, **sizes)
    labels = checked_labels(labels)
    for number, given in enumerate(inputs, start=1):
        if not is_image(given):
            raise InputError(
                f"input {number} is {given!r:.60}, a text: labels are for images. Give image files such as .png or .jpg"
            )
    texts = text_vectors(model, preparer, labels, limit, **sizes)
    images = image_vectors(model, preparer, inputs, **sizes)
    with torch.no_grad():
        scores = model.logits(images.to(model.device), texts.to(model.device)).float().softmax(dim=1)
    best = scores.argmax(dim=1).tolist()
    return [
        Label(labels[first], row[first], dict(zip(labels, row, strict=True)))
        for first, row in zip(best, scores.tolist(), strict=True)
    ]


def checked_labels(labels: Sequence[str]) -> list[str]:
    """The labels as a list. Refuses fewer than two, duplicates, and images."""
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"labels are {labels!r:.60}: expected a list of texts")
    for number, label in enumerate(labels, start=1):
        check_characters(label, f"label {number}")
        if not label.strip():
            raise InputError(f"label {number} is empty: expected at least a word")
        if is_image(label):
            raise InputError(f"label {number} is the image {label!r}: expected a text, such as 'a red circle'")
        if label in labels[: number - 1]:
            raise InputError(f"label {number} is given twice: {label!r}. Leave one of them out")
    if len(labels) < 2:
        raise InputError(f"{'1 label' if labels else 'no labels'} given: expected at least 2 to choose from")
    return list(labels)


def vectors_of(
    model: Pair,
    preparer: PairPreparer,
    inputs: Sequence[MatchInput],
    limit: TokenLimit,
    *,
    batch_tokens: int,
    batch_size: int | None,
) -> Tensor:
    """The vectors (inputs, width) of images and texts, each of length 1."""
    sizes: dict[str, Any] = {"batch_tokens": batch_tokens, "batch_size": batch_size}
    places: dict[bool, list[int]] = {True: [], False: []}
    for number, given in enumerate(inputs):
        places[is_image(given)].append(number)
    texts = text_vectors(model, preparer, [str(inputs[i]) for i in places[False]], limit, **sizes)
    images = image_vectors(model, preparer, [inputs[i] for i in places[True]], **sizes)
    found = torch.empty(len(inputs), model.config.text.pooled_width)
    found[places[False]], found[places[True]] = texts, images
    return found


def text_vectors(
    model: Pair,
    preparer: PairPreparer,
    texts: Sequence[str],
    limit: TokenLimit = NO_LIMIT,
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> Tensor:
    """The vectors (texts, width), each of length 1."""

    def encode(some: Sequence[str], most: int | None) -> Encoded:
        return preparer.tokenizer.encode(list(some), max_length=most)

    def run(batch: TextBatch) -> list[Tensor]:
        return list(model(**batch.arguments).text_embeds.float().cpu())

    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"text {number} is empty: expected at least a word. Leave it out")
    rows = in_batches(model.text, texts, encode, run, batch_tokens, batch_size, limit) if texts else []
    return torch.stack(rows) if rows else torch.empty(0, model.config.text.pooled_width)


@torch.no_grad()
def image_vectors(
    model: Pair,
    preparer: PairPreparer,
    images: Sequence[MatchInput],
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
) -> Tensor:
    """The vectors (images, width), each of length 1."""
    reads = model.config.image.image
    assert reads is not None

    def run(numbers: Sequence[int]) -> list[Tensor]:
        pixels = as_batch(model.image, [read_pixels(images[i], preparer.preparation) for i in numbers])
        return list(model(pixel_values=pixels).image_embeds.float().cpu())

    rows = map_batches([reads.num_tokens] * len(images), run, batch_tokens, batch_size=batch_size)
    return torch.stack(rows) if rows else torch.empty(0, model.config.image.pooled_width)
