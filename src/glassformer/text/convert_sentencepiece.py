"""Converts sentencepiece models to `tokenizer.json`: the file's rules, with the family's vocabulary order."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, normalizers

from glassformer.errors import InputError
from glassformer.text.conventions import (
    DEFAULT_SPECIAL,
    JsonObject,
    begin_and_end,
    content,
    segments,
    template,
    use_special,
)
from glassformer.text.languages import LANGUAGES, TOKEN, WMT21
from glassformer.text.sentencepiece_file import (
    CONTROL,
    SPACE,
    UNIGRAM,
    UNUSED,
    USER_DEFINED,
    Piece,
    backend_of,
    read_sentencepiece,
)
from glassformer.text.vocabulary_files import read_vocabulary, readable, require_key, unknown

SENTENCEPIECE = (
    "T5Tokenizer",
    "AlbertTokenizer",
    "XLMRobertaTokenizer",
    "MBartTokenizer",
    "MBart50Tokenizer",
    "M2M100Tokenizer",
    "NllbTokenizer",
    "LlamaTokenizer",
    "GemmaTokenizer",
)
ABSENT_CHARACTER = "\ue000"  # a private character, in no vocabulary


def sentencepiece_family(family: str | None, file: Path) -> str:
    if family is None and file.name == "tokenizer.model":
        return "LlamaTokenizer"
    if family is None:
        raise InputError(
            f"{file}: neither the tokenizer_class of tokenizer_config.json nor the model_type of config.json says "
            f"which special tokens belong to it. Set tokenizer_class to one of {', '.join(SENTENCEPIECE)}"
        )
    if family not in SENTENCEPIECE:
        raise unknown(family, file)
    return family


def from_sentencepiece(file: Path, family: str, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    """The file's rules, with the family's vocabulary order and special tokens."""
    special = use_special(settings, DEFAULT_SPECIAL[family])
    spec = read_sentencepiece(file)
    pieces, unk_id = spec.pieces, spec.unk_id
    if family == "M2M100Tokenizer":
        vocabulary = read_vocabulary(file.parent / "vocab.json")
        require_key(vocabulary, special, file.parent / "vocab.json", ("unk_token", "eos_token"))
        pieces, unk_id = reordered(pieces, vocabulary, file), vocabulary[special["unk_token"]]
    elif DEFAULT_SPECIAL[family].get("cls_token") == "<s>":
        # fairseq's four special tokens come first, in its own order; those of the file are dropped
        first = [special.get(name, "<s>") for name in ("bos_token", "pad_token", "eos_token", "unk_token")]
        pieces, unk_id = [*(Piece(token, 0.0, CONTROL) for token in first), *pieces[3:]], 3
    elif family == "AlbertTokenizer":
        # "9," becomes "9" and ",", so that numbers are tokenised the same wherever a comma follows
        pieces = [replace(piece, score=piece.score - 100) if ends_in_number(piece.text) else piece for piece in pieces]
    more = further_tokens(family, settings)
    named = {*special.values(), *map(content, settings.get("additional_special_tokens") or [])}
    pieces = [replace(p, kind=CONTROL) if p.kind == USER_DEFINED and p.text in named else p for p in pieces]
    there = {piece.text for piece in pieces}
    pieces = [*pieces, *(Piece(token, 0.0, CONTROL) for token in more if token not in there)]
    if special.get("mask_token") not in {None, *(piece.text for piece in pieces)}:
        pieces = [*pieces, Piece(special["mask_token"], 0.0, UNUSED)]  # the last of the vocabulary
    prefix_once = family == "LlamaTokenizer" and not settings.get("legacy", False)
    keep_end = family in ("MBart50Tokenizer", "NllbTokenizer")  # as transformers does
    with readable(file):
        backend = backend_of(spec, pieces, unk_id, prefix_once=prefix_once, keep_end=keep_end)
    if family == "AlbertTokenizer":
        backend.normalizer = normalizers.Sequence([*albert_steps(settings), *filter(None, [backend.normalizer])])
        backend.post_processor = segments(backend, special)
    elif family == "T5Tokenizer":
        backend.post_processor = template(backend, "$A {end}", "$A {end} $B {end}", special)
    elif family == "XLMRobertaTokenizer":
        backend.post_processor = template(backend, "{bos} $A {end}", "{bos} $A {end} {end} $B {end}", special)
    elif family not in LANGUAGES:
        backend.post_processor = begin_and_end(backend, special, settings, begin=True)
    return backend


def further_tokens(family: str, settings: dict[str, Any]) -> list[str]:
    """The tokens that a family's vocabulary has after the pieces of its file."""
    if family == "T5Tokenizer":
        extra = [f"<extra_id_{i}>" for i in range(settings.get("extra_ids", 100))]
        given = map(content, settings.get("additional_special_tokens") or [])
        settings["additional_special_tokens"] = list(dict.fromkeys([*given, *extra]))
        return extra[::-1]  # in reverse order
    if family == "M2M100Tokenizer" and settings.get("language_codes") == "wmt21":
        return [f"__{code}__" for code in WMT21.split()]
    return LANGUAGES.get(family, [])


