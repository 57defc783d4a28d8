"""Trains a new tokenizer on texts.

    bpe           starts from characters and merges frequent pairs (Sennrich et al., 2016)
    bytes         the same, starting from bytes, so that no text is ever unknown or changed (Radford et al., 2019)
    unigram       keeps the subwords that make the text most likely (Kudo, 2018)
    wordpiece     subwords, with ## before those that do not begin a word (Schuster and Nakajima, 2012)
    characters    each character that occurs

`bytes` and `characters` are lossless, as a language model needs. The same texts in the same order give the same
tokenizer.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from glassformer.errors import InputError, did_you_mean
from glassformer.schema import shown
from glassformer.text.conventions import END_OF_TEXT, segments, template
from glassformer.text.tokenizer import SPACE, Tokenizer

TokenizerKind = Literal["bpe", "bytes", "unigram", "wordpiece", "characters"]
# The special tokens around a text: an end token, start and end tokens, nothing (a language model continues the text),
# or BERT's segments.
SpecialTokenPlacement = Literal["end", "both", "nothing", "segments"]
SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
# A text may contain "<s>" or "<unk>"; lossless tokenizers use special tokens that hardly occur in texts.
LOSSLESS = {"pad_token": "<|padding|>", "bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT}
START_OF_TEXT = "<|startoftext|>"
UNKNOWN_TOKEN = {"unk_token": "<|unknown|>"}
SEGMENTS = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
# Splits words, numbers and punctuation marks; a space belongs to the word that follows it.
PRE_TOKEN_PATTERN = r" ?[^\s\d\p{P}]+| ?\d+|\p{P}|\s+"
WORDPIECE_PREFIX = "##"
PRIVATE = 0xF0000  # start of Unicode's private-use planes, 131,072 characters
MAX_VOCABULARY = 10_000_000  # of a vocabulary: the library reserves memory for the requested size
STEP = 0.0001  # between the scores that the library gives to pruned characters


def train_tokenizer(
    lines: Iterable[str],
    vocab_size: int,
    kind: TokenizerKind = "bpe",
    *,
    around: SpecialTokenPlacement | None = None,
    lowercase: bool = False,
) -> Tokenizer:
    """Trains a tokenizer on these lines, which are read once: at most `vocab_size` tokens, fewer for little text.

    `around` sets the special tokens around a text: "end" by default, "nothing" for the lossless kinds. "both" adds
    start and end tokens, as in CLIP. "segments" adds BERT's tokens (`[CLS] text [SEP] pair [SEP]`, and `[MASK]`).
    """
    if kind not in TRAIN:
        raise InputError(f"unknown kind of tokenizer {kind!r}{did_you_mean(str(kind), TRAIN)}")
    lossless = kind in ("bytes", "characters")
    around = around or ("nothing" if lossless else "end")
    if around not in get_args(SpecialTokenPlacement):
        raise InputError(
            f"unknown value {around!r} of around{did_you_mean(str(around), get_args(SpecialTokenPlacement))}"
        )
    if lowercase and lossless:
        raise InputError(f"lowercase: a tokenizer of {kind} never changes the text. Leave lowercase out")
    special = {
        **(LOSSLESS if lossless else SPECIAL_TOKENS),
        **(UNKNOWN_TOKEN if kind == "characters" else {}),
        **(SEGMENTS if around == "segments" else {}),
    }
    if around == "both":  # end before start: the end must not get id 2, which has another meaning in CLIP's config.json
        start = START_OF_TEXT if lossless else special["bos_token"]
        first = {"pad_token": special["pad_token"], "eos_token": special["eos_token"], "bos_token": start}
        special = {**first, **{name: token for name, token in special.items() if name not in first}}
    tokens = list(dict.fromkeys(special.values()))
    least = len(tokens) + (len(pre_tokenizers.ByteLevel.alphabet()) if kind == "bytes" else 1)
    if vocab_size < least:
        raise InputError(f"vocab_size {vocab_size}: expected {least} or more for a tokenizer of {kind}")
    if vocab_size > MAX_VOCABULARY:
        raise InputError(f"vocab_size {shown(vocab_size)}: expected at most {MAX_VOCABULARY:,} (--vocab-size)")
    backend = TRAIN[kind](checked(lines), vocab_size, tokens, special, lowercase)
    backend.add_special_tokens(tokens)
    if around == "end":
        backend.post_processor = template(backend, "$A {end}", "$A {end} $B:1 {end}:1", special)
    elif around == "both":
        backend.post_processor = template(backend, "{bos} $A {end}", "{bos} $A {end} $B:1 {end}:1", special)
    elif around == "segments":
        backend.post_processor = segments(backend, special)
    typed = ["token_type_ids"] if around == "segments" else []
    return Tokenizer(backend, {**special, "model_input_names": ["input_ids", *typed, "attention_mask"]})


def checked(lines: Iterable[str]) -> Iterator[str]:
    if isinstance(lines, str):
        raise InputError(f"a single text {lines[:40]!r} was given: expected a list of lines")
    empty = True
    for line in lines:
        empty = empty and not line.strip()
        yield line
    if empty:
        raise InputError("no text to train a tokenizer on: expected lines with words")


def train_bpe(
    lines: Iterable[str], vocab_size: int, tokens: list[str], special: dict[str, str], lowercase: bool
) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE(unk_token=special["unk_token"]))
    split_into_words(backend, lowercase)
    normalize = backend.normalizer.normalize_str
    learn_merges(backend, lines, vocab_size, tokens, lambda line: SPACE + normalize(line).replace(" ", SPACE))
    return backend


def learn_merges(
    backend: tokenizers.Tokenizer,
    lines: Iterable[str],
    vocab_size: int,
    tokens: list[str],
    characters: Callable[[str], str],
) -> None:
    """Trains a BPE model; `characters` gives the characters of a line as the model sees them.

    If they do not all fit, the library drops some of the rarest at random. Here code points break the tie.
    """
    seen: Counter[str] = Counter()

    def counted() -> Iterator[str]:
        for line in lines:
            seen.update(characters(line))
            yield line

    backend.train_from_iterator(counted(), bpe_trainer(vocab_size, tokens))
    if len(seen) > vocab_size - len(tokens):
        backend.model = models.BPE(most_frequent(seen, vocab_size, tokens), [], unk_token=backend.model.unk_token)


def most_frequent(seen: Counter[str], vocab_size: int, tokens: list[str]) -> dict[str, int]:
    """A vocabulary of the most frequent characters, in the order of their code points."""
    frequent = sorted(seen, key=lambda character: (-seen[character], character))[: vocab_size - len(tokens)]
    return {token: i for i, token in enumerate([*tokens, *sorted(frequent)])}


def bpe_trainer(vocab_size: int, tokens: list[str], alphabet: Sequence[str] = ()) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        limit_alphabet=vocab_size - len(tokens),
        initial_alphabet=list(alphabet),
        special_tokens=tokens,
        show_progress=False,
        min_frequency=2,
    )


def train_bytes(
    lines: Iterable[str], vocab_size: int, tokens: list[str], special: dict[str, str], lowercase: bool
) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    # All 256 of them, so that any text can be written.
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(lines, bpe_trainer(vocab_size, tokens, alphabet))
    return backend


def train_unigram(
    lines: Iterable[str], vocab_size: int, tokens: list[str], special: dict[str, str], lowercase: bool
) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.Unigram())
    split_into_words(backend, lowercase)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size, special_tokens=tokens, unk_token=special["unk_token"], show_progress=False
    )
    too_small = InputError(
        f"vocab_size {vocab_size}: these texts have more distinct characters, and unigram keeps all of them. "
        "Choose a larger vocab_size, or another kind"
    )
    try:
        backend.train_from_iterator(lines, trainer)
    except Exception as error:  # the library has no error class for it
        raise too_small if "not large enough" in str(error) else error from None
    vocabulary = [(piece, score) for piece, score in json.loads(backend.to_str())["model"]["vocab"]]
    if len(vocabulary) > vocab_size:
        raise too_small
    ordered = [*vocabulary[: len(tokens)], *without_ties(vocabulary[len(tokens) :])]
    backend.model = models.Unigram(ordered, tokens.index(special["unk_token"]), False)
    return backend


def without_ties(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same pieces with deterministic scores.

    The trainer's order of summation is random, which shows in the last digits. It also visits the pruned characters in
    random order and gives each a score one step from the previous one. Here the steps follow the alphabet.
    """
    lowest = min((score for _, score in pieces), default=0.0)
    steps = {piece: (score - lowest) / STEP for piece, score in pieces if len(piece) == 1}
    pruned = {piece: round(step) for piece, step in steps.items() if abs(step - round(step)) < 1e-4}
    for piece, step in zip(sorted(pruned), sorted(pruned.values()), strict=True):
        pruned[piece] = step
    scores = {piece: lowest + STEP * pruned[piece] if piece in pruned else score for piece, score in pieces}
    rounded = ((piece, round(score, 6)) for piece, score in scores.items())
    return sorted(rounded, key=lambda entry: (-entry[1], entry[0]))


