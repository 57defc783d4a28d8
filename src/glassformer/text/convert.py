"""Other people's vocabulary files -> `tokenizer.json`.

    vocab.txt                           WordPiece              BERT, DistilBERT, ELECTRA
    vocab.json + merges.txt             byte-level BPE         GPT-2, GPT-NeoX, Qwen2, RoBERTa, BART
    *.model                             sentencepiece          T5, ALBERT, XLM-R, mBART, NLLB, LLaMA, Gemma
    vocab.json + *.model                sentencepiece          M2M100: the pieces have other ids than in the model
    vocab.json + source.spm, target.spm sentencepiece, twice   Marian: two ways to cut, one table of ids

The first two are on this page, sentencepiece's on the next (`convert_sentencepiece`). The files say how text is cut;
what stands around it is the family's convention (`conventions`).
"""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import InputError
from glassformer.text.conventions import BERT, BERT_SPECIAL, DEFAULT_SPECIAL, begin_and_end, segments, use_special
from glassformer.text.convert_sentencepiece import from_sentencepiece, marian, sentencepiece_family
from glassformer.text.vocabulary_files import read_merges, read_text, read_vocabulary, require, unknown

MADE_FROM = "vocab.txt, vocab.json and merges.txt, a sentencepiece .model, or source.spm and target.spm"
BYTE_LEVEL = ("GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer", "RobertaTokenizer")
# A contraction, letters with one sign before them, a single digit, signs, line breaks, spaces.
QWEN_PIECE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def convert(
    folder: Path, family: str | None, settings: dict[str, Any]
) -> tuple[tokenizers.Tokenizer, tokenizers.Tokenizer | None, str]:
    """The tokenizer of the files in a folder, that of its targets if they are cut in another way, and the family.

    Special tokens and the like that the family adds are written to `settings`.
    """
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    known = (folder / name for name in ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"))
    pieces = next((file for file in (*known, *sorted(folder.glob("*.model"))) if file.is_file()), None)
    pair = [folder / f"{side}.spm" for side in ("source", "target")]
    if all(file.is_file() for file in [*pair, vocabulary]):
        return *marian(folder, settings), "MarianTokenizer"
    if pieces is not None:
        if family == "M2M100Tokenizer" and not vocabulary.is_file():
            family = "NllbTokenizer"  # its models share the model_type
        family = sentencepiece_family(family, pieces)
        return from_sentencepiece(pieces, family, settings), None, family
    if vocabulary.is_file() and merges.is_file():
        family = byte_level_family(family, vocabulary)
        return byte_level(vocabulary, merges, family, settings), None, family
    if (folder / "vocab.txt").is_file():
        return wordpiece(folder / "vocab.txt", settings), None, BERT
    raise InputError(
        f"{folder} has no tokenizer.json, and nothing to make it from ({MADE_FROM}): expected a run or model folder "
        "with a tokenizer"
    )


def wordpiece(file: Path, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    """BERT's: words cut into the longest pieces that are known; `##` marks what continues a word."""
    special = use_special(settings, BERT_SPECIAL)
    vocabulary = {line: i for i, line in enumerate(read_text(file).split("\n")) if line}
    require(vocabulary, special, file, ("unk_token", "cls_token", "sep_token"))
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk_token"]))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.post_processor = segments(backend, special)
    return backend


def byte_level_family(family: str | None, file: Path) -> str:
    if family is None:
        return "RobertaTokenizer" if {"<s>", "</s>"} <= read_vocabulary(file).keys() else "GPT2Tokenizer"
    if family not in BYTE_LEVEL:
        raise unknown(family, file)
    return family


def byte_level(vocabulary_file: Path, merges_file: Path, family: str, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    """GPT-2's: pairs of bytes merged, so that no text is unknown."""
    vocabulary, merges = read_vocabulary(vocabulary_file), read_merges(merges_file)
    special = use_special(settings, DEFAULT_SPECIAL[family])
    try:
        model = models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False)
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(
            f"{merges_file} does not fit {vocabulary_file.name} ({error}). Fetch both from the same place"
        ) from None
    backend = tokenizers.Tokenizer(model)
    prefix = bool(settings.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    if family == "RobertaTokenizer":
        require(vocabulary, special, vocabulary_file, ("cls_token", "sep_token"))
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
