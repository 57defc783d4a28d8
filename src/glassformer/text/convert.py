"""Other people's vocabulary files -> `tokenizer.json`.

    vocab.txt                           WordPiece              BERT, DistilBERT, ELECTRA
    vocab.json + merges.txt             byte-level BPE         GPT-2, GPT-NeoX, Qwen2, RoBERTa, BART
    *.model                             sentencepiece          T5, ALBERT, XLM-R, mBART, NLLB, LLaMA, Gemma
    vocab.json + *.model                sentencepiece          M2M100: the pieces have other ids than in the model
    vocab.json + source.spm, target.spm sentencepiece, twice   Marian: two ways to cut, one table of ids

The files say how text is cut. What stands around it, and the order of the vocabulary, is what a family agreed on; it is
chosen by the `tokenizer_class` of `tokenizer_config.json`, or else by the `model_type` of `config.json`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from glassformer.errors import InputError, nearest
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

Settings = Mapping[str, Any]

BERT = "BertTokenizer"
BERT_SPECIAL = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
FAIRSEQ = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
END_OF_TEXT = "<|endoftext|>"
# The special tokens of a family where its files do not name them.
DEFAULT_SPECIAL: dict[str, dict[str, str]] = {
    BERT: BERT_SPECIAL,
    "GPT2Tokenizer": dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
    "GPTNeoXTokenizer": {
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
        "pad_token": "<|padding|>",
    },
    "Qwen2Tokenizer": dict.fromkeys(("eos_token", "pad_token", "unk_token"), END_OF_TEXT),
    "RobertaTokenizer": FAIRSEQ,
    "T5Tokenizer": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "AlbertTokenizer": {
        **BERT_SPECIAL,
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
    },
    "XLMRobertaTokenizer": FAIRSEQ,
    "MBartTokenizer": FAIRSEQ,
    "MBart50Tokenizer": {name: token for name, token in FAIRSEQ.items() if name != "bos_token"},
    "NllbTokenizer": FAIRSEQ,
    "M2M100Tokenizer": {name: token for name, token in FAIRSEQ.items() if name not in ("cls_token", "mask_token")},
    "MarianTokenizer": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "GemmaTokenizer": {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"},
}
SAME = {  # classes that cut as another does
    "DistilBertTokenizer": BERT,
    "ElectraTokenizer": BERT,
    "MobileBertTokenizer": BERT,
    "ConvBertTokenizer": BERT,
    "BartTokenizer": "RobertaTokenizer",
    "LongformerTokenizer": "RobertaTokenizer",
    "LEDTokenizer": "RobertaTokenizer",
    "CodeLlamaTokenizer": "LlamaTokenizer",
}
MODEL_TYPES = {
    **dict.fromkeys(("bert", "distilbert", "electra", "mobilebert", "convbert"), BERT),
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "opt", "phi"), "GPT2Tokenizer"),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "Qwen2Tokenizer"),
    **dict.fromkeys(("roberta", "bart", "longformer", "led"), "RobertaTokenizer"),
    **dict.fromkeys(("t5", "mt5", "umt5", "switch_transformers"), "T5Tokenizer"),
    **dict.fromkeys(("llama", "mistral", "mixtral", "phi3"), "LlamaTokenizer"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3_text"), "GemmaTokenizer"),
    "gpt_neox": "GPTNeoXTokenizer",
    "albert": "AlbertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "mbart": "MBartTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "nllb": "NllbTokenizer",
    "nllb-moe": "NllbTokenizer",
    "marian": "MarianTokenizer",
}
GENERIC = ("PreTrainedTokenizer", "TokenizersBackend", "PythonBackend")  # says nothing about the special tokens
MADE_FROM = "vocab.txt, vocab.json and merges.txt, a sentencepiece .model, or source.spm and target.spm"


def family_of(settings: Settings, config: Settings) -> str | None:
    """The class that names the conventions, if the folder tells."""
    for name in (settings.get("tokenizer_class"), config.get("tokenizer_class")):
        name = str(name or "").removesuffix("Fast")
        if name and name not in GENERIC:
            return SAME.get(name, name)
    return MODEL_TYPES.get(str(config.get("model_type")))


def convert(
    folder: Path, family: str | None, settings: dict[str, Any]
) -> tuple[tokenizers.Tokenizer, tokenizers.Tokenizer | None, str]:
    """The tokenizer of the files in a folder, that of its targets if they are cut in another way, and the family.

    Special tokens and the like that the family adds are written to `settings`.
    """
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    pieces = next(iter(sorted(folder.glob("*.model"))), None)
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
    vocabulary = {line.rstrip("\n"): i for i, line in enumerate(read_text(file).split("\n")) if line or i == 0}
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


BYTE_LEVEL = ("GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer", "RobertaTokenizer")


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
    backend.add_special_tokens([token for token in special.values() if token])
    backend.post_processor = begin_and_end(backend, special, settings, begin=False)
    return backend


# A contraction, letters with one sign before them, a single digit, signs, line breaks, spaces.
QWEN_PIECE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def sentencepiece_family(family: str | None, file: Path) -> str:
    if family is None and file.name == "tokenizer.model":
        return "LlamaTokenizer"
    if family is None:
        raise InputError(
            f"{file}: neither the tokenizer_class of tokenizer_config.json nor the model_type of config.json says "
            f"which special tokens belong to it. Write a tokenizer_class, one of {', '.join(SENTENCEPIECE)}"
        )
    if family not in SENTENCEPIECE:
        raise unknown(family, file)
    return family


def from_sentencepiece(file: Path, family: str, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    """The file's own rules, with the family's order of the vocabulary and its special tokens."""
    special = use_special(settings, DEFAULT_SPECIAL[family])
    spec = read_sentencepiece(file)
    pieces, unk_id = spec.pieces, spec.unk_id
    if family == "M2M100Tokenizer":
        vocabulary = read_vocabulary(file.parent / "vocab.json")
        require(vocabulary, special, file.parent / "vocab.json", ("unk_token", "eos_token"))
        pieces, unk_id = reordered(pieces, vocabulary, file), vocabulary[special["unk_token"]]
    elif DEFAULT_SPECIAL[family].get("cls_token") == "<s>":
        # fairseq's four come first, in its own order; those of the file are left out
        first = [special.get(name, "<s>") for name in ("bos_token", "pad_token", "eos_token", "unk_token")]
        pieces, unk_id = [*(Piece(token, 0.0, CONTROL) for token in first), *pieces[3:]], 3
    elif family == "AlbertTokenizer":
        # "9," is read as "9" and ",": numbers with commas are cut alike wherever the comma stands
        pieces = [replace(piece, score=piece.score - 100) if ends_in_number(piece.text) else piece for piece in pieces]
    more = further_tokens(family, settings)
    named = {*special.values(), *map(content, settings.get("additional_special_tokens") or [])}
    pieces = [replace(p, kind=CONTROL) if p.kind == USER_DEFINED and p.text in named else p for p in pieces]
    pieces = [*pieces, *(Piece(token, 0.0, CONTROL) for token in more)]
    if special.get("mask_token") not in {None, *(piece.text for piece in pieces)}:
        pieces = [*pieces, Piece(special["mask_token"], 0.0, UNUSED)]  # the last of the vocabulary
    backend = backend_of(
        spec,
        pieces,
        unk_id,
        prefix_once=family == "LlamaTokenizer" and not settings.get("legacy", False),
        keep_end=family in ("MBart50Tokenizer", "NllbTokenizer"),  # as transformers does
    )
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
    """What the vocabulary of a family has behind the pieces of its file."""
    if family == "T5Tokenizer":
        extra = [f"<extra_id_{i}>" for i in range(settings.get("extra_ids", 100))]
        settings["additional_special_tokens"] = extra
        return extra[::-1]  # the first of them stands last
    if family == "M2M100Tokenizer" and settings.get("language_codes") == "wmt21":
        return [f"__{code}__" for code in WMT21.split()]
    return LANGUAGES.get(family, [])


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


def marian(folder: Path, settings: dict[str, Any]) -> tuple[tokenizers.Tokenizer, tokenizers.Tokenizer]:
    """Two sentencepiece models over the ids of one `vocab.json` (or of two, with `target_vocab.json`)."""
    special = use_special(settings, DEFAULT_SPECIAL["MarianTokenizer"])
    sides = []
    for side, table in (("source", "vocab.json"), ("target", "target_vocab.json")):
        table_file = folder / (table if settings.get("separate_vocabs") else "vocab.json")
        vocabulary = read_vocabulary(table_file)
        require(vocabulary, special, table_file, tuple(special))
        spec = read_sentencepiece(folder / f"{side}.spm")
        pieces = reordered(spec.pieces, vocabulary, folder / f"{side}.spm")
        if spec.model_type == UNIGRAM:
            # Pieces of the other side keep their ids. Their scores grow worse with the square of their length, so that
            # one is taken only for a single character this side does not know.
            own = {piece.text for piece in spec.pieces}
            pieces = [p if p.text in own else replace(p, score=-1000.0 * len(p.text) ** 2) for p in pieces]
        backend = backend_of(spec, pieces, vocabulary[special["unk_token"]])
        backend.normalizer = normalizers.Sequence([*filter(None, [backend.normalizer]), one_unknown(spec.pieces)])
        backend.add_special_tokens(list(special.values()))
        codes = [token for token in vocabulary if TOKEN.fullmatch(token) and token.startswith(">>")]
        backend.add_tokens([AddedToken(code, normalized=False) for code in codes])
        backend.post_processor = template(backend, "$A {end}", "$A $B {end}", special)
        sides.append(backend)
    return sides[0], sides[1]


def one_unknown(pieces: list[Piece]) -> normalizers.Normalizer:
    """Characters in a row that sentencepiece does not know are one unknown token, whatever the other side knows."""
    known = "".join(piece.text for piece in pieces if len(piece.text) == 1) + SPACE + " "
    return normalizers.Replace(Regex(f"[^{re.escape(known)}]{{2,}}"), NOWHERE)


NOWHERE = "\ue000"  # a private character, in no vocabulary


def reordered(pieces: list[Piece], vocabulary: dict[str, int], file: Path) -> list[Piece]:
    """The pieces in the order of `vocab.json`; what it has beyond them is never cut out of a text."""
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise InputError(
            f"{file.parent / 'vocab.json'}: its ids are not 0 to {len(vocabulary) - 1}. Is the file whole?"
        )
    known = {piece.text: piece for piece in pieces}
    return [known.get(token, Piece(token, 0.0, UNUSED)) for token in sorted(vocabulary, key=vocabulary.__getitem__)]


def albert_steps(settings: Settings) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    return steps


def ends_in_number(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def template(backend: tokenizers.Tokenizer, single: str, pair: str, special: Settings) -> processors.PostProcessor:
    names = {"bos": special.get("bos_token"), "end": special.get("eos_token")}
    used = {token for name, token in names.items() if token is not None and f"{{{name}}}" in single + pair}
    return processors.TemplateProcessing(
        single=single.format(**names).split(),
        pair=pair.format(**names).split(),
        special_tokens=[(token, backend.token_to_id(token)) for token in sorted(used)],
    )


def segments(backend: tokenizers.Tokenizer, special: Settings) -> processors.PostProcessor:
    """`[CLS] text [SEP]`, or `[CLS] text [SEP] pair [SEP]`, whose second part is of type 1."""
    begin, end = special["cls_token"], special["sep_token"]
    return processors.TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (begin, end)],
    )


def begin_and_end(
    backend: tokenizers.Tokenizer, special: Settings, settings: Settings, *, begin: bool
) -> processors.PostProcessor:
    """What `add_bos_token` and `add_eos_token` say; `begin` is whether a text begins with a token if they do not."""
    bos = "{bos}" if settings.get("add_bos_token", begin) and special.get("bos_token") else ""
    end = "{end}" if settings.get("add_eos_token", False) and special.get("eos_token") else ""
    first, second = (
        " ".join(f"{part}:{i}" for part in (bos, text, end) if part) for i, text in enumerate(("$A", "$B"))
    )
    return template(backend, first, f"{first} {second}", special)


def use_special(settings: dict[str, Any], defaults: Mapping[str, str]) -> dict[str, str]:
    """Writes the family's special tokens where the folder names none; those that it sets to null stay out."""
    for name, token in defaults.items():
        settings.setdefault(name, token)
    return {name: content(settings[name]) for name in defaults if settings[name] is not None}


