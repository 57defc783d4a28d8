"""The tokenizer: encodes text as token ids and decodes it.

The `tokenizers` library does the work, and its `tokenizer.json` is the file format, so other tools can read it. `load`
reads a tokenizer from a folder, `convert` from other formats, and `train` learns one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models
from torch import Tensor

from glassformer.errors import InputError, did_you_mean
from glassformer.io import write_atomic, write_json
from glassformer.text.chat import render
from glassformer.text.languages import language_template, language_tokens
from glassformer.text.padding import pad
from glassformer.text.token_bytes import readable_token

TOKENIZER, TARGET, SETTINGS = "tokenizer.json", "tokenizer_target.json", "tokenizer_config.json"
CHAT = "chat_template.jinja"
TOKENIZER_FILES = (TOKENIZER, TARGET, SETTINGS, CHAT)
SPECIAL = ("pad_token", "bos_token", "eos_token", "unk_token", "cls_token", "sep_token", "mask_token")
# Gemma 3's text-only models have the tokenizer of the multimodal ones, with one token more than their table.
HIDDEN_TOKENS = ("<image_soft_token>",)
SPACE = "▁"  # how a space is written inside a token
# Punctuation before which old vocabularies put a space.
TIDY = {f" {sign}": sign for sign in (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")} | {" ' ": "'"}


@dataclass(frozen=True)
class Encoded:
    """A batch of encoded texts, with the model's argument names. Each tensor is built when it is first used."""

    rows: Sequence[Any] = field(repr=False)  # the texts as `tokenizers` encoded them
    padding_id: int
    left: bool  # whether the padding is on the left
    has_types: bool  # whether the model uses segments

    @cached_property
    def ids(self) -> list[list[int]]:
        """The ids of each text, without padding."""
        return [row.ids for row in self.rows]

    @cached_property
    def input_ids(self) -> Tensor:
        """(B, T)"""
        return pad(self.ids, self.padding_id, left=self.left)

    @cached_property
    def attention_mask(self) -> Tensor:
        """True for tokens, False for padding. (B, T)"""
        lengths = torch.tensor(list(map(len, self.ids)))[:, None]  # (B, 1)
        places = torch.arange(int(lengths.max()))
        return places >= len(places) - lengths if self.left else places < lengths

    @cached_property
    def token_type_ids(self) -> Tensor | None:
        """The segment of each token, for models that use segments. (B, T)"""
        return pad([row.type_ids for row in self.rows], 0, left=self.left) if self.has_types else None

    @cached_property
    def offsets(self) -> Tensor:
        """Start and end of each token in its text, in characters; 0 for special tokens and padding. (B, T, 2)"""
        both = [pad([[place[end] for place in row.offsets] for row in self.rows], 0, left=self.left) for end in (0, 1)]
        return torch.stack(both, dim=-1)

    @cached_property
    def sequence_ids(self) -> Tensor:
        """Which text a token belongs to: 0 the text, 1 its pair, -1 neither (special token or padding). (B, T)"""
        parts = [[-1 if part is None else part for part in row.sequence_ids] for row in self.rows]
        return pad(parts, -1, left=self.left)