def albert_steps(settings: JsonObject) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    return steps


def ends_in_number(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def marian(folder: Path, settings: dict[str, Any]) -> tuple[tokenizers.Tokenizer, tokenizers.Tokenizer]:
    """Two sentencepiece models over the ids of one `vocab.json` (or of two, with `target_vocab.json`)."""
    special = use_special(settings, DEFAULT_SPECIAL["MarianTokenizer"])
    sides = []
    for side, table in (("source", "vocab.json"), ("target", "target_vocab.json")):
        table_file = folder / (table if settings.get("separate_vocabs") else "vocab.json")
        vocabulary = read_vocabulary(table_file)
        require_key(vocabulary, special, table_file, tuple(special))
        spec = read_sentencepiece(folder / f"{side}.spm")
        pieces = reordered(spec.pieces, vocabulary, folder / f"{side}.spm")
        if spec.model_type == UNIGRAM:
            # Pieces of the other side keep their ids. Their scores fall with the square of their length, so that
            # one is used only for a single character that this side does not know.
            own = {piece.text for piece in spec.pieces}
            pieces = [p if p.text in own else replace(p, score=-1000.0 * len(p.text) ** 2) for p in pieces]
        with readable(folder / f"{side}.spm"):
            backend = backend_of(spec, pieces, vocabulary[special["unk_token"]])
        backend.normalizer = normalizers.Sequence([*filter(None, [backend.normalizer]), one_unknown(spec.pieces)])
        backend.add_special_tokens(list(special.values()))
        codes = [token for token in vocabulary if TOKEN.fullmatch(token) and token.startswith(">>")]
        backend.add_tokens([AddedToken(code, normalized=False) for code in codes])
        backend.post_processor = template(backend, "$A {end}", "$A $B {end}", special)
        sides.append(backend)
    return sides[0], sides[1]


def one_unknown(pieces: list[Piece]) -> normalizers.Normalizer:
    """Consecutive characters that sentencepiece does not know are one unknown token, whatever the other side knows."""
    known = "".join(piece.text for piece in pieces if len(piece.text) == 1) + SPACE + " "
    return normalizers.Replace(Regex(f"[^{re.escape(known)}]{{2,}}"), ABSENT_CHARACTER)


def reordered(pieces: list[Piece], vocabulary: dict[str, int], file: Path) -> list[Piece]:
    """The pieces in the order of `vocab.json`; its additional tokens never come from text."""
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise InputError(
            f"{file.parent / 'vocab.json'}: expected the ids 0 to {len(vocabulary) - 1}. Is the file complete?"
        )
    known = {piece.text: piece for piece in pieces}
    return [known.get(token, Piece(token, 0.0, UNUSED)) for token in sorted(vocabulary, key=vocabulary.__getitem__)]
