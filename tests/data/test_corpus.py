"""A corpus on disk and in memory: its content, splits, and rewriting."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from helpers.shared import shared
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.corpus import Corpus, corpus_from_texts, open_corpus, write_corpus
from glassformer.data.documents import document_parts, documents_of_text
from glassformer.errors import InputError
from glassformer.text import Tokenizer, train_tokenizer

TEXT = "The first line.\nThe second, 둘째 줄 😀.\n\nA new paragraph\twith a tab,\nand an end.\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([TEXT] * 3, 300, "bytes")


def documents(corpus: Corpus, tokenizer: Tokenizer) -> list[str]:
    """The texts of a corpus: its tokens from the start of each document to the next."""
    borders = [int(start) - corpus.first for start in corpus.starts if corpus.first < start < corpus.last]
    return [tokenizer.decode(ids.tolist()) for ids in np.split(corpus.tokens, borders) if len(ids)]


def test_the_documents_of_every_kind_of_file_come_back(tmp_path: Path, tokenizer: Tokenizer) -> None:
    texts = [TEXT, "Another, short one.", TEXT * 3]
    (tmp_path / "a.txt").write_text(texts[0], encoding="utf-8", newline="")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(texts[1].encode()))
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": texts[2]}) + '\n{"text": " "}\n', encoding="utf-8")
    (tmp_path / "d.csv").write_text(f'id,text\n1,"{texts[0]}"\n', encoding="utf-8", newline="")
    files = [tmp_path / name for name in ("a.txt", "b.txt.gz", "c.jsonl", "d.csv")]
    corpus = write_corpus(files, tokenizer, tmp_path / "corpus")
    assert documents(corpus, tokenizer) == [*texts, texts[0]]
    assert corpus.num_documents == 4
    assert corpus.counts.empty_documents == 1
    assert corpus.num_bytes == sum(len(text.encode()) for text in [*texts, texts[0]])
    assert corpus.num_unknown == 0
    assert (corpus.tokens == tokenizer.eos_token_id).sum() == 4
    assert not list((tmp_path / "corpus").glob("*.partial"))
    in_memory = corpus_from_texts([*texts, "", texts[0]], tokenizer)
    assert (in_memory.tokens == corpus.tokens).all()
    assert in_memory.counts == corpus.counts


def test_separators(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.txt").write_text("\n\none\ntwo\n \n\nthree\n\n", encoding="utf-8")
    corpus = write_corpus([tmp_path / "a.txt"], tokenizer, tmp_path / "a", document_separator="blank lines")
    assert documents(corpus, tokenizer) == ["one\ntwo", "three"]
    (tmp_path / "b.txt").write_text("one\n\ntwo\n<|end|>\nthree<|end|>", encoding="utf-8")
    corpus = write_corpus([tmp_path / "b.txt"], tokenizer, tmp_path / "b", document_separator="<|end|>")
    assert documents(corpus, tokenizer) == ["one\n\ntwo", "three"]
    with pytest.raises(InputError, match="document_separator is empty"):
        write_corpus([tmp_path / "b.txt"], tokenizer, tmp_path / "c", document_separator="")


@given(
    st.lists(st.text("ab \n", max_size=30), max_size=8),
    st.integers(1, 9),
    st.integers(4, 12),
    st.sampled_from(["<|>", None]),
)
def test_blocks_and_pieces_of_any_size_give_the_same_documents(
    parts: list[str], block: int, size: int, separator: str | None
) -> None:
    text = "\n<|>\n".join(parts)
    found: list[str] = []
    done = True
    for piece in documents_of_text((text[i : i + block] for i in range(0, len(text), block)), separator, size):
        assert piece.begins == done
        found = [*found, piece.text] if piece.begins else [*found[:-1], found[-1] + piece.text]
        done = piece.ends
    assert done
    if separator is None:
        assert "".join(found) == (text if text.strip() else "")
    else:
        # A long blank text is a document in several parts; only short ones are recognised as empty.
        assert [part for part in found if part.strip()] == [part for part in parts if part.strip()]


def test_a_long_document_is_cut_where_tokens_end() -> None:
    text = shared("shakespeare/input.txt").read_text(encoding="utf-8")[:300_000]
    tokenizer = train_tokenizer(text[:100_000].split("\n"), 600, "bytes")
    pieces = list(document_parts(text))
    assert len(pieces) > 5
    assert "".join(piece.text for piece in pieces) == text
    assert corpus_from_texts([text], tokenizer).tokens.tolist() == [*tokenizer.ids(text), tokenizer.eos_token_id]


def test_a_second_call_uses_what_is_there_until_something_changes(tmp_path: Path, tokenizer: Tokenizer) -> None:
    source, out = tmp_path / "a.txt", tmp_path / "corpus"
    source.write_text(TEXT, encoding="utf-8")

    def made() -> int:
        write_corpus([source], tokenizer, out)
        return (out / "tokens.bin").stat().st_ino

    first = made()
    assert made() == first
    source.write_text(TEXT * 2, encoding="utf-8")
    second = made()
    assert second != first
    assert len(documents(open_corpus(out), tokenizer)[0]) == 2 * len(TEXT)
    os.utime(source, (1, 1))
    third = made()
    assert third != second
    other = write_corpus([source], train_tokenizer([TEXT] * 3, 290, "bytes"), out)
    assert (out / "tokens.bin").stat().st_ino != third
    assert other.num_bytes == 2 * len(TEXT.encode())


def test_a_call_that_fails_leaves_the_corpus_as_it_was(tmp_path: Path, tokenizer: Tokenizer) -> None:
    good, bad, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "corpus"
    good.write_text('{"text": "one"}\n', encoding="utf-8")
    bad.write_text('{"text": "one"}\n{"txt": "two"}\n', encoding="utf-8")
    write_corpus([good], tokenizer, out)
    with pytest.raises(InputError, match=r"b\.jsonl, line 2 has the columns txt, but none called 'text'"):
        write_corpus([bad], tokenizer, out)
    assert documents(open_corpus(out), tokenizer) == ["one"]


def test_what_is_no_corpus_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"has no index\.json: expected a corpus"):
        open_corpus(tmp_path)
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    write_corpus([tmp_path / "a.txt"], tokenizer, tmp_path / "corpus")
    content = (tmp_path / "corpus" / "tokens.bin").read_bytes()
    (tmp_path / "corpus" / "tokens.bin").write_bytes(content[:-2])
    with pytest.raises(
        InputError, match=r"has \d+ tokens of 1 documents, but its index\.json says \d+ of 1\. Delete it"
    ):
        open_corpus(tmp_path / "corpus")
    (tmp_path / "empty.txt").write_text(" \n", encoding="utf-8")
    with pytest.raises(InputError, match=r"empty\.txt: no text found"):
        write_corpus([tmp_path / "empty.txt"], tokenizer, tmp_path / "other")
    with pytest.raises(InputError, match=r"nowhere\.txt: there is no such file"):
        write_corpus([tmp_path / "nowhere.txt"], tokenizer, tmp_path / "other")


def test_a_split_is_at_a_document_if_one_is_near(tokenizer: Tokenizer) -> None:
    texts = [f"This is text number {i}.\n" for i in range(50)]
    training, held_out = corpus_from_texts(texts, tokenizer).split(0.1, tokenizer)
    assert documents(training, tokenizer) + documents(held_out, tokenizer) == texts
    assert (training.num_documents, held_out.num_documents) == (45, 5)
    assert held_out.num_bytes == sum(len(text) for text in texts[45:])
    again, valid = training.split(0.1, tokenizer)
    assert documents(again, tokenizer) + documents(valid, tokenizer) == texts[:45]
    assert (valid.num_bytes, again.num_bytes) == (sum(map(len, texts[41:45])), sum(map(len, texts[:41])))


def test_a_split_of_one_document_is_between_two_tokens_and_knows_the_bytes(tokenizer: Tokenizer) -> None:
    text = TEXT + "둘째 줄 😀 " * 40 + TEXT
    corpus = corpus_from_texts([text], tokenizer)
    for fraction in np.linspace(0.03, 0.97, 60):
        training, held_out = corpus.split(float(fraction), tokenizer)
        assert abs(len(held_out) - fraction * len(corpus)) <= 8
        (first,), (second,) = documents(training, tokenizer), documents(held_out, tokenizer)
        assert first + second == text
        assert (training.num_bytes, held_out.num_bytes) == (len(first.encode()), len(second.encode()))
    characters = train_tokenizer([text], 1000, "characters")
    training, held_out = corpus_from_texts([text], characters).split(0.1, characters)
    assert len(held_out) == round(0.1 * (len(text) + 1))


def test_a_split_where_bytes_cannot_be_counted_is_between_pieces(tokenizer: Tokenizer) -> None:
    lossy = train_tokenizer(["word and word"] * 3, 30)
    with pytest.raises(InputError, match="no part of 602 tokens can be held out"):
        corpus_from_texts(["word and  ü word " * 100], lossy).split(0.1, lossy)
    text = "word and ü word\n" * 20_000
    training, held_out = corpus_from_texts([text], lossy).split(0.2, lossy)
    assert training.num_bytes + held_out.num_bytes == len(text.encode())
    assert abs(held_out.num_bytes / len(text.encode()) - 0.2) < 0.06
    assert training.num_unknown == 3 * training.num_bytes // 17  # the ü and the newline
    for fraction in (0, 1, 2):
        with pytest.raises(InputError, match="expected a fraction between 0 and 1"):
            training.split(fraction, lossy)


def test_unknown_bytes_are_counted() -> None:
    characters = train_tokenizer(["abc"], 100, "characters")
    corpus = corpus_from_texts(["abcü둘a"], characters)
    assert (corpus.num_bytes, corpus.num_unknown) == (9, 5)


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    characters = train_tokenizer(["".join(map(chr, range(0x4E00, 0x4E00 + 100)))], 200, "characters")
    many = [f"<{i}>" for i in range(70_000)]
    characters.backend.add_tokens(many)
    (tmp_path / "a.txt").write_text("<69999>一<0>", encoding="utf-8")
    corpus = write_corpus([tmp_path / "a.txt"], characters, tmp_path / "corpus")
    assert corpus.tokens.dtype.itemsize == 4
    assert corpus.tokens[0] == characters.id_of("<69999>")


def test_too_little_for_a_corpus(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="no text given: expected at least one document"):
        corpus_from_texts([" "], tokenizer)
    one = corpus_from_texts(["word"], train_tokenizer(["word"] * 3, 100, "bpe"))
    with pytest.raises(InputError, match=r"a corpus of \d tokens is too short to hold some out"):
        one.part(0, 1, (0, 0), (4, 0)).split(0.5, tokenizer)
    (tmp_path / "index.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"is not a complete corpus \('tokens'\). Delete it and make it again"):
        open_corpus(tmp_path)
