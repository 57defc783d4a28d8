"""Converts other vocabulary files to `tokenizer.json`.

    vocab.txt                           WordPiece              BERT, DistilBERT, ELECTRA
    vocab.json + merges.txt             byte-level BPE         GPT-2, GPT-NeoX, Qwen2, RoBERTa, BART
    *.model                             sentencepiece          T5, ALBERT, XLM-R, mBART, NLLB, LLaMA, Gemma
    vocab.json + *.model                sentencepiece          M2M100: ids differ from the model's
    vocab.json + source.spm, target.spm sentencepiece, twice   Marian: two tokenizers, one table of ids

The first two are in this file, sentencepiece in `convert_sentencepiece`. The files say how text is tokenised; the
special tokens around it are the family's convention (`conventions`). Files that do not say how to tokenise are refused:
a list of tokens can be applied to text in many ways, and the wrong one gives answers that look right.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import InputError
from glassformer.text.conventions import BERT, BERT_SPECIAL, DEFAULT_SPECIAL, begin_and_end, segments, use_special
from glassformer.text.convert_sentencepiece import from_sentencepiece, marian, sentencepiece_family
from glassformer.text.vocabulary_files import (
    NoTokenizerError,
    read_merges,
    read_tokens,
    read_vocabulary,
    require_key,
    unknown,
)

MADE_FROM = "vocab.txt, vocab.json and merges.txt, a sentencepiece .model, or source.spm and target.spm"
WORDPIECE_PREFIX = "##"  # before a piece that continues a word
IN_BRACKETS = re.compile(r"\[[^\]]+\]")  # special and unused tokens, which never come from text
NOISE_SHARE = 0.01  # share of the pieces that is ignored as noise
LISTED_TOKENS = 5  # in an error
BYTE_LEVEL = ("GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer", "RobertaTokenizer")
# A contraction, letters after at most one symbol, a single digit, symbols, line breaks, spaces.
QWEN_PIECE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class ConvertedTokenizer(NamedTuple):
    """A tokenizer made from other files."""

    backend: tokenizers.Tokenizer
    family: str
    target: tokenizers.Tokenizer | None = None  # for targets, if they are tokenised differently
    assumed: str = ""  # what was guessed from the vocabulary because no file says it, in words


def convert(folder: Path, family: str | None, settings: dict[str, Any], declared: str | None) -> ConvertedTokenizer:
    """The tokenizer of the files in a folder; `declared` is the family if the folder names it.

    Special tokens and other settings that the family adds are written to `settings`.
    """
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    known = (folder / name for name in ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"))
    pieces = next((file for file in (*known, *sorted(folder.glob("*.model"))) if file.is_file()), None)
    pair = [folder / f"{side}.spm" for side in ("source", "target")]
    if all(file.is_file() for file in [*pair, vocabulary]):
        backend, target = marian(folder, settings)
        return ConvertedTokenizer(backend, "MarianTokenizer", target)
    if pieces is not None:
        if family == "M2M100Tokenizer" and not vocabulary.is_file():
            family = "NllbTokenizer"  # both have the same model_type
        chosen = sentencepiece_family(family, pieces)
        return ConvertedTokenizer(
            from_sentencepiece(pieces, chosen, settings), chosen, assumed=assumed_class(family, chosen, pieces)
        )
    if vocabulary.is_file() and merges.is_file():
        chosen = byte_level_family(family, vocabulary)
        backend = byte_level(vocabulary, merges, chosen, settings)
        return ConvertedTokenizer(backend, chosen, assumed=assumed_class(family, chosen, vocabulary))
    if (folder / "vocab.txt").is_file():
        return wordpiece(folder / "vocab.txt", settings, declared)
    raise InputError(
        f"{folder} has no tokenizer.json, and nothing to make it from ({MADE_FROM}): expected a run or model folder "
        "with a tokenizer"
    )


def assumed_class(family: str | None, chosen: str, file: Path) -> str:
    if family is not None:
        return ""
    return (
        f"{file}: no file names the tokenizer's class, so it is read as {chosen}. To change that, write "
        "tokenizer_class to tokenizer_config.json"
    )


def wordpiece(file: Path, settings: dict[str, Any], declared: str | None) -> ConvertedTokenizer:
    """BERT's tokenizer: splits words into the longest known pieces; `##` marks a piece that continues a word."""
    if declared not in (None, BERT):
        raise unknown(declared, file)
    special = use_special(settings, BERT_SPECIAL)
    vocabulary = read_tokens(file)
    require_key(vocabulary, special, file, ("unk_token", "cls_token", "sep_token"))
    if declared is None:
        check_wordpiece(vocabulary, file)
    assumed = decide_case(vocabulary, settings, file, declared)
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk_token"]))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings["do_lower_case"],
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix=WORDPIECE_PREFIX)
    backend.post_processor = segments(backend, special)
    return ConvertedTokenizer(backend, BERT, assumed=assumed)