def content(token: Any) -> str:
    """A token is a string or `{"content": ..., "lstrip": ...}`."""
    return str(token["content"] if isinstance(token, Mapping) else token)


def unknown(family: str, file: Path) -> InputError:
    known = nearest(family, DEFAULT_SPECIAL)
    return InputError(f"{file}: tokenizer_class {family!r} is not known for this file{known}. Or add a tokenizer.json")


def require(vocabulary: Mapping[str, int], special: Mapping[str, str], file: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if special.get(name) not in vocabulary:
            raise InputError(
                f"{file} has no token {special.get(name)!r}, the {name}. Is the file whole? Or name the {name} in "
                "tokenizer_config.json"
            )


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text ({error}). Is the file whole? Fetch it again") from None


def read_vocabulary(file: Path) -> dict[str, int]:
    if not file.is_file():
        raise InputError(f"{file.parent} has no {file.name}: expected the table of its ids. Fetch it too")
    try:
        values = json.loads(read_text(file))
    except ValueError as error:
        raise InputError(f"{file} is not JSON ({error}). Is the file whole? Fetch it again") from None
    if not isinstance(values, dict) or not all(isinstance(i, int) for i in values.values()):
        raise InputError(f"{file}: expected a table of tokens and their ids, as in " + '{"the": 12}')
    return values


def read_merges(file: Path) -> list[tuple[str, str]]:
    pairs = [line.split(" ") for line in read_text(file).split("\n") if line and not line.startswith("#version")]
    for pair in pairs:
        if len(pair) != 2:
            raise InputError(f"{file}: the line {' '.join(pair)!r}: expected two pieces with a space between them")
    return [(left, right) for left, right in pairs]
