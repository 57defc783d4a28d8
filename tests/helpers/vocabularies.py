"""Tiny vocabularies of every kind, trained here and stored as their families publish them; and our tokenizer next to
that of transformers."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import transformers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from glassformer.data.dates import date_pairs
from glassformer.text import Tokenizer, load_tokenizer

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Don't stop: it's 1,234.5 km to Paris in 2031!",
    "Hello world, how are you today? I am well, thank you.",
    "안녕하세요 세계, 오늘은 2031년 5월 1일 월요일입니다.",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다.",
    "Le café naïve déjà vu, où êtes-vous?",
]
TEXTS = [
    "Hello world",
    "The quick  brown   fox",
    "",
    " leading space",
    "안녕하세요 세계",
    "오늘은 2031년 5월",
    "한글",  # decomposed
    "emoji 😀🎉 here",
    "café naïve déjà",
    "1,234.5 and 2031",
    "tab\tand\nline",
    "ﬁ ligature and Ａ wide",
    "日本語 text",
    "aaaaaaaaaaaaaaaaaaaa",
    "Don't stop!",
    "unknown Ω signs ∂ here",
    "   ",
]


def corpus() -> list[str]:
    pairs = date_pairs(300, seed=0)
    return SENTENCES * 20 + [text for pair in pairs for text in (pair.source, pair.target)]


def write_json(folder: Path, name: str, values: Any) -> None:
    (folder / name).write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def train_sentencepiece(folder: Path, name: str, *, lines: list[str] | None = None, **options: Any) -> Path:
    options = {"vocab_size": 400, "model_type": "unigram", "hard_vocab_limit": False, "minloglevel": 2, **options}
    prefix = folder / "trained"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines or corpus()), model_prefix=str(prefix), num_threads=1, **options
    )
    (folder / "trained.vocab").unlink()
    return (folder / "trained.model").rename(folder / name)


def wordpiece(folder: Path) -> None:
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    backend.train_from_iterator(corpus(), trainer)
    vocabulary = backend.get_vocab()
    lines = sorted(vocabulary, key=vocabulary.__getitem__)
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def byte_level(folder: Path, special: list[str]) -> None:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(corpus(), trainer)
    backend.model.save(str(folder))


FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
LLAMA = {
    "model_type": "bpe",
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "split_digits": True,
}
GEMMA = {
    **LLAMA,
    "pad_id": 0,
    "eos_id": 1,
    "bos_id": 2,
    "unk_id": 3,
    "pad_piece": "<pad>",
    "eos_piece": "<eos>",
    "bos_piece": "<bos>",
    "add_dummy_prefix": False,
    "user_defined_symbols": ["\n\n", "▁▁", "▁▁▁", "<start_of_turn>"],
}
ALBERT = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "bos_piece": "[CLS]", "eos_piece": "[SEP]"}


def m2m100(folder: Path) -> None:
    file = train_sentencepiece(folder, "sentencepiece.bpe.model", model_type="bpe")
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    pieces = [model.id_to_piece(i) for i in range(3, len(model))]
    write_json(folder, "vocab.json", {token: i for i, token in enumerate([*FAIRSEQ[:4], *reversed(pieces)])})


def marian(folder: Path, **options: Any) -> None:
    pairs = date_pairs(300, seed=0)
    english = [text for text in SENTENCES if text.isascii()] * 20 + [pair.source for pair in pairs]
    korean = [text for text in SENTENCES if "다" in text] * 20 + [pair.target for pair in pairs]
    pieces: dict[str, None] = {}
    for side, lines in (("source", english), ("target", korean)):
        file = train_sentencepiece(folder, f"{side}.spm", lines=lines, vocab_size=250, **options)
        model = sentencepiece.SentencePieceProcessor(model_file=str(file))
        pieces |= dict.fromkeys(model.id_to_piece(i) for i in range(3, len(model)))
    tokens = ["</s>", "<unk>", *sorted(pieces), ">>kor<<", ">>fra<<", "<pad>"]
    write_json(folder, "vocab.json", {token: i for i, token in enumerate(tokens)})


BUILD: dict[str, Callable[[Path], Any]] = {
    "BertTokenizer": wordpiece,
    "DistilBertTokenizer": wordpiece,
    "GPT2Tokenizer": lambda folder: byte_level(folder, ["<|endoftext|>"]),
    "GPTNeoXTokenizer": lambda folder: byte_level(folder, ["<|endoftext|>", "<|padding|>"]),
    "Qwen2Tokenizer": lambda folder: byte_level(folder, ["<|endoftext|>"]),
    "RobertaTokenizer": lambda folder: byte_level(folder, FAIRSEQ),
    "BartTokenizer": lambda folder: byte_level(folder, FAIRSEQ),
    "T5Tokenizer": lambda folder: train_sentencepiece(folder, "spiece.model", **T5),
    "AlbertTokenizer": lambda folder: train_sentencepiece(
        folder, "spiece.model", user_defined_symbols=["[MASK]"], **ALBERT
    ),
    "XLMRobertaTokenizer": lambda folder: train_sentencepiece(folder, "sentencepiece.bpe.model"),
    "MBartTokenizer": lambda folder: train_sentencepiece(folder, "sentencepiece.bpe.model"),
    "MBart50Tokenizer": lambda folder: train_sentencepiece(folder, "sentencepiece.bpe.model"),
    "NllbTokenizer": lambda folder: train_sentencepiece(folder, "sentencepiece.bpe.model", model_type="bpe"),
    "M2M100Tokenizer": m2m100,
    "MarianTokenizer": marian,
    "LlamaTokenizer": lambda folder: train_sentencepiece(folder, "tokenizer.model", **LLAMA),
    "GemmaTokenizer": lambda folder: train_sentencepiece(folder, "tokenizer.model", **GEMMA),
}


def theirs_of(folder: Path, family: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Marian recommends a package
        return getattr(transformers, family).from_pretrained(folder)


def saved(tokenizer: Tokenizer, folder: Path) -> tuple[Tokenizer, Any]:
    """Our tokenizer and that of transformers, loaded from the saved files."""
    folder.mkdir()
    tokenizer.save(folder)
    return load_tokenizer(folder), transformers.AutoTokenizer.from_pretrained(folder)
