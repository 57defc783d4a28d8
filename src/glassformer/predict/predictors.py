"""What a model with a head makes of texts: one function per head, from texts to answers in the same order.

Texts of like length go through the model together, so that little is spent on padding. `embed.py` is the one for models
without a head, `pictures.py` the one for images, `series.py` the one for series; `pipeline.py` chooses among them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer.checkpoints.labels import class_names, problem_of
from glassformer.config import GenerationOptions
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation import generate
from glassformer.text import Encoded, Tokenizer
from glassformer.text.tokenizer import SPACE

BATCH = 32
NEW_TOKENS = 256  # where neither the caller nor the model says how long a text may become
LONGEST_ANSWER = 30  # tokens of an answer that is found in a text
APPLIES = 0.5  # the probability from which on a class applies, where each is judged by itself
AS_THE_MODEL = GenerationOptions()
Given = TypeVar("Given")
Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Guess:
    """A token that may stand where the mask is, and its probability."""

    token: str
    score: float


@dataclass(frozen=True)
class Label:
    """The likeliest class of an input with its probability, and those of all classes."""

    label: str
    score: float
    scores: dict[str, float]


@dataclass(frozen=True)
class Labels:
    """The classes that apply to an input, the likeliest first, of a model that judges each by itself; and all."""

    labels: dict[str, float]
    scores: dict[str, float]


@dataclass(frozen=True)
class TokenLabel:
    """The class of one token, which stands at text[start:end]."""

    text: str
    label: str
    score: float
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """The part of a text, text[start:end], that answers a question."""

    answer: str
    score: float
    start: int
    end: int


def translate(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    generation: GenerationOptions = AS_THE_MODEL,
    batch_size: int = BATCH,
    longest: Callable[[int], int] | None = None,
) -> list[str]:
    """What the decoder writes for each text.

    `longest` says how many tokens it may write for sources of so many, where that is less than the model's own limit.
    """
    languages = {"source_language": source_language, "target_language": target_language}
    begin = begin_in(model, tokenizer, target_language)
    generator = make_generator(model, generation.seed)

    def run(batch: Sequence[str]) -> list[str]:
        encoded = encode(tokenizer, batch, **languages)
        most = generation.max_new_tokens if longest is None else longest(encoded.input_ids.shape[1])
        rows = write(model, encoded, 1, generator, generation.replace(max_new_tokens=most), begin)
        return tokenizer.decode_batch(rows)

    return in_batches(texts, run, batch_size)


def begin_in(model: Transformer, tokenizer: Tokenizer, language: str | None) -> dict[str, int]:
    """How `generate` is told the language to write in, for models that write in several.

    Most write its token first, behind their start token (mBART-50, M2M100, NLLB); in mBART it is the start token.
    """
    if tokenizer.settings.get("language_position") is None:
        return {}  # one target language, or the tokenizer writes it before the source (Marian)
    config = model.config
    start, known = config.decoder_start_token_id, {tokenizer.id_of(token) for token in tokenizer.languages.values()}
    language = language or tokenizer.settings.get("tgt_lang")
    if language is None:
        if config.generation.forced_bos_token_id in known or start in known:
            return {}
        some = ", ".join(list(tokenizer.languages)[:5])
        raise InputError(
            f"this model writes in {len(known)} languages, such as {some}: name one with target_language "
            "(--target-language)"
        )
    begins = start is None or start in known
    return {"decoder_start_token_id" if begins else "forced_bos_token_id": tokenizer.language_id(language)}


def complete(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    chat: bool = False,
    generation: GenerationOptions = AS_THE_MODEL,
    batch_size: int = BATCH,
) -> list[str]:
    """How each text goes on: text + answer is the whole. With `chat`, what the model answers to it as a message."""
    generator = make_generator(model, generation.seed)
    check_batch(texts)
    if chat:
        prompts = [tokenizer.apply_chat([{"role": "user", "content": text}]) for text in texts]
    else:
        prompts = [begun(tokenizer, text) for text in texts]

    def run(batch: Sequence[str]) -> list[str]:
        encoded = encode(tokenizer, batch, pad_left=True, add_special=not chat)
        length = encoded.input_ids.shape[1]
        rows = write(model, encoded, length, generator, generation)
        return [continuation(tokenizer, row, length, encoded.attention_mask[i]) for i, row in enumerate(rows)]

    answers = in_batches(prompts, run, batch_size)
    return [answer.strip() for answer in answers] if chat else answers


def begun(tokenizer: Tokenizer, text: str) -> str:
    """The text, or for an empty one the token that texts begin with, where the tokenizer does not write it itself."""
    if text or tokenizer.ids(text):
        return text
    if "bos_token" not in tokenizer.special:
        raise InputError("an empty text, and this tokenizer has no token that texts begin with: give at least a word")
    return tokenizer.special["bos_token"]


def continuation(tokenizer: Tokenizer, row: Tensor, length: int, keep: Tensor) -> str:
    """The text behind the prompt. Decoded together with it, because many tokenizers drop a space at the beginning."""
    prompt, new = row[:length][keep], row[length:]
    before, whole = tokenizer.decode(prompt), tokenizer.decode(torch.cat([prompt, new]))
    return whole.removeprefix(before) if whole.startswith(before) else tokenizer.decode(new)


def write(
    model: Transformer,
    encoded: Encoded,
    prompt: int,
    generator: torch.Generator | None,
    options: GenerationOptions,
    begin: Mapping[str, int] | None = None,
) -> Tensor:
    """The ids that the model generates, for a decoder that begins with `prompt` tokens, or as `begin_in` says."""
    settings, room = model.config.generation, model.config.last_stack.room
    if options.num_return_sequences not in (None, 1):
        raise InputError(
            f"num_return_sequences is {options.num_return_sequences}: a pipeline gives one answer to each text. "
            "For several, call gf.generate"
        )
    says = (settings.max_length, settings.max_new_tokens, options.max_length, options.max_new_tokens)
    if all(length is None for length in says):
        most = NEW_TOKENS if room is None else max(1, min(NEW_TOKENS, room - prompt))
        options = options.replace(max_new_tokens=most)
    options = options.replace(num_return_sequences=1, seed=None)  # the generator has the seed
    inputs = on_device(model, encoded)
    return generate(
        model,
        inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        generator=generator,
        **{**options.given(), **(begin or {})},
    ).cpu()


def make_generator(model: Transformer, seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator(model.device).manual_seed(seed)


def fill_masks(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], *, guesses: int = 5, batch_size: int = BATCH
) -> list[list[list[Guess]]]:
    """For each mask of each text the likeliest tokens, the best first."""
    mask = tokenizer.special.get("mask_token")
    if mask is None:
        raise InputError("this tokenizer has no mask token: its folder names none in tokenizer_config.json")
    if guesses < 1:
        raise InputError(f"guesses is {guesses}: expected at least 1")
    for text in texts:
        if mask not in text:
            raise InputError(f"the text {text[:60]!r} has no {mask}: write it where the model is to guess")

    def run(batch: Sequence[str]) -> list[list[list[Guess]]]:
        encoded = encode(tokenizer, batch)
        logits = answer_of(model, encoded)["logits"]  # (B, T, V)
        found = []
        for row, ids in zip(logits, encoded.input_ids, strict=True):
            probabilities = row[ids == tokenizer.mask_token_id].softmax(dim=1)[:, : len(tokenizer)]  # (masks, V)
            best = probabilities.topk(min(guesses, probabilities.shape[1]), dim=1)
            # As transformers writes them: a part of a character is �.
            tokens = [[tokenizer.readable(int(i)).strip() or SPACE for i in row] for row in best.indices]
            pairs = zip(tokens, best.values.tolist(), strict=True)
            found.append([list(map(Guess, *pair)) for pair in pairs])
        return found

    return in_batches(texts, run, batch_size)


def classify(
    model: Transformer,
    tokenizer: Tokenizer,
    texts: Sequence[str | tuple[str, str]],
    *,
    batch_size: int = BATCH,
) -> list[Label | Labels]:
    """The class of each text, or of each pair of texts; or its classes, where several may apply at once."""
    odd = next((i for i, text in enumerate(texts) if isinstance(text, str) != isinstance(texts[0], str)), None)
    if odd is not None:
        raise InputError(
            f"input {odd} is {texts[odd]!r:.60}, and the first is {texts[0]!r:.60}: expected pairs or texts"
        )

    def run(batch: Sequence[str | tuple[str, str]]) -> list[Label | Labels]:
        if all(isinstance(text, str) for text in batch):
            encoded = encode(tokenizer, [str(text) for text in batch])
        else:
            encoded = encode(tokenizer, [pair[0] for pair in batch], [pair[1] for pair in batch])
        return as_labels(model, answer_of(model, encoded)["logits"])

    return in_batches(texts, run, batch_size)


def as_labels(model: Transformer, logits: Tensor) -> list[Label | Labels]:
    """Logits (B, C) as the likeliest class of each row, with its probability; or as all classes that apply."""
    several = problem_of(model) == "multi_label_classification"
    names = class_names(model)
    found: list[Label | Labels] = []
    for row in probabilities_of(model, logits).tolist():
        scores = dict(zip(names, row, strict=True))
        ranked = sorted(names, key=lambda name: -scores[name])
        if several:
            found.append(Labels({name: scores[name] for name in ranked if scores[name] > APPLIES}, scores))
        else:
            found.append(Label(ranked[0], scores[ranked[0]], scores))
    return found


def probabilities_of(model: Transformer, logits: Tensor) -> Tensor:
    """Of one class among all, or of each by itself; a regression's number stays as it is."""
    kind = problem_of(model)
    if kind == "regression":
        return logits
    alone = kind == "multi_label_classification" or logits.shape[-1] == 1
    return logits.sigmoid() if alone else logits.softmax(dim=-1)


