"""Prepares images for a model that writes about them, and generates: a caption, or the answer to a question.

The question is the decoder's prompt: the model reads `start question start` and continues with the answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoints.preparation import Preparation
from glassformer.config import GenerationOptions, TransformerConfig
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation import generate
from glassformer.generation.encode import BATCH_TOKENS, map_batches
from glassformer.generation.engine import Engine
from glassformer.predict.calls import TEXTS_AT_ONCE, check_batch, check_characters, check_length, start_id
from glassformer.predict.images import ImagePreparer, Picture, as_batch, read_pixels
from glassformer.predict.prepared import Prepared, StackTokens
from glassformer.predict.texts import TextPreparer
from glassformer.predict.writing import MODEL_DEFAULTS, limited_to_model, make_generator
from glassformer.text import Tokenizer
from glassformer.text.padding import pad
from glassformer.text.unknown import Unknown, UnknownTally, check_mostly_known, find_unknown

ImageInput = str | Path | Picture  # an image: a path, or pixels
ImageQuestion = tuple[ImageInput, str]  # an image and a question


class CaptionPreparer:
    """Prepares images for a model that captions them, or that answers questions about them (ability `ask`)."""

    def __init__(
        self,
        model: Transformer,
        preparation: Preparation,
        tokenizer: Tokenizer,
        ability: str = "caption",
        *,
        limit: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.ability = model, tokenizer, ability
        self.kind = ability
        self.pictures = ImagePreparer(model, preparation)
        self.words = TextPreparer(model, tokenizer, ability, limit=limit, aloud=False)

    @property
    def preparation(self) -> Preparation:
        return self.pictures.preparation

    def limited(self, limit: int) -> "CaptionPreparer":
        """A copy that takes texts of at most `limit` tokens."""
        return CaptionPreparer(self.model, self.preparation, self.tokenizer, self.ability, limit=limit)

    def prepare(
        self,
        given: ImageInput,
        question: str | None = None,
        *,
        target: str | None = None,
        continued: Sequence[int] | None = None,
    ) -> Prepared:
        """The call for one image. The decoder reads the `target` text or the `continued` ids; without either, the text
        that the model generates."""
        if target is not None and continued is not None:
            raise InputError("target and continued were both given: choose one")
        prompt, notes = self.prompt(question), self.notes(question)
        picture = self.pictures.prepare(given)
        pixels = picture.arguments["pixel_values"]
        if target is not None:
            wrote = self.forced(target)
        elif continued is not None:
            self.words.check_ids(continued)
            wrote = list(continued)
        else:
            options, generator = self.least_options(len(prompt)), make_generator(self.model, 0)
            row = generate_captions(self.model, self.tokenizer, pixels, [prompt], options, generator)[0]
            wrote = row[len(prompt) :].tolist()
        ids = [*prompt, *wrote]
        read = ids if continued is not None else ids[:-1]
        check_length(len(read), self.words.room, "question with its answer" if question else "caption")
        tokens = self.words.target_texts.describe_all(ids)  # together: several tokens may form one character
        given_tokens = len(read) if target is not None else len(prompt)
        line = StackTokens(tokens[: len(read)], tokens[1:], prompt=given_tokens, begins=len(prompt) - 1)
        return replace(
            picture,
            arguments={"pixel_values": pixels, "decoder_input_ids": self.words.tensor(read)},
            lines={**picture.lines, "decoder": line},
            text=self.tokenizer.decode(wrote),
            written=read,
            notes=notes,
        )

    def prompt(self, question: str | None) -> list[int]:
        """The ids that the decoder reads first."""
        check_question(question, self.ability)
        return prompt_ids(self.model.config, self.tokenizer, question)

    def notes(self, question: str | None) -> tuple[str, ...]:
        """Remarks for the user on how the question was read."""
        if question is None:
            return ()
        found = find_unknown(self.tokenizer, [question])
        check_mostly_known(self.tokenizer, found, ["the question"])
        return tuple(filter(None, (UnknownTally(found).sentence(),)))

    def unknown(self, inputs: Sequence[ImageInput | ImageQuestion], question: str | None) -> list[Unknown]:
        """The unknown tokens in the question about each image."""
        asked = [given[1] if isinstance(given, tuple) else question or "" for given in inputs]
        for one in asked:
            check_one_text(one)
        found = find_unknown(self.tokenizer, asked)
        check_mostly_known(self.tokenizer, found, [f"question {number + 1}" for number in range(len(asked))])
        return found

    def forced(self, target: str) -> list[int]:
        """The ids of a given text, followed by the end token if the model has one."""
        if not target.strip():
            raise InputError("the target is empty: write at least a word, or leave it out")
        check_characters(target, "the target")
        return [*self.tokenizer.ids(target, add_special=False), *self.model.config.eos_token_ids[:1]]

    def least_options(self, prompt: int) -> GenerationOptions:
        """The model's own options, with a length that fits the caller's limit."""
        options, room = limited_to_model(self.model, MODEL_DEFAULTS, prompt), self.words.room
        own = self.model.config.generation
        most = options.max_new_tokens or own.max_new_tokens or (own.max_length and own.max_length - prompt) or 1
        return options.replace(max_new_tokens=most if room is None else max(1, min(most, room - prompt)))


def check_one_text(question: object) -> None:
    if question is not None and not isinstance(question, str):
        raise InputError(
            f"the question is {question!r:.60}: expected one text. For several questions, give pairs (image, question)"
        )


def check_question(question: str | None, ability: str = "") -> None:
    """Refuses a missing question for a model that answers, and a question for any other model."""
    check_one_text(question)
    if ability == "ask" and (question is None or not question.strip()):
        raise InputError(
            "no question given, and this model answers questions about an image. Add one: "
            '--question "What colour is the circle?"'
        )
    if ability != "ask" and question is not None:
        does = "writes captions" if ability == "caption" else "does not answer questions about an image"
        raise InputError(f"the question {question[:40]!r} was given to a model that {does}: leave it out")
    if question is not None:
        check_characters(question, "the question")


def prompt_ids(config: TransformerConfig, tokenizer: Tokenizer, question: str | None = None) -> list[int]:
    """The decoder's prompt, the same as in training: the start token, or `start question start` before an answer."""
    start = start_id(config)
    return [start] if question is None else [start, *tokenizer.ids(question, add_special=False), start]