class Tokenizer:
    """Text to ids and back, with the ids of its special tokens.

    `settings` are those of `tokenizer_config.json`; `target` is a second tokenizer for the target language of a model
    that tokenises its two languages differently (Marian). `assumed` says what was guessed because no file says it;
    usually it is empty.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        settings: Mapping[str, Any],
        *,
        target: tokenizers.Tokenizer | None = None,
        chat_template: str | None = None,
        chat_templates: Mapping[str, str] | None = None,
        assumed: str = "",
    ) -> None:
        self.backend, self.target, self.chat_template, self.assumed = backend, target, chat_template, assumed
        self.chat_templates = dict(chat_templates or {})  # further ones, by name
        self.special = {name: str(settings[name]) for name in SPECIAL if settings.get(name) is not None}
        self.settings = {name: value for name, value in settings.items() if name not in SPECIAL}
        self.languages = language_tokens(backend)  # name -> token
        self.pad_token_id, self.bos_token_id, self.eos_token_id, self.unk_token_id = map(self.special_id, SPECIAL[:4])
        self.cls_token_id, self.sep_token_id, self.mask_token_id = map(self.special_id, SPECIAL[4:])
        self.lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """A lock belongs to one process: data workers get a copy without it."""
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=Lock())

    def __len__(self) -> int:
        return int(self.backend.get_vocab_size())

    @property
    def padding_id(self) -> int:
        """The id used as padding; the mask hides it, so any id will do if there is no pad token."""
        known = (i for i in (self.pad_token_id, self.eos_token_id) if i is not None)
        return next(known, 0)

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown token; None if nothing is unknown, as with bytes."""
        is_unigram = isinstance(self.backend.model, models.Unigram)
        token = self.special.get("unk_token") if is_unigram else getattr(self.backend.model, "unk_token", None)
        return self.backend.token_to_id(token) if token else None

    def special_id(self, name: str) -> int | None:
        return self.id_of(self.special[name]) if name in self.special else None

    def id_of(self, token: str) -> int:
        found = self.backend.token_to_id(token)
        if found is None:
            raise InputError(f"the vocabulary has no token {token!r}")
        return int(found)

    def language_id(self, name: str) -> int:
        """The token that a translation into this language begins with (`forced_bos_token_id`)."""
        return self.id_of(self.language_token(name))

    def language_token(self, name: str) -> str:
        if name in self.languages:
            return self.languages[name]
        if not self.languages:
            raise InputError(
                f"language {name!r}: this model has no languages to choose from. Leave --source-language and "
                "--target-language out"
            )
        raise InputError(f"unknown language {name!r}{did_you_mean(name, self.languages)}")

    def ids(self, text: str, *, add_special: bool = True) -> list[int]:
        """The ids of one text, with the special tokens that the model expects around it."""
        with self.lock:
            return list(self.backend.encode(text, add_special_tokens=add_special).ids)

    def ids_batch(self, texts: Sequence[str], *, add_special: bool = True) -> list[list[int]]:
        """The same as `ids` for many texts: the fastest way to encode texts once."""
        with self.lock:
            return [row.ids for row in self.backend.encode_batch_fast(list(texts), add_special_tokens=add_special)]

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        pad_left: bool | None = None,
        max_length: int | None = None,
        add_special: bool = True,
        target: bool = False,
        source_language: str | None = None,
        target_language: str | None = None,
        places: bool = True,
    ) -> Encoded:
        """A batch of texts, or of pairs of texts, padded to the longest.

        `max_length` truncates longer texts, special tokens included; `target` encodes targets of the decoder. A
        language token is added as the model expects: the source language, or the target language for a target.
        `places=False` is faster, but gives no `offsets`.
        """
        check_texts(texts, pairs)
        languages = {True: target_language or self.settings.get("tgt_lang"), False: source_language}
        for name in filter(None, languages.values()):
            self.language_token(name)
        if self.settings.get("language_position") is None:
            if source_language:
                raise InputError(f"--source-language {source_language}: this model does not use it. Leave it out")
            if target_language and not target:
                texts = [f"{self.language_token(target_language)} {text}" for text in texts]  # Marian: `>>fra<< text`
        backend = self.target if target and self.target is not None else self.backend
        inputs = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        with self.set_up(backend, max_length, languages[target], pairs is not None, add_special):
            encode = backend.encode_batch if places else backend.encode_batch_fast
            rows = encode(inputs, add_special_tokens=add_special)
        left = self.settings.get("padding_side") == "left" if pad_left is None else pad_left
        has_types = "token_type_ids" in self.settings.get("model_input_names", ())
        return Encoded(rows, self.padding_id, left, has_types)

    def rows(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        target: bool = False,
    ) -> list[list[int]]:
        """The ids of many texts or text pairs, as in `encode` but without padding."""
        backend = self.target if target and self.target is not None else self.backend
        inputs = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        language = self.settings.get("tgt_lang") if target else None
        with self.set_up(backend, max_length, language, pairs is not None, add_special=True):
            return [row.ids for row in backend.encode_batch_fast(inputs)]

    @contextmanager
    def set_up(
        self, backend: tokenizers.Tokenizer, max_length: int | None, language: str | None, pair: bool, add_special: bool
    ) -> Iterator[None]:
        """Sets truncation and template for one call; the library keeps them in the tokenizer."""
        position = self.settings.get("language_position")
        speaks = language is not None and position is not None
        with self.lock:
            template = backend.post_processor
            try:
                if speaks:
                    token, end = self.language_token(str(language)), self.special["eos_token"]
                    backend.post_processor = language_template(backend, token, end, str(position))
                if max_length is not None:
                    around = backend.num_special_tokens_to_add(pair) if add_special else 0
                    if max_length <= around:
                        raise InputError(f"max_length {max_length}: expected more than the {around} special tokens")
                    side = self.settings.get("truncation_side", "right")
                    backend.enable_truncation(max_length, direction=side)
                yield
            finally:
                backend.no_truncation()
                if speaks:
                    backend.post_processor = template

    def decode(self, ids: Sequence[int] | Tensor, *, skip_special: bool = True) -> str:
        """The text of these ids, without special tokens."""
        listed = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        text = str((self.target or self.backend).decode(listed, skip_special_tokens=skip_special))
        if self.settings.get("clean_up_tokenization_spaces"):
            for spaced, written in TIDY.items():
                text = text.replace(spaced, written)
        return text

    def decode_batch(self, rows: Sequence[Sequence[int]] | Tensor, *, skip_special: bool = True) -> list[str]:
        return [self.decode(row, skip_special=skip_special) for row in rows]

    def tokens(self, ids: Sequence[int] | Tensor, *, source: bool = False) -> list[str]:
        """Each token as readable text. With two vocabularies, that of the target is used unless `source` is set.

        A token that is part of a character is written as its bytes, such as <EC>.
        """
        backend = self.backend if source or self.target is None else self.target
        texts = {int(i): self.readable(int(i), source=source) for i in ids}
        for i, text in texts.items():
            if "\ufffd" in text:
                texts[i] = readable_token(str(backend.id_to_token(i)))
        return [texts[int(i)].strip() or SPACE for i in ids]

    def readable(self, i: int, *, source: bool = False) -> str:
        backend = self.backend if source or self.target is None else self.target
        token = backend.id_to_token(i)
        if token is None:
            return f"<{i}>"  # a model's table may have rows that no token uses
        if isinstance(backend.decoder, decoders.ByteLevel):
            return str(backend.decoder.decode([token]))
        return str(token).replace(SPACE, " ")

    def apply_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        template: str | None = None,
        **variables: Any,
    ) -> str:
        """The conversation as one text. Encode it with `add_special=False`: it already has its special tokens.

        `variables` are further inputs of the template, such as `tools` or `enable_thinking`.
        """
        if template is not None and template not in self.chat_templates:
            raise InputError(f"unknown chat template {template!r}{did_you_mean(template, self.chat_templates)}")
        chosen = self.chat_template if template is None else self.chat_templates[template]
        if chosen is None:
            raise InputError(
                f"this tokenizer has no chat template: its folder needs a {CHAT}. Give a plain text instead"
            )
        variables = {**self.special, **variables}
        return render(chosen, messages, add_generation_prompt=add_generation_prompt, variables=variables)

    def save(self, folder: str | Path) -> None:
        """Writes the files that `load_tokenizer` and other tools read."""
        folder = Path(folder)
        write_atomic(folder / TOKENIZER, self.backend.to_str(pretty=True))
        if self.target is not None:
            write_atomic(folder / TARGET, self.target.to_str(pretty=True))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **self.settings, **self.special}
        write_json(folder / SETTINGS, settings)
        if self.chat_template is not None:
            write_atomic(folder / CHAT, self.chat_template)
        for name, template in self.chat_templates.items():
            (folder / "additional_chat_templates").mkdir(exist_ok=True)
            write_atomic(folder / "additional_chat_templates" / f"{name}.jinja", template)