def label_tokens(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], *, batch_size: int = BATCH
) -> list[list[TokenLabel]]:
    """The class of each token of each text, with where it stands; tokens that are not of the text have none."""
    names = class_names(model)

    def run(batch: Sequence[str]) -> list[list[TokenLabel]]:
        encoded = encode(tokenizer, batch)
        best = answer_of(model, encoded)["logits"].softmax(dim=2).max(dim=2)
        found = []
        for i, text in enumerate(batch):
            places = (encoded.sequence_ids[i] == 0).nonzero().flatten().tolist()
            row = []
            for t in places:
                start, end = encoded.offsets[i, t].tolist()
                label, score = names[int(best.indices[i, t])], float(best.values[i, t])
                row.append(TokenLabel(text[start:end], label, score, start, end))
            found.append(row)
        return found

    return in_batches(texts, run, batch_size)


def find_answers(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], *, question: str | None = None, batch_size: int = 8
) -> list[Answer]:
    """The part of each text that answers the question."""
    if not (question or "").strip():
        raise InputError("this model finds the answer to a question in a text: give the question (--question)")

    def run(batch: Sequence[str]) -> list[Answer]:
        encoded = encode(tokenizer, [str(question)] * len(batch), batch)
        answer = answer_of(model, encoded)
        outside = encoded.sequence_ids != 1  # (B, T): an answer stands in the text, not in the question
        start, end = (
            answer[name].masked_fill(outside, -torch.inf).softmax(dim=1) for name in ("start_logits", "end_logits")
        )
        together = (start[:, :, None] * end[:, None, :]).triu().tril(LONGEST_ANSWER - 1)  # (B, T, T)
        score, place = together.flatten(1).max(dim=1)
        found = []
        for i, text in enumerate(batch):
            if outside[i].all():
                raise InputError("an empty text: expected one that may hold the answer")
            first, last = divmod(int(place[i]), together.shape[2])
            begin, stop = int(encoded.offsets[i, first, 0]), int(encoded.offsets[i, last, 1])
            found.append(Answer(text[begin:stop].strip(), float(score[i]), begin, stop))
        return found

    return in_batches(texts, run, batch_size)