def train_wordpiece(
    lines: Iterable[str], vocab_size: int, tokens: list[str], special: dict[str, str], lowercase: bool
) -> tokenizers.Tokenizer:
    """The library's own trainer orders the continuing characters at random. So BPE is trained on words in which each
    character is replaced by one private character at the start of a word and another elsewhere; its tokens are then
    translated back."""
    normalizer, pre_tokenizer = nfc_normalizer(lowercase), pre_tokenizers.BertPreTokenizer()
    signs: dict[tuple[str, bool], str] = {}

    @lru_cache(maxsize=1 << 16)
    def disguise(word: str) -> str:
        both = ((character, place > 0) for place, character in enumerate(word))
        return "".join(signs.setdefault(key, chr(PRIVATE + len(signs))) for key in both)

    disguised = (
        " ".join(disguise(word) for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(line)))
        for line in lines
    )
    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learn_merges(learner, disguised, vocab_size, tokens, lambda line: line.replace(" ", ""))
    meant = {sign: key for key, sign in signs.items()}
    vocabulary: dict[str, int] = {}
    for token, i in learner.get_vocab().items():
        if token in tokens:
            vocabulary[token] = i
        else:
            prefix = WORDPIECE_PREFIX if meant[token[0]][1] else ""
            vocabulary[prefix + "".join(meant[sign][0] for sign in token)] = i
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk_token"]))
    backend.normalizer, backend.pre_tokenizer = normalizer, pre_tokenizer
    backend.decoder = decoders.WordPiece(prefix=WORDPIECE_PREFIX)
    return backend


def train_characters(
    lines: Iterable[str], vocab_size: int, tokens: list[str], special: dict[str, str], lowercase: bool
) -> tokenizers.Tokenizer:
    """BPE without merges: every character is a token."""
    seen: Counter[str] = Counter()
    for line in lines:
        seen.update(line)
    vocabulary = most_frequent(seen, vocab_size, tokens)
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=special["unk_token"]))
    backend.decoder = decoders.Fuse()
    return backend


def split_into_words(backend: tokenizers.Tokenizer, lowercase: bool) -> None:
    backend.normalizer = nfc_normalizer(lowercase)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKEN_PATTERN), behavior="isolated"),
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first", split=False),
        ]
    )
    backend.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="first")


def nfc_normalizer(lowercase: bool) -> normalizers.Normalizer:
    """Composes accents and Hangul syllables (NFC), and optionally lower-cases."""
    return normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]) if lowercase else normalizers.NFC()


TRAIN: dict[str, Callable[[Iterable[str], int, list[str], dict[str, str], bool], Any]] = {
    "bpe": train_bpe,
    "bytes": train_bytes,
    "unigram": train_unigram,
    "wordpiece": train_wordpiece,
    "characters": train_characters,
}
