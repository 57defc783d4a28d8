"""Texts as a model with a tokenizer takes them: to be judged, gone on with, or translated."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from glassformer.config import GenerationOptions
from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.explore.view.inputs import Prepared
from glassformer.predict.embed import MEAN, Recipe
from glassformer.predict.predictors import begin_in, make_generator, write
from glassformer.text import Encoded, Tokenizer
from glassformer.text.token_texts import TokenTexts

MOST_CHARACTERS = 20_000
MOST_TOKENS = 4096
NEW_TOKENS = 256


class TextReader:
    """Texts for a model with a tokenizer."""

    kind = "text"

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        task: str,
        *,
        recipe: Recipe = MEAN,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> None:
        self.model, self.tokenizer, self.task, self.recipe = model, tokenizer, task, recipe
        self.languages: dict[str, Any] = {"source_language": source_language, "target_language": target_language}
        self.source_texts = TokenTexts(tokenizer.backend)
        self.target_texts = TokenTexts(tokenizer.target or tokenizer.backend)

    def prepare(self, given: Mapping[str, Any]) -> Prepared:
        text = given.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InputError("the text is empty: write at least a word")
        if len(text) > MOST_CHARACTERS:
            raise InputError(f"the text has {len(text):,} characters: expected at most {MOST_CHARACTERS:,}. Shorten it")
        if self.task not in ("lm", "translate"):
            for key in ("continued", "target"):
                if key in given:
                    raise InputError(f"{key!r} was given to a model that writes no text: leave it out")
        if self.task == "lm" and "target" in given:
            raise InputError("'target' was given to a model that does not translate: write it behind the text")
        encoded = self.encode(text)
        self.check_length(encoded.input_ids.shape[1], "text")
        if self.task == "lm":
            return self.prompt(text, encoded, continued_of(given))
        if self.task == "translate":
            return self.translation(text, encoded, given)
        return self.judged(text, encoded)

    def encode(self, text: str) -> Encoded:
        """One text, or two with a tab between; for a model that answers, the question on the first line."""
        separator = "\n" if self.task == "answer" and "\t" not in text else "\t"
        parts = text.split(separator, 1) if self.task in ("answer", "classify") else [text]
        if self.task == "answer" and (len(parts) < 2 or not all(part.strip() for part in parts)):
            raise InputError("a question alone has no answer: write the question on the first line, the text below it")
        if self.task == "embed":
            parts = [self.recipe.prompt + (text.lower() if self.recipe.lower_case else text)]
        pair = [parts[1]] if len(parts) == 2 else None
        encoded = self.tokenizer.encode([parts[0]], pair, **self.languages)
        if not encoded.input_ids.shape[1]:
            raise InputError(f"the text {text[:40]!r} has no token in this vocabulary: write at least a word")
        return encoded

    @property
    def room(self) -> int:
        """The longest text, in tokens: what the model can place, and no more than the explorer shows."""
        return min(filter(None, (self.model.config.room, self.recipe.max_length, MOST_TOKENS)))

    def check_length(self, tokens: int, what: str) -> None:
        if tokens > (limit := self.room):
            raise InputError(f"the {what} has {tokens:,} tokens: expected at most {limit:,}. Shorten it")

    def arguments(self, encoded: Encoded) -> dict[str, Tensor]:
        named = {"input_ids": encoded.input_ids}
        if encoded.token_type_ids is not None and self.model.config.num_segments:
            named["token_type_ids"] = encoded.token_type_ids
        return named

    def line(self, encoded: Encoded, text: str) -> dict[str, Any]:
        whole = self.task not in ("answer", "classify", "embed")  # else offsets may count in another text
        places = [tuple(pair) for pair in encoded.offsets[0].tolist()] if whole else []
        ids = encoded.input_ids[0].tolist()
        return {"tokens": self.source_texts.describe_all(ids, text, places), "writes": None, "prompt": len(ids)}

    def judged(self, text: str, encoded: Encoded) -> Prepared:
        """A model that writes nothing. One of two stacks reads the text twice."""
        arguments, line = self.arguments(encoded), self.line(encoded, text)
        if self.model.encoder is None:
            return Prepared(arguments, {"decoder": line}, source=text, encoded=encoded)
        lines = {"encoder": line}
        if self.model.decoder is not None and self.task != "embed":
            twice = self.model.shift_right(encoded.input_ids)
            arguments["decoder_input_ids"] = twice
            tokens = self.target_texts.describe_all(twice[0].tolist())
            lines["decoder"] = {"tokens": tokens, "writes": None, "prompt": len(tokens)}
        return Prepared(arguments, lines, source=text, encoded=encoded)

    def prompt(self, text: str, encoded: Encoded, continued: list[int]) -> Prepared:
        """A text that a decoder goes on with, from what was chosen so far."""
        self.check_ids(continued)
        prompt = encoded.input_ids[0].tolist()
        ids = [*prompt, *continued]
        self.check_length(len(ids), "text with its continuation")
        places = [tuple(pair) for pair in encoded.offsets[0].tolist()]
        tokens = self.source_texts.describe_all(ids, text, places)  # together: a character may begin in the prompt
        line = {"tokens": tokens, "writes": tokens[1:], "prompt": len(prompt)}
        wrote = self.tokenizer.decode(ids).removeprefix(self.tokenizer.decode(prompt)) if continued else None
        arguments = {**self.arguments(encoded), "input_ids": torch.tensor([ids])}
        if "token_type_ids" in arguments:
            arguments["token_type_ids"] = torch.zeros_like(arguments["input_ids"])
        return Prepared(arguments, {"decoder": line}, text=wrote, written=ids, source=text)

    def translation(self, text: str, encoded: Encoded, given: Mapping[str, Any]) -> Prepared:
        """What the model writes for a text, or what it is told to have written."""
        if "target" in given and "continued" in given:
            raise InputError("target and continued were both given: choose one")
        if "target" in given:
            read, wrote = self.forced(given["target"])
        elif "continued" in given:
            chosen = continued_of(given)
            self.check_ids(chosen)
            read, wrote = [*self.start(), *chosen], chosen
        else:
            ids = self.translated(encoded)
            read, wrote = ids[:-1], ids[1:]
        self.check_length(len(read), "translation")
        tokens, writes = (self.target_texts.describe_all(ids) for ids in (read, wrote))
        lines = {
            "encoder": self.line(encoded, text),
            "decoder": {"tokens": tokens, "writes": writes, "prompt": len(tokens) if "target" in given else 1},
        }
        arguments = {**self.arguments(encoded), "decoder_input_ids": torch.tensor([read])}
        return Prepared(arguments, lines, text=self.tokenizer.decode(wrote), written=read, source=text)

    def start(self) -> list[int]:
        config = self.model.config
        first = next((i for i in (config.decoder_start_token_id, config.bos_token_id) if i is not None), None)
        if first is None:
            raise InputError("the config has no decoder_start_token_id: set the id that a translation begins with")
        return [first]

    def forced(self, target: Any) -> tuple[list[int], list[int]]:
        """What the decoder reads and writes for a given translation."""
        if not isinstance(target, str) or not target.strip():
            raise InputError("the target is empty: write at least a word, or leave it out")
        if len(target) > MOST_CHARACTERS:
            raise InputError(f"the target has {len(target):,} characters: expected at most {MOST_CHARACTERS:,}")
        labels = self.tokenizer.encode([target], target=True, **self.languages).input_ids
        return self.model.shift_right(labels)[0].tolist(), labels[0].tolist()

    def translated(self, encoded: Encoded) -> list[int]:
        """The ids that the model writes, from its start token on, as `gf.pipeline` would have them."""
        settings, room = self.model.config.generation, self.model.config.last_stack.room
        own = settings.max_new_tokens or (settings.max_length and settings.max_length - 1) or NEW_TOKENS
        most = min(own, NEW_TOKENS) if room is None else min(own, NEW_TOKENS, room - 1)
        begins = begin_in(self.model, self.tokenizer, self.languages["target_language"])
        options = GenerationOptions(max_new_tokens=max(1, most))
        rows = write(self.model, encoded, 1, make_generator(self.model, 0), options, begins)
        return [int(i) for i in rows[0]]

    def check_ids(self, ids: list[int]) -> None:
        size = self.model.config.output_vocab_size
        wrong = next((i for i in ids if not 0 <= i < size), None)
        if wrong is not None:
            raise InputError(f"continued holds {wrong}: expected ids from 0 to {size - 1}")


def continued_of(given: Mapping[str, Any]) -> list[int]:
    ids = given.get("continued", [])
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        raise InputError(f"continued is {ids!r:.60}: expected a list of token ids")
    return ids