def write_about(
    model: Transformer,
    preparer: CaptionPreparer,
    inputs: Sequence[ImageInput | ImageQuestion],
    *,
    question: str | None = None,
    generation: GenerationOptions = MODEL_DEFAULTS,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int = TEXTS_AT_ONCE,
    engine: Engine | None = None,
    tell: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """A caption for each image, or the answer to the `question` or to the image's own question.

    If given, `engine` generates instead of the model. `tell` is called after each batch with its number of images.
    """
    check_batch(inputs)
    assert model.config.image is not None
    if question is not None and any(isinstance(given, tuple) for given in inputs):
        raise InputError("--question was given, and the inputs have their own questions: use one or the other")
    pairs = [given if isinstance(given, tuple) else (given, question) for given in inputs]
    prompts = [preparer.prompt(asked) for _, asked in pairs]
    generator = make_generator(model, generation.seed)

    def run(numbers: Sequence[int]) -> list[str]:
        pixels = as_batch(model, [read_pixels(pairs[i][0], preparer.preparation) for i in numbers])  # (B, C, Y, X)
        some = [prompts[i] for i in numbers]
        rows = generate_captions(model, preparer.tokenizer, pixels, some, generation, generator, engine)
        tell(len(numbers))
        length = max(map(len, some))
        return preparer.tokenizer.decode_batch(rows[:, length:])

    lengths = [model.config.image.num_tokens + len(prompt) for prompt in prompts]
    return map_batches(lengths, run, batch_tokens, batch_size=batch_size, padding=None)


def generate_captions(
    model: Transformer,
    tokenizer: Tokenizer,
    pixels: Tensor,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    generator: torch.Generator | None,
    engine: Engine | None = None,
) -> Tensor:
    """The generated ids for these images, (B, T): prompts included, padded on the left."""
    rows = pad(prompts, tokenizer.padding_id, left=True).to(model.device)  # (B, T)
    keep = pad([[1] * len(row) for row in prompts], 0, left=True).to(model.device)  # (B, T)
    options = limited_to_model(model, options, rows.shape[1])
    keywords = {
        "pixel_values": pixels,
        "attention_mask": None if keep.all() else keep,
        "tokenizer": tokenizer,
        "generator": generator,
        **options.given(),
    }
    if engine is not None:
        return engine.generate(rows, **keywords).cpu()
    return generate(model, rows, **keywords).cpu()
