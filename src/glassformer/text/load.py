"""Loads the tokenizer of a folder: `tokenizer.json` and its settings, or older files that can be converted.

The settings are in `tokenizer_config.json`; older folders have some in `special_tokens_map.json` and
`added_tokens.json`. All are read; `Tokenizer.save` writes only the first.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders

from glassformer.errors import InputError, did_you_mean
from glassformer.hub import find_folder
from glassformer.io import read_json, read_small
from glassformer.text.conventions import TOKENISES_LIKE, content, declared_family, tokenizer_family
from glassformer.text.convert import convert
from glassformer.text.languages import DEFAULT, LANGUAGES, language_template, language_tokens
from glassformer.text.tokenizer import CHAT, SETTINGS, SPECIAL, TARGET, TOKENIZER, Tokenizer
from glassformer.text.trial import check_rules, check_template
from glassformer.text.vocabulary_files import MAX_TOKENIZER_BYTES, read_text, readable

# Settings that describe only the original folder, or that are kept in a separate file.
LEFT_OUT = ("added_tokens_decoder", "chat_template", "name_or_path", "special_tokens_map_file", "tokenizer_file")
# Classes that transformers builds from their own files, not from a tokenizer.json.
WITHOUT_JSON = ("M2M100Tokenizer", "MarianTokenizer")
TYPED = ("BertTokenizer", "AlbertTokenizer")  # their models use two segments
LEFT_PADDED = ("LlamaTokenizer", "GemmaTokenizer")
CLIP_TOKENIZER = "CLIPTokenizer"  # marks where words end: red</w>
END_OF_WORD = decoders.Sequence(
    [decoders.ByteLevel(), decoders.Replace("</w>", " "), decoders.Replace(Regex(" $"), "")]
)
EXTRA = ("additional_special_tokens", "extra_special_tokens")


def load_tokenizer(path: str | Path, *, revision: str | None = None, token: str | None = None) -> Tokenizer:
    """The tokenizer of a run, a model folder or a hub id; `revision` and `token` are for the hub."""
    return read_tokenizer(find_folder(path, revision=revision, token=token))


def read_tokenizer(folder: Path) -> Tokenizer:
    """`load_tokenizer` for a local folder. Prints what had to be guessed from the vocabulary."""
    settings, config = read_tokenizer_settings(folder), read_optional(folder / "config.json")
    family = tokenizer_family(settings, config)
    made, assumed = not (folder / TOKENIZER).is_file(), ""
    if made:
        given = set(settings)
        backend, family, target, assumed = convert(folder, family, settings, declared_family(settings, config))
        # A conventional special token that this vocabulary does not have gets no id.
        customary = [name for name in SPECIAL if settings.get(name) is not None and name not in given]
        absent = [name for name in customary if backend.token_to_id(content(settings[name])) is None]
        settings |= dict.fromkeys(absent)
    else:
        backend = read_backend(folder / TOKENIZER)
        target = read_backend(folder / TARGET) if (folder / TARGET).is_file() else None
    if family == CLIP_TOKENIZER:
        backend.decoder = END_OF_WORD  # its own leaves the marks in the text
    for side in filter(None, (backend, target)):
        add_tokens(side, folder, settings)
    known = (code for code in LANGUAGES.get(family or "", ()) if backend.token_to_id(code) is not None)
    backend.add_special_tokens([as_token(code) for code in known])
    with_family_settings(settings, config, family, made)
    set_language(backend, settings, family)
    templates = read_chat_templates(folder, settings)
    kept = {name: value for name, value in settings.items() if name not in LEFT_OUT}
    kept |= {name: content(kept[name]) for name in SPECIAL if kept.get(name) is not None}
    default = templates.pop("default", None)
    if assumed:
        print(assumed, file=sys.stderr)
    return Tokenizer(backend, kept, target=target, chat_template=default, chat_templates=templates, assumed=assumed)


def read_optional(file: Path) -> dict[str, Any]:
    """The settings in a file; empty if there is no such file."""
    return read_json(file, 'settings, as in {"pad_token": "<pad>"}') if file.is_file() else {}


def read_tokenizer_settings(folder: Path) -> dict[str, Any]:
    settings = read_optional(folder / SETTINGS)
    for name, value in read_optional(folder / "special_tokens_map.json").items():
        # The older file has a token's lstrip and rstrip where the newer one has only its name.
        if settings.get(name) is None or (isinstance(value, dict) and content(settings[name]) == content(value)):
            settings[name] = value
    for name in SPECIAL:
        token = settings.get(name)
        if not (token is None or isinstance(token, str) or (isinstance(token, dict) and "content" in token)):
            raise InputError(f"{folder / SETTINGS}: {name} {token!r}: expected a token, as in " + '"<pad>"')
    return settings


def read_backend(file: Path) -> tokenizers.Tokenizer:
    content = read_small(file, MAX_TOKENIZER_BYTES)
    check_rules(file, content)
    with readable(file):
        backend = tokenizers.Tokenizer.from_buffer(content)
    backend.no_padding()  # we pad ourselves, with a mask
    backend.no_truncation()
    return backend


def add_tokens(backend: tokenizers.Tokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """Adds the tokens that the folder names besides the vocabulary; one with an id must get that id."""
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    try:
        named = list(named_tokens(folder, settings))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{folder}: the added tokens of its settings cannot be read ({error!r}): expected ids and tokens, as in "
            '{"32000": {"content": "<pad>"}}. Fetch tokenizer_config.json again'
        ) from None
    for token, number in named:
        if token.content not in known:  # tokenizer.json has priority
            (backend.add_special_tokens if token.special else backend.add_tokens)([token])
        found = backend.token_to_id(token.content)
        if number is not None and found != number:
            raise InputError(
                f"{folder}: the token {token.content!r} has the id {number} in the settings and {found} in the "
                "vocabulary. Download the tokenizer's files from one source, or remove the token from the settings"
            )


def named_tokens(folder: Path, settings: Mapping[str, Any]) -> Iterator[tuple[AddedToken, int | None]]:
    special = {content(settings[name]) for name in SPECIAL if settings.get(name) is not None}
    numbered = {int(i): as_token(token) for i, token in (settings.get("added_tokens_decoder") or {}).items()}
    for text, number in read_optional(folder / "added_tokens.json").items():
        numbered.setdefault(int(number), as_token(text, special=text in special, normalized=text not in special))
    yield from ((numbered[i], i) for i in sorted(numbered))
    mask = settings.get("mask_token")
    for name in SPECIAL:
        if settings.get(name) is not None:
            # A mask includes the space before a word, except where words carry no space (BERT).
            lstrip = settings[name] == mask and content(mask) == "<mask>"
            yield as_token(settings[name], lstrip=lstrip), None
    for name in EXTRA:
        more = settings.get(name) or []
        yield from ((as_token(token), None) for token in (more.values() if isinstance(more, dict) else more))


def as_token(token: Any, **flags: bool) -> AddedToken:
    flags = {"normalized": False, "special": True, **flags}
    if isinstance(token, Mapping):
        named = ("lstrip", "rstrip", "single_word", "normalized", "special")
        flags |= {name: bool(token[name]) for name in named if name in token}
    return AddedToken(content(token), **flags)


def with_family_settings(settings: dict[str, Any], config: Mapping[str, Any], family: str | None, made: bool) -> None:
    """Writes down settings that the family implies, so that a saved folder is self-contained."""
    given = str(settings.get("tokenizer_class")).removesuffix("Fast")
    if made and family in WITHOUT_JSON:
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    elif made and TOKENISES_LIKE.get(given, given) != family:
        settings["tokenizer_class"] = family
    if "model_type" in config:  # the model decides: one without segments refuses token types
        typed = max(config.get(name) or 0 for name in ("type_vocab_size", "num_segments")) > 1
    else:
        typed = "token_type_ids" in settings.get("model_input_names", ["token_type_ids"] if family in TYPED else [])
    settings["model_input_names"] = ["input_ids", *(["token_type_ids"] if typed else []), "attention_mask"]
    if family in LEFT_PADDED:
        settings.setdefault("padding_side", "left")


def set_language(backend: tokenizers.Tokenizer, settings: dict[str, Any], family: str | None) -> None:
    """Sets where the language token is added, and the default language."""
    tokens = language_tokens(backend)
    if family not in DEFAULT:
        languages, written = {backend.token_to_id(token) for token in tokens.values()}, backend.encode("").ids
        for place, i in (("last", -1), ("first", 0)):
            if written and written[i] in languages:
                settings["language_position"] = place
        return
    last = family == "MBartTokenizer" or (family == "NllbTokenizer" and settings.get("legacy_behaviour", False))
    settings["language_position"] = "last" if last else "first"
    name = settings.get("src_lang") or DEFAULT[family]
    if name in tokens:
        end = content(settings.get("eos_token", "</s>"))
        backend.post_processor = language_template(backend, tokens[name], end, settings["language_position"])
    elif settings.get("src_lang"):
        raise InputError(
            f"src_lang of {SETTINGS} is {name!r}, which is not a language of this tokenizer{did_you_mean(name, tokens)}"
        )


def read_chat_templates(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """The default template and named ones; a separate file has priority over the settings."""
    named = settings.get("chat_template") or {}
    if isinstance(named, str):
        named = {"default": named}
    elif isinstance(named, list) and all(isinstance(entry, dict) for entry in named):
        named = {entry.get("name"): entry.get("template") for entry in named}
    if not isinstance(named, dict) or not all(isinstance(text, str) for pair in named.items() for text in pair):
        raise InputError(
            f"chat_template of {folder / SETTINGS}: expected a template, or a list with names and templates"
        )
    files = [folder / CHAT, *sorted((folder / "additional_chat_templates").glob("*.jinja"))]
    found = {"default" if file.name == CHAT else file.stem: file for file in files if file.is_file()}
    texts = {name: read_text(file) for name, file in found.items()}
    for name, text in (*named.items(), *texts.items()):
        check_template(str(found.get(name, f"chat_template of {folder / SETTINGS}")), text)
    return {**named, **texts}
