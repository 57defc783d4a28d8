"""Prepares texts for a model with a tokenizer: to classify, to continue, or to translate."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints.run import NO_RULES, TextRules
from glassformer.config import GenerationOptions
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.generation import generate
from glassformer.predict.calls import (
    arguments_of,
    check_characters,
    check_is_text,
    check_length,
    least,
    limit_of,
    split_pair,
    start_id,
)
from glassformer.predict.embed import MEAN, PoolingRecipe
from glassformer.predict.prepared import Prepared, StackTokens
from glassformer.predict.writing import NEW_TOKENS, generate_ids, language_arguments, make_generator
from glassformer.text import Encoded, Tokenizer
from glassformer.text.token_texts import TokenTexts, short_name
from glassformer.text.unknown import Unknown, UnknownTally, check_mostly_known, find_unknown, unknown_in, unknown_of


class TextPreparer:
    """Prepares texts for a model with a tokenizer, by the `rules` of its training.

    `limit` is the caller's maximum length in tokens; the model's own limit also applies. If `aloud`, remarks on how a
    text was read are printed on standard error.
    """

    kind = "text"

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        ability: str,
        *,
        recipe: PoolingRecipe = MEAN,
        rules: TextRules = NO_RULES,
        source_language: str | None = None,
        target_language: str | None = None,
        limit: int | None = None,
        aloud: bool = True,
    ) -> None:
        self.model, self.tokenizer, self.ability, self.recipe = model, tokenizer, ability, recipe
        self.rules, self.aloud, self.trained = rules, aloud, limit_of(model, rules)
        self.languages: dict[str, Any] = {"source_language": source_language, "target_language": target_language}
        self.source_texts = TokenTexts(tokenizer.backend)
        self.target_texts = TokenTexts(tokenizer.target or tokenizer.backend)
        self.limit = least(self.trained.tokens, recipe.max_length, limit)  # maximum tokens of a text
        self.room = least(model.config.last_stack.room, limit)  # maximum tokens that a decoder reads

    @property
    def words(self) -> "TextPreparer":
        """The preparer that names generated tokens, as in `CaptionPreparer`."""
        return self

    def limited(self, limit: int, **languages: str | None) -> "TextPreparer":
        """A copy that takes texts of at most `limit` tokens in these languages, for a caller that shows the notes."""
        return TextPreparer(
            self.model, self.tokenizer, self.ability, recipe=self.recipe, rules=self.rules, limit=limit, aloud=False,
            **languages,
        )  # fmt: skip

    def prepare(
        self,
        text: str,
        *,
        target: str | None = None,
        continued: Sequence[int] | None = None,
        new_tokens: int = 0,
        whole: bool = False,
    ) -> Prepared:
        """The call for one text, or for two texts with a tab between them. To find an answer, the first line is the
        question.

        A model that translates also reads the `target` text or the `continued` ids; without either, its own
        translation. A decoder continues after the `continued` ids with up to `new_tokens` greedy tokens. With `whole`,
        both stacks run even if the answer needs only the encoder, and a text without a question is accepted.
        """
        if not text.strip():
            raise InputError("the text is empty: write at least a word")
        check_is_text(text)
        check_characters(text, "the text")
        self.check_choices(target, continued)
        encoded, notes = self.read(text, whole)
        if self.ability == "lm":
            prepared = self.prompt(text, encoded, list(continued or ()), new_tokens)
        elif self.ability == "translate":
            prepared = self.translation(text, encoded, target, continued)
        else:
            prepared = self.judged(text, encoded, whole)
        return replace(prepared, notes=notes)

    def read(self, text: str, whole: bool) -> tuple[Encoded, tuple[str, ...]]:
        """The encoded text, truncated if texts were truncated in training, and remarks for the user."""
        parts, cut = self.parts_of(text, whole), ""
        encoded = self.encode(text, parts)
        length = encoded.input_ids.shape[1]
        if self.trained.cuts and self.trained.exceeded(length):
            encoded = self.encode(text, parts, self.trained.tokens)
            cut = f"the text has {length:,} tokens: truncated to {self.trained.tokens:,}, as in training"
        check_length(encoded.input_ids.shape[1], self.limit)
        unknown = unknown_of(self.tokenizer, encoded, parts[:1], parts[1:] or None)
        check_mostly_known(self.tokenizer, unknown, ["the text"])
        notes = tuple(filter(None, (cut, UnknownTally(unknown).sentence())))
        if self.aloud:
            for note in notes:
                print(note, file=sys.stderr)
        return encoded, notes

    def unknown(self, inputs: Sequence[str | tuple[str, str]]) -> list[Unknown]:
        """The unknown tokens of each input. A mostly unknown input is refused if the tokenizer may be wrong."""
        first = [given if isinstance(given, str) else given[0] for given in inputs]
        second = [given[1] for given in inputs if not isinstance(given, str)]
        if second and len(second) < len(first):
            return []  # texts and pairs mixed: refused later, by `classify`
        if self.ability == "embed":
            first = list(map(self.recipe.written, first))
        found = find_unknown(self.tokenizer, first, second or None)
        check_mostly_known(self.tokenizer, found, [f"text {number + 1}" for number in range(len(inputs))])
        return found

    def unknown_in(self, encoded: Encoded, inputs: Sequence[str | tuple[str, str]], start: int) -> list[Unknown]:
        """The same for encoded inputs; `start` is the index of the first."""
        first = [given if isinstance(given, str) else given[0] for given in inputs]
        second = [given[1] for given in inputs if not isinstance(given, str)]
        found = unknown_in(self.tokenizer, encoded.ids, first, second or None)
        names = [f"text {start + number}" for number in range(1, len(inputs) + 1)]
        check_mostly_known(self.tokenizer, found, names)
        return found

    def check_choices(self, target: str | None, continued: Sequence[int] | None) -> None:
        if self.ability not in ("lm", "translate"):
            for name, given in (("a continuation", continued), ("a target", target)):
                if given is not None:
                    raise InputError(f"{name} was given to a model that does not generate text: leave it out")
        if self.ability == "lm" and target is not None:
            raise InputError("a target was given to a model that does not translate: append it to the text")
        if target is not None and continued is not None:
            raise InputError("target and continued were both given: choose one")

    def encode(self, text: str, parts: Sequence[str], most: int | None = None) -> Encoded:
        encoded = self.tokenizer.encode(parts[:1], parts[1:] or None, max_length=most, **self.languages)
        if not encoded.input_ids.shape[1]:
            raise InputError(f"the text {text[:40]!r} has no token in this vocabulary: write at least a word")
        return encoded

    def parts_of(self, text: str, whole: bool) -> list[str]:
        """The texts to encode: one, the two of a pair, or a text with the prompt of a sentence vector."""
        if self.ability == "embed":
            return [self.recipe.written(text)]
        if self.ability == "classify":
            return split_pair(text, "the text", self.rules)
        if self.ability != "answer":
            return [text]
        parts = text.split("\t" if "\t" in text else "\n", 1)
        if not whole and (len(parts) < 2 or not all(part.strip() for part in parts)):
            raise InputError("a question alone has no answer: put the question on the first line and the text below it")
        return parts

    def arguments(self, encoded: Encoded) -> dict[str, Tensor]:
        """The arguments of a batch of one, which needs no mask."""
        named = arguments_of(self.model, encoded)
        return {name: value for name, value in named.items() if name != "attention_mask"}

    def line(self, encoded: Encoded, text: str) -> StackTokens:
        whole = self.ability != "embed" and not (encoded.sequence_ids == 1).any()  # else offsets refer to another text
        places = [tuple(pair) for pair in encoded.offsets[0].tolist()] if whole else []
        ids = encoded.input_ids[0].tolist()
        return StackTokens(self.source_texts.describe_all(ids, text, places), prompt=len(ids))

    def judged(self, text: str, encoded: Encoded, whole: bool) -> Prepared:
        """The call of a model that does not generate. With two stacks, both read the text, except for a sentence
        vector."""
        arguments, line = self.arguments(encoded), self.line(encoded, text)
        if self.model.encoder is None:
            return Prepared(arguments, {"decoder": line}, encoded=encoded)
        lines, encodes = {"encoder": line}, self.ability == "embed" and not whole
        if self.model.decoder is not None and not encodes:
            twice = self.model.shift_right(arguments["input_ids"])
            arguments["decoder_input_ids"] = twice
            tokens = self.target_texts.describe_all(twice[0].tolist())
            lines["decoder"] = StackTokens(tokens, prompt=len(tokens))
        return Prepared(arguments, lines, encoded=encoded, encodes=encodes)

    def prompt(self, text: str, encoded: Encoded, continued: list[int], new_tokens: int) -> Prepared:
        """The call of a decoder that continues the text and the `continued` ids."""
        self.check_ids(continued)
        prompt = encoded.input_ids[0].tolist()
        ids = [*prompt, *continued]
        check_length(len(ids), self.room, "text with its continuation")
        written = self.gone_on(ids, new_tokens)
        read = written[:-1] if new_tokens else ids
        arguments = {**self.arguments(encoded), "input_ids": self.tensor(read)}
        if "token_type_ids" in arguments:
            arguments["token_type_ids"] = torch.zeros_like(arguments["input_ids"])
        places = [tuple(pair) for pair in encoded.offsets[0].tolist()]
        tokens = self.source_texts.describe_all(written, text, places)  # together: a character may start in the prompt
        line = StackTokens(tokens[: len(read)], tokens[1:], prompt=len(prompt))
        before, whole = self.tokenizer.decode(prompt), self.tokenizer.decode(written)
        wrote = whole.removeprefix(before) if written != prompt else None
        return Prepared(arguments, {"decoder": line}, text=wrote, written=read)

    def gone_on(self, ids: list[int], new_tokens: int) -> list[int]:
        """Appends at most `new_tokens` greedy tokens to the ids, within the maximum length."""
        most = new_tokens if self.room is None else min(new_tokens, self.room - len(ids))
        if most < 1:
            return ids
        options = GenerationOptions(num_beams=1, do_sample=False, num_return_sequences=1, max_new_tokens=most)
        more = {"min_new_tokens": 0, "tokenizer": self.tokenizer, **options.given()}
        return [int(i) for i in generate(self.model, self.tensor(ids), **more)[0]]

    def translation(self, text: str, encoded: Encoded, target: str | None, continued: Sequence[int] | None) -> Prepared:
        """The call of a model that translates: with its own translation, or with the given one."""
        if target is not None:
            read, wrote = self.forced(target)
        elif continued is not None:
            self.check_ids(continued)
            read, wrote = [start_id(self.model.config), *continued], list(continued)
        else:
            ids = self.translated(encoded)
            read, wrote = ids[:-1], ids[1:]
        check_length(len(read), self.room, "translation")
        tokens, writes = (self.target_texts.describe_all(ids) for ids in (read, wrote))
        lines = {
            "encoder": self.line(encoded, text),
            "decoder": StackTokens(tokens, writes, prompt=len(tokens) if target is not None else 1),
        }
        arguments = {**self.arguments(encoded), "decoder_input_ids": self.tensor(read)}
        return Prepared(arguments, lines, text=self.tokenizer.decode(wrote), written=read)

    def forced(self, target: str) -> tuple[list[int], list[int]]:
        """The decoder's input ids and labels for a given translation."""
        if not target.strip():
            raise InputError("the target is empty: write at least a word, or leave it out")
        labels = self.tokenizer.encode([target], target=True, **self.languages).input_ids
        return self.model.shift_right(labels)[0].tolist(), labels[0].tolist()

    def translated(self, encoded: Encoded) -> list[int]:
        """The generated ids from the start token on, as by `gf.pipeline`, sampled with seed 0."""
        own = self.model.config.generation
        begins = language_arguments(self.model, self.tokenizer, self.languages["target_language"])
        most = own.max_new_tokens or (own.max_length and own.max_length - 1) or NEW_TOKENS
        most = most if self.room is None else max(1, min(most, self.room - 1))
        options, generator = GenerationOptions(max_new_tokens=most), make_generator(self.model, 0)
        return [int(i) for i in generate_ids(self.model, self.tokenizer, encoded, 1, generator, options, begins)[0]]

    def check_ids(self, ids: Sequence[int]) -> None:
        size = self.model.config.output_vocab_size
        wrong = next((i for i in ids if not 0 <= i < size), None)
        if wrong is not None:
            raise InputError(f"continued contains {wrong}: expected ids from 0 to {size - 1}")

    def tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], device=self.model.device)  # (1, T)

    def names(self, ids: Sequence[int] | Tensor) -> list[str]:
        """The names of generated tokens, each on its own."""
        return [short_name(self.target_texts.describe(int(i))) for i in ids]