def check_batch(texts: Sequence[object]) -> None:
    if isinstance(texts, str):
        raise InputError(f"a single text {texts[:40]!r} was given: expected a list of texts")


def in_batches(
    texts: Sequence[Given], run: Callable[[Sequence[Given]], Sequence[Answered]], batch_size: int
) -> list[Answered]:
    """`run` on batches of texts of like length; the answers stand in the order of the texts."""
    check_batch(texts)
    order = sorted(range(len(texts)), key=lambda i: length_of(texts[i]))
    found: dict[int, Answered] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        found.update(zip(batch, run([texts[i] for i in batch]), strict=True))
    return [found[i] for i in range(len(texts))]


def length_of(given: object) -> int:
    """Of a text, or of the two of a pair; what is no text has no length of its own."""
    if isinstance(given, str):
        return len(given)
    return sum(map(length_of, given)) if isinstance(given, tuple) else 0


def encode(tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None, **options: Any) -> Encoded:
    encoded = tokenizer.encode(texts, pairs, **options)
    if not encoded.attention_mask.any(dim=1).all():
        raise InputError("a text is empty: expected at least a word in each")
    return encoded


@torch.no_grad()
def answer_of(model: Transformer, encoded: Encoded) -> dict[str, Tensor]:
    """What the head answers, by the names of `Output`, as float32 on the CPU."""
    output = model(**on_device(model, encoded))
    named = {name: getattr(output, name) for name in ("logits", "start_logits", "end_logits")}
    return {name: value.float().cpu() for name, value in named.items() if value is not None}


def on_device(model: Transformer, encoded: Encoded) -> dict[str, Tensor]:
    """A batch as the model's arguments, where the model is."""
    named = {
        "input_ids": encoded.input_ids,
        "attention_mask": encoded.attention_mask,
        "token_type_ids": encoded.token_type_ids,
    }
    return {name: value.to(model.device) for name, value in named.items() if value is not None}