def check_texts(texts: Sequence[str], pairs: Sequence[str] | None) -> None:
    for batch in (texts, pairs):
        if isinstance(batch, str):
            raise InputError(f"a single text {batch[:40]!r} was given: expected a list of texts")
        for text in batch or ():
            if not isinstance(text, str):
                raise InputError(f"{text!r} is not a text: expected a list of strings")
    if not texts:
        raise InputError("the batch is empty: expected at least one text to encode")
    if pairs is not None and len(pairs) != len(texts):
        raise InputError(f"{len(texts)} texts and {len(pairs)} pairs: expected one pair per text")


def check_vocabulary(tokenizer: Tokenizer, vocab_size: int, key: str = "vocab_size") -> None:
    """Refuses a token that has no row in the model's table. More rows than tokens are common."""
    tokens = tokenizer.backend.get_vocab(with_added_tokens=True)
    last = max((i for token, i in tokens.items() if token not in HIDDEN_TOKENS), default=-1)
    if last >= vocab_size:
        raise InputError(
            f"{key} is {vocab_size}, and the tokenizer has ids up to {last} (token "
            f"{tokenizer.backend.id_to_token(last)!r}): expected a {key} of {last + 1} or more. Use the tokenizer that "
            "belongs to the model, or train the model with this one"
        )