def check_wordpiece(vocabulary: Iterable[str], file: Path) -> None:
    """Refuses a list of tokens that neither is declared as WordPiece nor looks like it."""
    tokens = list(vocabulary)
    if not any(token.startswith(WORDPIECE_PREFIX) and token != WORDPIECE_PREFIX for token in tokens):
        some = ", ".join([repr(token) for token in tokens if not IN_BRACKETS.fullmatch(token)][:LISTED_TOKENS])
        raise NoTokenizerError(
            f"{file} does not say how to split text into its {len(tokens):,} tokens ({some}, ...), and no token begins "
            "with ## as in WordPiece. Add the model's tokenizer.json; or if it is WordPiece, write "
            '{"tokenizer_class": "BertTokenizer"} to tokenizer_config.json; or call the model with token ids, as in '
            f"gf.load({str(file.parent)!r})(input_ids)"
        )


def decide_case(vocabulary: Iterable[str], settings: dict[str, Any], file: Path, declared: str | None) -> str:
    """Writes `do_lower_case` if no file has it, and says so unless the declared class has the same default."""
    if settings.get("do_lower_case") is not None:
        return ""
    lower = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, lowercase=True)
    pieces = [token.removeprefix(WORDPIECE_PREFIX) for token in vocabulary if not IN_BRACKETS.fullmatch(token)]
    changed = sum(lower.normalize_str(piece) != piece for piece in pieces)
    settings["do_lower_case"] = changed <= NOISE_SHARE * len(pieces)
    if settings["do_lower_case"] and declared is not None:
        return ""
    reason = (
        "they are, because its pieces have no capital letters"
        if settings["do_lower_case"]
        else "they are not, because its pieces have capital letters or accents"
    )
    return (
        f"{file}: no file says whether texts are lower-cased; {reason}. To change that, write do_lower_case to "
        "tokenizer_config.json"
    )


def byte_level_family(family: str | None, file: Path) -> str:
    if family is None:
        tokens = read_vocabulary(file).keys()
        if not tokens >= set(pre_tokenizers.ByteLevel.alphabet()):
            raise NoTokenizerError(
                f"{file} is not a byte-level vocabulary: it has no token for some bytes, and no file names the "
                "tokenizer's class. Add the model's tokenizer.json, or write tokenizer_class to tokenizer_config.json"
            )
        return "RobertaTokenizer" if {"<s>", "</s>"} <= tokens else "GPT2Tokenizer"
    if family == "CLIPTokenizer":
        raise NoTokenizerError(f"{file}: a CLIP tokenizer is read from its tokenizer.json: add that file")
    if family not in BYTE_LEVEL:
        raise unknown(family, file)
    return family


def byte_level(vocabulary_file: Path, merges_file: Path, family: str, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    """GPT-2's tokenizer: BPE over bytes, so that no text is unknown."""
    vocabulary, merges = read_vocabulary(vocabulary_file), read_merges(merges_file)
    special = use_special(settings, DEFAULT_SPECIAL[family])
    try:
        model = models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False)
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(
            f"{merges_file} does not match {vocabulary_file.name} ({error}). Download both from the same source"
        ) from None
    backend = tokenizers.Tokenizer(model)
    prefix = bool(settings.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    if family == "RobertaTokenizer":
        require_key(vocabulary, special, vocabulary_file, ("cls_token", "sep_token"))
        begin, end = ((special[name], vocabulary[special[name]]) for name in ("cls_token", "sep_token"))
        trim = bool(settings.get("trim_offsets", True))
        backend.post_processor = processors.RobertaProcessing(end, begin, trim_offsets=trim, add_prefix_space=prefix)
        return backend
    if family != "GPT2Tokenizer":
        backend.normalizer = normalizers.NFC()
    if family == "Qwen2Tokenizer":
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(QWEN_PIECE), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False),
            ]
        )
    backend.post_processor = begin_and_end(backend, special, settings, begin=False)
    return backend
